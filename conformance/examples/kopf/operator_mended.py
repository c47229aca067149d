"""The operator of operator.py, mended: a Secret that exists is as good as one that is created."""

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
    try:
        client.CoreV1Api().create_namespaced_secret(namespace, secret)
    except client.ApiException as error:
        if error.status != 409:
            raise
    # Not by kopf's `patch`, which a crash between two of its requests would lose.
    client.CustomObjectsApi().patch_namespaced_custom_object_status(
        "example.com", "v1", namespace, "shops", name, {"status": {"phase": "Open"}}
    )
