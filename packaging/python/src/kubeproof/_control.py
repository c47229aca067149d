"""Requests to the control endpoints of a server, and the few requests for objects that the fixtures need."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_TIMEOUT_SECONDS = 30.0
_BAD_REQUEST = 400


class ControlError(RuntimeError):
    """The server has refused a request. The message is the server's, ``code`` its HTTP status."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Control:
    """A client of the control endpoints, ``/kubeproof/v1``.

    ``resource`` is a plural with its group, such as ``pods`` or ``deployments.apps``. Without it a method applies to all resources.
    Each method raises ``ControlError`` if the server refuses the request.
    """

    def __init__(self, url: str, *, token: str | None = None, authority: str | None = None) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if authority is not None:
            context = ssl.create_default_context(cadata=authority)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    def compact(self, resource: str | None = None) -> None:
        """Forgets past events: a watch from an older version ends with 410 Expired."""
        self._post("compact", resource=resource)

    def bookmark_watches(self, resource: str | None = None) -> None:
        """Sends a bookmark to every watch that allows bookmarks."""
        self._post("watches/bookmark", resource=resource)

    def close_watches(self, resource: str | None = None) -> None:
        """Ends watches as if their time were up."""
        self._post("watches/close", resource=resource)

    def drop_watches(self, resource: str | None = None) -> None:
        """Breaks the connections of watches."""
        self._post("watches/drop", resource=resource)

    def expire_watches(self, resource: str | None = None) -> None:
        """Ends watches with 410 Expired, so that clients list again."""
        self._post("watches/expire", resource=resource)

    def restart(self) -> None:
        """Does what clients see of a restart: watches break, past events are forgotten."""
        self._post("restart")

    def jump(self, duration: str) -> None:
        """Sets the clock forward by a duration such as ``10m``, or back by a negative one."""
        self._post("clock", jump=duration)

    def advance(self, duration: str) -> None:
        """Lets a duration such as ``10h`` pass at once, and returns when all that happens in it has happened.

        The server has to run under virtual time: ``Kubeproof(args=["--virtual-time"])``.
        """
        self._post("clock", advance=duration)

    def snapshot(self) -> str:
        """Returns everything that is stored, one JSON object a line, as ``kubeproof serve --from-log`` reads it."""
        return self.request("GET", "/kubeproof/v1/snapshot").decode()

    def import_objects(self, objects: Iterable[Mapping[str, Any]], *, replace: bool = False) -> dict[str, Any]:
        """Takes in all objects or none, and those with a uid and a version as they were in their cluster.

        With ``replace`` objects that exist are replaced; without it they are an error. Returns the numbers ``stored`` and
        ``unchanged``, and the lists ``leftOut`` and ``warnings``.
        """
        body = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        path = "/kubeproof/v1/import" + ("?replace=true" if replace else "")
        result: dict[str, Any] = json.loads(self.request("POST", path, body))
        return result

    def put_metric(self, value: Mapping[str, Any]) -> None:
        """Puts a value of a custom or external metric, or takes it away if it has no ``value``.

        Its fields are those of a scenario's ``metric`` step.
        """
        self.request("POST", "/kubeproof/v1/metrics", value)

    def metrics(self) -> list[dict[str, Any]]:
        """Returns the values that were put."""
        items: list[dict[str, Any]] = json.loads(self.request("GET", "/kubeproof/v1/metrics"))["items"]
        return items

    def inject(self, fault: Mapping[str, Any]) -> None:
        """Injects a fault, which has the form of a scenario's ``fault`` step."""
        self.request("POST", "/kubeproof/v1/faults", fault)

    def lift(self, name: str) -> None:
        """Lifts the faults of that name."""
        self.request("DELETE", f"/kubeproof/v1/faults/{urllib.parse.quote(name, safe='')}")

    def faults(self) -> list[dict[str, Any]]:
        """Returns all faults that were ever injected: ``name``, and ``met``, the number of requests that each has affected."""
        items: list[dict[str, Any]] = json.loads(self.request("GET", "/kubeproof/v1/faults"))["items"]
        return items

    def lift_all(self) -> None:
        """Lifts every fault that still acts."""
        for name in sorted({fault["name"] for fault in self.faults()}):
            self._lift_if_active(name)

    @contextmanager
    def fault(self, fault: Mapping[str, Any]) -> Iterator[None]:
        """Injects a fault for as long as a ``with`` block."""
        self.inject(fault)
        try:
            yield
        finally:
            self._lift_if_active(fault["name"])

    def _lift_if_active(self, name: str) -> None:
        try:
            self.lift(name)
        except ControlError as error:
            if error.code != _BAD_REQUEST:
                raise

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """Sends a request to any path of the server, with a body of JSON, and returns the body of the response."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json", "Content-Type": "application/json", **self._headers}
        request = urllib.request.Request(self._url + path, data=data, headers=headers, method=method)
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
                content: bytes = response.read()
                return content
        except urllib.error.HTTPError as error:
            with error:
                raise ControlError(_message(error.read()), error.code) from None

    def _post(self, endpoint: str, **parameters: str | None) -> None:
        query = urllib.parse.urlencode({key: value for key, value in parameters.items() if value is not None})
        self.request("POST", f"/kubeproof/v1/{endpoint}" + (f"?{query}" if query else ""))


def _message(body: bytes) -> str:
    """The message of a Status, or the text itself."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")
