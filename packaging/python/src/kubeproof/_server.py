"""The server as a process of a test."""

from __future__ import annotations

import base64
import json
import os
import re
import selectors
import shutil
import subprocess
import tempfile
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Literal

from ._control import Control
from ._program import find_program

_ANNOUNCEMENT = "listening on "
_STOP_SECONDS = 10.0


class StartError(RuntimeError):
    """The server has ended, or has not listened in time."""


class Kubeproof:
    """A server in memory, on a free port of loopback.

    It is ready when ``start`` returns, or when its ``with`` block begins. It ends with ``stop``, with the block, with the Python process,
    and also when that process is killed.

    - ``nodes``: the number of simulated nodes, on which pods run.
    - ``controllers``: ``all``, ``none``, or names between commas.
    - ``load``: manifests, or directories of them, that are created before the server listens.
    - ``from_log``: a log or snapshot with whose state the server starts. Controllers and nodes run only if they are asked for.
    - ``tls``, ``token``: serve over TLS; ask for a bearer token.
    - ``pace``: ``fast``, or ``real`` for the durations of a cluster.
    - ``args``: further flags of ``kubeproof serve``.
    - ``program``: the program, instead of the one that ``find_program`` finds.
    - ``start_seconds``: the longest time that a start may take.
    """

    def __init__(
        self,
        *,
        nodes: int = 0,
        controllers: str | None = None,
        load: Sequence[str | os.PathLike[str]] = (),
        from_log: str | os.PathLike[str] | None = None,
        tls: bool = False,
        token: str | None = None,
        pace: Literal["fast", "real"] = "fast",
        args: Sequence[str] = (),
        program: str | os.PathLike[str] | None = None,
        start_seconds: float = 60.0,
    ) -> None:
        flags = ["--exit-with-parent", "--nodes", str(nodes), "--pace", pace]
        if controllers is not None:
            flags += ["--controllers", controllers]
        for manifest in load:
            flags += ["--load", os.fspath(manifest)]
        if from_log is not None:
            flags += ["--from-log", os.fspath(from_log)]
        if tls:
            flags.append("--tls")
        if token is not None:
            flags += ["--token", token]
        self._flags = [*flags, *args]
        self._token = token
        self._program = program
        self._start_seconds = start_seconds
        self._running: _Running | None = None

    def start(self) -> Kubeproof:
        """Starts the server and returns when it listens.

        Raises ``StartError`` with the server's own words if it does not.
        """
        if self._running is not None:
            raise RuntimeError("the server is running")
        program = os.fspath(self._program or find_program())
        directory = Path(tempfile.mkdtemp(prefix="kubeproof-"))
        try:
            self._running = _Running(self, program, directory)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return self

    def stop(self) -> None:
        """Ends the server, and deletes its kubeconfig. A server that does not run is left alone."""
        if self._running is not None:
            self._running.finalizer()
            self._running = None

    def __enter__(self) -> Kubeproof:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The URL of the server."""
        return self._started().url

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig for the administrator, which only the user can read. It goes with the server."""
        return self._started().kubeconfig

    @property
    def control(self) -> Control:
        """The client of the control endpoints: faults, clock, watches, state."""
        return self._started().control

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._started().process.pid

    @property
    def output(self) -> str:
        """What the server has written to standard error."""
        return self._started().stderr.read_text(errors="replace")

    @contextmanager
    def namespace(self, prefix: str = "test-") -> Iterator[str]:
        """Creates a namespace whose name begins with ``prefix``, and deletes it after the ``with`` block."""
        name = self._started().create_namespace(prefix)
        try:
            yield name
        finally:
            if self._running is not None:
                self.control.request("DELETE", f"/api/v1/namespaces/{name}")

    def _started(self) -> _Running:
        if self._running is None:
            raise RuntimeError("the server is not running")
        return self._running


class _Running:
    """The process and the files of a server."""

    def __init__(self, server: Kubeproof, program: str, directory: Path) -> None:
        self.kubeconfig = directory / "kubeconfig.yaml"
        self.stderr = directory / "stderr"
        command = [program, "serve", "--kubeconfig-out", str(self.kubeconfig), *server._flags]
        with self.stderr.open("wb") as stderr:
            # A Ctrl-C of the terminal ends the tests, which end the server.
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
            )
        # Also runs when the server is collected and when Python ends.
        self.finalizer = weakref.finalize(server, _end, self.process, directory, os.getpid())
        try:
            self.url = self._announced(server._start_seconds)
            self.control = Control(self.url, token=server._token, authority=self._authority())
        except BaseException:
            self.finalizer()
            raise

    def _announced(self, seconds: float) -> str:
        assert self.process.stdout is not None
        line = _first_line(self.process.stdout, time.monotonic() + seconds)
        if line is not None and line.startswith(_ANNOUNCEMENT):
            return line.removeprefix(_ANNOUNCEMENT).strip()
        said = self.stderr.read_text(errors="replace").strip()
        what = f"kubeproof does not listen after {seconds:g} s" if line is None else "kubeproof has ended"
        raise StartError(f"{what}: {said}" if said else what)

    def _authority(self) -> str | None:
        """The certificate in the kubeconfig, if the server has one."""
        found = re.search(r"certificate-authority-data:(?: >-)?\s+(\S+)", self.kubeconfig.read_text())
        return base64.b64decode(found[1]).decode() if found else None

    def create_namespace(self, prefix: str) -> str:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": prefix}}
        created = json.loads(self.control.request("POST", "/api/v1/namespaces", body))
        return str(created["metadata"]["name"])


def _first_line(stream: IO[bytes], deadline: float) -> str | None:
    """The first line of a pipe, or what it had when it was closed; ``None`` if the deadline passes before."""
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while b"\n" not in line:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                return None
            part = os.read(stream.fileno(), 4096)
            if not part:
                break
            line += part
    return line.decode(errors="replace")


def _end(process: subprocess.Popen[bytes], directory: Path, owner: int) -> None:
    # A fork of the process that has started the server leaves it alone.
    if os.getpid() != owner:
        return
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
    shutil.rmtree(directory, ignore_errors=True)
