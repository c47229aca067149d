"""An operator as kopf's users write it: a Shop has a Deployment, whose ready replicas the status shows."""

import kopf
from kubernetes import client, config

LABEL = "example.com/shop"


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    config.load_kube_config()
    settings.posting.enabled = False


@kopf.on.create("example.com", "v1", "shops", backoff=0.1)
@kopf.on.update("example.com", "v1", "shops", field="spec.replicas", backoff=0.1)
def apply(name, namespace, spec, **_):
    labels = {LABEL: name}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": spec["replicas"],
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "shop", "image": "nginx"}]}},
        },
    }
    kopf.adopt(deployment)
    apps = client.AppsV1Api()
    try:
        apps.create_namespaced_deployment(namespace, deployment)
    except client.ApiException as error:
        if error.reason != "Conflict":
            raise
        apps.patch_namespaced_deployment(name, namespace, deployment)


@kopf.on.field("apps", "v1", "deployments", field="status.readyReplicas", labels={LABEL: kopf.PRESENT})
def count(name, namespace, new, labels, **_):
    client.CustomObjectsApi().patch_namespaced_custom_object_status(
        "example.com", "v1", namespace, "shops", labels[LABEL], {"status": {"readyReplicas": new or 0}}
    )
