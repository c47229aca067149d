"""An operator with kopf: a Shop gets a Secret, and its status says when it is open."""

import kopf
from kubernetes import client, config


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    config.load_kube_config()
    settings.posting.enabled = False


@kopf.on.create("example.com", "v1", "shops", backoff=0.2)
def open_shop(name, namespace, spec, **_):
    secret = {"metadata": {"name": f"{name}-key"}, "stringData": {"key": spec["key"]}}
    kopf.adopt(secret)
    # If the answer is lost, the Secret exists when kopf tries again, and the shop never opens.
    client.CoreV1Api().create_namespaced_secret(namespace, secret)
    # Not by kopf's `patch`, which a crash between two of its requests would lose.
    client.CustomObjectsApi().patch_namespaced_custom_object_status(
        "example.com", "v1", namespace, "shops", name, {"status": {"phase": "Open"}}
    )
