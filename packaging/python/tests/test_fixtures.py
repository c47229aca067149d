"""Each fixture, as a test uses it."""

import os

import pytest
from kubernetes.client import ApiException, CoreV1Api

CONFIGMAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "value"}}


def test_the_client_of_kubernetes(kubernetes_client, kubeproof_namespace):
    core = CoreV1Api(kubernetes_client)
    core.create_namespaced_config_map(kubeproof_namespace, CONFIGMAP)
    assert core.read_namespaced_config_map("a", kubeproof_namespace).data == {"key": "value"}


def test_the_client_of_lightkube(lightkube_client, kubeproof_namespace):
    from lightkube.resources.core_v1 import ConfigMap

    lightkube_client.create(ConfigMap.from_dict(CONFIGMAP))
    found = lightkube_client.get(ConfigMap, "a")
    assert (found.metadata.namespace, found.data) == (kubeproof_namespace, {"key": "value"})


def test_the_client_of_kr8s(kr8s_api, kubeproof_namespace):
    from kr8s.objects import ConfigMap

    ConfigMap(CONFIGMAP, namespace=kubeproof_namespace, api=kr8s_api).create()
    [found] = [one for one in kr8s_api.get("configmaps") if one.name == "a"]
    assert (found.namespace, found.raw["data"]["key"]) == (kubeproof_namespace, "value")


def test_a_namespace_begins_empty(kubernetes_client, kubeproof_namespace):
    with pytest.raises(ApiException) as refused:
        CoreV1Api(kubernetes_client).read_namespaced_config_map("a", kubeproof_namespace)
    assert refused.value.status == 404


def test_the_kubeconfig_is_that_of_the_environment(kubeproof, kubeproof_kubeconfig):
    assert os.environ["KUBECONFIG"] == str(kubeproof_kubeconfig)
    assert kubeproof.url in kubeproof_kubeconfig.read_text()
    assert kubeproof_kubeconfig.stat().st_mode & 0o777 == 0o600


def test_a_fresh_server_is_another_one(kubeproof, fresh_kubeproof):
    assert fresh_kubeproof.url != kubeproof.url


def test_a_fault_that_a_test_leaves_acts(kubeproof, kubernetes_client, kubeproof_namespace):
    refusal = {"name": "left", "on": {"verb": "create", "resource": "configmaps"}, "refuse": {"code": 500}}
    kubeproof.control.inject(refusal)
    with pytest.raises(ApiException) as refused:
        CoreV1Api(kubernetes_client).create_namespaced_config_map(kubeproof_namespace, CONFIGMAP)
    assert refused.value.status == 500


def test_a_fault_that_a_test_left_is_lifted(kubeproof, kubernetes_client, kubeproof_namespace):
    assert "left" in [fault["name"] for fault in kubeproof.control.faults()]
    CoreV1Api(kubernetes_client).create_namespaced_config_map(kubeproof_namespace, CONFIGMAP)
