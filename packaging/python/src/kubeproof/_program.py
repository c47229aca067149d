"""The place of the program ``kubeproof``."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

NAME = "kubeproof"


class ProgramNotFound(FileNotFoundError):
    """The program ``kubeproof`` is neither named nor installed."""


def find_program() -> Path:
    """Returns the path of the program ``kubeproof``.

    The environment variable ``KUBEPROOF_BINARY`` names it. Otherwise it is the one that was installed with this package, or the
    first on the ``PATH``.

    Raises ``ProgramNotFound`` if there is none, or if ``KUBEPROOF_BINARY`` names no file that can be executed.
    """
    named = os.environ.get("KUBEPROOF_BINARY")
    if named:
        if not _is_program(Path(named)):
            raise ProgramNotFound(f"KUBEPROOF_BINARY={named} is not a program")
        return Path(named)
    for directory in _script_directories():
        path = directory / NAME
        if _is_program(path):
            return path
    on_path = shutil.which(NAME)
    if on_path:
        return Path(on_path)
    raise ProgramNotFound(
        "the program kubeproof is not installed; install a wheel of kubeproof for this platform, or set KUBEPROOF_BINARY"
    )


def _script_directories() -> list[Path]:
    """The directories into which installers write the scripts of this environment."""
    schemes = [sysconfig.get_path("scripts")]
    user = f"{os.name}_user"
    if user in sysconfig.get_scheme_names():
        schemes.append(sysconfig.get_path("scripts", user))
    # `pip install --target DIR` writes scripts into DIR/bin.
    target = Path(__file__).resolve().parent.parent / "bin"
    return [*map(Path, schemes), Path(sys.executable).parent, target]


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
