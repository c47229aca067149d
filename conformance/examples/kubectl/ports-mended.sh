# The controller of ports.sh, mended: the ports that are taken are read from the claims, so there is no second write to
# lose.

next_port() {
  taken=$(kubectl get configmaps --selector=claim=port,granted --output=jsonpath='{range .items[*]}{.data.port}{"\n"}{end}') || return
  echo "$taken" | sort --numeric-sort --reverse | { read -r highest; echo $((${highest:-8079} + 1)); }
}

while sleep 0.2; do
  for claim in $(kubectl get configmaps --selector=claim=port,!granted --output=name); do
    port=$(next_port) || continue
    kubectl patch "$claim" --type=merge --patch="{\"data\":{\"port\":\"$port\"},\"metadata\":{\"labels\":{\"granted\":\"yes\"}}}"
  done
done
