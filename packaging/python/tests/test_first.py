"""The first test of docs/install.md."""

from kubernetes.client import AppsV1Api
from kubernetes.watch import Watch

WEB = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx:1.27"}]},
        },
    },
}


def test_a_deployment_gets_ready(kubernetes_client, kubeproof_namespace):
    apps = AppsV1Api(kubernetes_client)
    apps.create_namespaced_deployment(kubeproof_namespace, WEB)
    events = Watch().stream(apps.list_namespaced_deployment, kubeproof_namespace, timeout_seconds=60)
    assert any(event["object"].status.ready_replicas == 2 for event in events)
