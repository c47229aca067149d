"""Fixtures for pytest: a server for the session, a namespace for each test, and clients.

Override ``kubeproof_options`` to choose what the server has::

    @pytest.fixture(scope="session")
    def kubeproof_options():
        return {"nodes": 3, "load": ["config/crd"]}
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import Kubeproof


@pytest.fixture(scope="session")
def kubeproof_options() -> dict[str, Any]:
    """The arguments of ``Kubeproof``: one node and all controllers, unless this fixture is overridden."""
    return {"nodes": 1}


@pytest.fixture(scope="session")
def kubeproof_server(kubeproof_options: dict[str, Any]) -> Iterator[Kubeproof]:
    """The server of the session, without the care that ``kubeproof`` takes after each test."""
    with Kubeproof(**kubeproof_options) as server:
        yield server


@pytest.fixture
def kubeproof(kubeproof_server: Kubeproof) -> Iterator[Kubeproof]:
    """The server of the session. Faults that a test injects are lifted after it."""
    yield kubeproof_server
    kubeproof_server.control.lift_all()


@pytest.fixture
def fresh_kubeproof(kubeproof_options: dict[str, Any]) -> Iterator[Kubeproof]:
    """A server for one test, for example one that sets the clock or changes objects outside of its namespace."""
    with Kubeproof(**kubeproof_options) as server:
        yield server


@pytest.fixture
def kubeproof_namespace(kubeproof: Kubeproof) -> Iterator[str]:
    """The name of a namespace for this test, which is deleted after it."""
    with kubeproof.namespace() as name:
        yield name


@pytest.fixture
def kubeproof_kubeconfig(kubeproof: Kubeproof, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the kubeconfig, which is also ``KUBECONFIG`` during the test, as operators and programs read it."""
    path = str(kubeproof.kubeconfig)
    monkeypatch.setenv("KUBECONFIG", path)
    # The package `kubernetes` reads the variable once, when it is imported.
    if importlib.util.find_spec("kubernetes"):
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", path)
    return kubeproof.kubeconfig


@pytest.fixture
def kubernetes_client(kubeproof: Kubeproof) -> Iterator[Any]:
    """An ``ApiClient`` of the package ``kubernetes``: ``CoreV1Api(kubernetes_client)``."""
    config = _import("kubernetes.config", "kubernetes")
    with config.new_client_from_config(config_file=str(kubeproof.kubeconfig)) as client:
        yield client


@pytest.fixture
def lightkube_client(kubeproof: Kubeproof, kubeproof_namespace: str) -> Any:
    """A ``Client`` of the package ``lightkube``, with the namespace of the test as its default."""
    lightkube = _import("lightkube", "lightkube")
    config = lightkube.KubeConfig.from_file(kubeproof.kubeconfig)
    return lightkube.Client(config=config, namespace=kubeproof_namespace, field_manager="test")


@pytest.fixture
def kr8s_api(kubeproof: Kubeproof, kubeproof_namespace: str) -> Any:
    """The synchronous API of the package ``kr8s``, with the namespace of the test as its default."""
    kr8s = _import("kr8s", "kr8s")
    return kr8s.api(kubeconfig=str(kubeproof.kubeconfig), namespace=kubeproof_namespace)


def _import(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise pytest.UsageError(f"this fixture needs `pip install 'kubeproof[{extra}]'`: {error}") from error
