#!/usr/bin/env bash
# Installs the program for the steps that follow: KUBEBUILDER_ASSETS for envtest, KUBEPROOF_BINARY for the packages of other
# languages, the PATH, and KUBEPROOF_LOG, where each control plane leaves a log and a page.
set -euo pipefail

home=$RUNNER_TEMP/kubeproof
mkdir -p "$home/reports"
if [ -n "${INPUT_BINARY:-}" ]; then
    program=$(realpath "$INPUT_BINARY")
else
    python3 -m venv "$home/venv"
    "$home/venv/bin/python" -m pip install --quiet "kubeproof${INPUT_VERSION:+==$INPUT_VERSION}"
    program=$home/venv/bin/kubeproof
fi
"$program" --version
mkdir -p "$home/bin"
ln -sf "$program" "$home/bin/kubeproof"
assets=$("$program" envtest --into "$home/envtest")
{
    echo "KUBEBUILDER_ASSETS=$assets"
    echo "KUBEPROOF_BINARY=$program"
    echo "KUBEPROOF_LOG=$home/reports"
    if [ -n "${INPUT_CONTROLLERS:-}" ]; then echo "KUBEPROOF_CONTROLLERS=$INPUT_CONTROLLERS"; fi
    if [ -n "${INPUT_NODES:-}" ]; then echo "KUBEPROOF_NODES=$INPUT_NODES"; fi
} >>"$GITHUB_ENV"
echo "$home/bin" >>"$GITHUB_PATH"
{
    echo "program=$program"
    echo "reports=$home/reports"
} >>"$GITHUB_OUTPUT"
