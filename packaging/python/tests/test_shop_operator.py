"""The operator with kopf's own runner, on a server of the plugin."""

import time
from pathlib import Path

import pytest
from kopf.testing import KopfRunner
from kubernetes import client

OPERATOR = str(Path(__file__).parent / "shop_operator.py")
SHOPS = ("example.com", "v1")


def wait_until(holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.fixture
def operator(kubeproof_kubeconfig, kubeproof_namespace):
    with KopfRunner(["run", "--standalone", "--namespace", kubeproof_namespace, OPERATOR], timeout=60) as runner:
        yield runner
    assert runner.exit_code == 0, runner.output
    assert runner.exception is None


@pytest.fixture
def shops(kubernetes_client):
    return client.CustomObjectsApi(kubernetes_client)


def shop(name, replicas):
    return {
        "apiVersion": "example.com/v1",
        "kind": "Shop",
        "metadata": {"name": name},
        "spec": {"replicas": replicas},
    }


def ready(shops, namespace, name):
    return shops.get_namespaced_custom_object(*SHOPS, namespace, "shops", name).get("status", {}).get("readyReplicas")


def test_a_shop_has_pods_and_takes_them_along(operator, shops, kubernetes_client, kubeproof_namespace):
    shops.create_namespaced_custom_object(*SHOPS, kubeproof_namespace, "shops", shop("web", 2))
    wait_until(lambda: ready(shops, kubeproof_namespace, "web") == 2)
    shops.patch_namespaced_custom_object(*SHOPS, kubeproof_namespace, "shops", "web", {"spec": {"replicas": 3}})
    wait_until(lambda: ready(shops, kubeproof_namespace, "web") == 3)
    shops.delete_namespaced_custom_object(*SHOPS, kubeproof_namespace, "shops", "web")
    pods = client.CoreV1Api(kubernetes_client)
    wait_until(lambda: not pods.list_namespaced_pod(kubeproof_namespace).items)


def test_a_refused_deployment_is_tried_again(operator, kubeproof, shops, kubeproof_namespace):
    refusal = {
        "name": "busy",
        "on": {"verb": "create", "resource": "deployments.apps"},
        "times": 1,
        "refuse": {"code": 503, "reason": "ServiceUnavailable"},
    }
    with kubeproof.control.fault(refusal):
        shops.create_namespaced_custom_object(*SHOPS, kubeproof_namespace, "shops", shop("web", 1))
        wait_until(lambda: ready(shops, kubeproof_namespace, "web") == 1)
    assert {"name": "busy", "met": 1} in kubeproof.control.faults()


def test_the_operator_survives_broken_watches(operator, kubeproof, shops, kubeproof_namespace):
    shops.create_namespaced_custom_object(*SHOPS, kubeproof_namespace, "shops", shop("one", 1))
    wait_until(lambda: ready(shops, kubeproof_namespace, "one") == 1)
    kubeproof.control.restart()
    shops.create_namespaced_custom_object(*SHOPS, kubeproof_namespace, "shops", shop("two", 1))
    wait_until(lambda: ready(shops, kubeproof_namespace, "two") == 1)
