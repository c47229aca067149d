//! The objects that a node's pods refer to.

use crate::json::Value;
use crate::meta::GroupVersionResource;
use crate::storage::{ObjectKey, Storage};

/// The annotation of the mirror of a static pod, which gives a node no permission.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Volume sources of pods whose `secretRef` names a secret.
const WITH_SECRET_REF: [&str; 7] = [
    "cephfs",
    "cinder",
    "flexVolume",
    "rbd",
    "scaleIO",
    "iscsi",
    "storageos",
];
/// Secrets of CSI volumes that kubelets read; other secrets are the controllers'.
const CSI_SECRETS: [&str; 3] = [
    "nodePublishSecretRef",
    "nodeStageSecretRef",
    "nodeExpandSecretRef",
];

/// The kinds of objects that nodes may read if they have to do with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Attachment,
    Claim,
    ConfigMap,
    Pod,
    ResourceClaim,
    ResourceSlice,
    Secret,
    ServiceAccount,
    Volume,
}

/// The references of the objects that belong to a node.
#[derive(Clone, Copy)]
pub(super) struct References<'a> {
    pub(super) storage: &'a Storage,
    pub(super) node: &'a str,
}

impl References<'_> {
    /// Whether they lead to the object.
    pub(super) fn lead_to(self, kind: Kind, namespace: &str, name: &str) -> bool {
        let node_of = |group: &str, resource: &str, namespace: Option<&str>| {
            let key = ObjectKey::new(namespace, name);
            let found = self.storage.table(&gvr(group, resource)).get(&key);
            found.is_some_and(|own| own.value()["spec"]["nodeName"] == self.node)
        };
        match kind {
            Kind::Pod => node_of("", "pods", Some(namespace)),
            Kind::Attachment => node_of("storage.k8s.io", "volumeattachments", None),
            Kind::ResourceSlice => node_of("resource.k8s.io", "resourceslices", None),
            Kind::ServiceAccount => {
                self.a_pod(namespace, |pod| pod["spec"]["serviceAccountName"] == name)
            }
            Kind::ConfigMap => self.a_pod(namespace, |pod| names(pod, &CONFIG_MAPS, name)),
            Kind::ResourceClaim => self.a_pod(namespace, |pod| claims_resource(pod, name)),
            Kind::Claim => self.a_pod(namespace, |pod| claims(pod, name)),
            Kind::Volume => {
                let key = ObjectKey::new(None, name);
                let volume = self.storage.table(&gvr("", "persistentvolumes")).get(&key);
                volume.is_some_and(|volume| self.has_volume(&volume.value()))
            }
            Kind::Secret => {
                let by_pod = |pod: &Value| {
                    names(pod, &SECRETS, name)
                        || items(&pod["spec"]["imagePullSecrets"]).any(|own| own["name"] == name)
                        || items(&pod["spec"]["volumes"]).any(|own| secret_of(own) == Some(name))
                };
                self.a_pod(namespace, by_pod) || self.a_volume(namespace, name)
            }
        }
    }

    /// Whether a pod of the node in `namespace` is one that `refers`.
    fn a_pod(self, namespace: &str, refers: impl Fn(&Value) -> bool) -> bool {
        let pods = self.storage.table(&gvr("", "pods")).snapshot();
        pods.range(Some(namespace), None).any(|pod| {
            let pod = pod.value();
            pod["spec"]["nodeName"] == self.node
                && pod["metadata"]["annotations"][MIRROR].is_null()
                && refers(&pod)
        })
    }

    /// Whether a volume of the node's pods needs the secret.
    fn a_volume(self, namespace: &str, secret: &str) -> bool {
        let volumes = self.storage.table(&gvr("", "persistentvolumes")).snapshot();
        volumes.range(None, None).any(|volume| {
            let volume = volume.value();
            needs(&volume, namespace, secret) && self.has_volume(&volume)
        })
    }

    /// Whether a pod of the node claims the volume.
    fn has_volume(self, volume: &Value) -> bool {
        let claim = &volume["spec"]["claimRef"];
        let text = |field: &str| claim[field].as_str().unwrap_or_default();
        !claim.is_null() && self.a_pod(text("namespace"), |pod| claims(pod, text("name")))
    }
}

/// The fields of containers and of projected volumes that name objects of a kind.
struct Fields {
    env_from: &'static str,
    env: &'static str,
    volume: &'static str,
    volume_name: &'static str,
}

const CONFIG_MAPS: Fields = Fields {
    env_from: "configMapRef",
    env: "configMapKeyRef",
    volume: "configMap",
    volume_name: "name",
};
const SECRETS: Fields = Fields {
    env_from: "secretRef",
    env: "secretKeyRef",
    volume: "secret",
    volume_name: "secretName",
};

/// Whether the containers or volumes of a pod name an object of a kind.
fn names(pod: &Value, fields: &Fields, name: &str) -> bool {
    let spec = &pod["spec"];
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let mut containers = lists.iter().flat_map(|list| items(&spec[*list]));
    let by_container = |container: &Value| {
        items(&container["envFrom"]).any(|own| own[fields.env_from]["name"] == name)
            || items(&container["env"]).any(|own| own["valueFrom"][fields.env]["name"] == name)
    };
    let mut volumes = items(&spec["volumes"]);
    let by_volume = |volume: &Value| {
        volume[fields.volume][fields.volume_name] == name
            || items(&volume["projected"]["sources"]).any(|own| own[fields.volume]["name"] == name)
    };
    !name.is_empty() && (containers.any(by_container) || volumes.any(by_volume))
}

/// The secret with which a volume of a pod is mounted.
fn secret_of(volume: &Value) -> Option<&str> {
    let refs = WITH_SECRET_REF.iter();
    let mut refs = refs.filter_map(|source| volume[*source]["secretRef"]["name"].as_str());
    let by_file = || volume["azureFile"]["secretName"].as_str();
    let by_driver = || volume["csi"]["nodePublishSecretRef"]["name"].as_str();
    refs.next().or_else(by_file).or_else(by_driver)
}

/// Whether a pod has the claim, which an ephemeral volume makes in the pod's name.
fn claims(pod: &Value, claim: &str) -> bool {
    let own = pod["metadata"]["name"].as_str().unwrap_or_default();
    !claim.is_empty()
        && items(&pod["spec"]["volumes"]).any(|volume| {
            let made = || {
                let name = volume["name"].as_str().unwrap_or_default();
                volume["ephemeral"].is_object() && format!("{own}-{name}") == claim
            };
            volume["persistentVolumeClaim"]["claimName"] == claim || made()
        })
}

/// Whether a pod has the resource claim, by its name or made of a template.
fn claims_resource(pod: &Value, claim: &str) -> bool {
    let status = &pod["status"];
    let made = |own: &Value| {
        let mut statuses = items(&status["resourceClaimStatuses"]);
        let made = statuses.find(|made| made["name"] == own["name"]);
        made.is_some_and(|made| made["resourceClaimName"] == claim)
    };
    items(&pod["spec"]["resourceClaims"]).any(|own| match &own["resourceClaimName"] {
        Value::String(name) => name == claim,
        _ => made(own),
    }) || status["extendedResourceClaimStatus"]["resourceClaimName"] == claim
}

/// Whether kubelets need the secret for the volume.
fn needs(volume: &Value, namespace: &str, secret: &str) -> bool {
    let spec = &volume["spec"];
    let own = spec["claimRef"]["namespace"].as_str().unwrap_or_default();
    let is_meant = |reference: &Value, default: &str| {
        let stated = reference["namespace"].as_str().unwrap_or_default();
        let stated = if stated.is_empty() { default } else { stated };
        reference["name"] == secret && stated == namespace
    };
    let file = &spec["azureFile"];
    let of_file = file["secretNamespace"]
        .as_str()
        .filter(|own| !own.is_empty());
    if file["secretName"] == secret && of_file.unwrap_or(own) == namespace {
        return true;
    }
    let by_ref = WITH_SECRET_REF.iter().any(|source| {
        // Two kinds of volumes always state the namespace.
        let default = match *source {
            "cinder" | "storageos" => "",
            _ => own,
        };
        is_meant(&spec[*source]["secretRef"], default)
    });
    let mut of_driver = CSI_SECRETS.iter().map(|field| &spec["csi"][*field]);
    by_ref || of_driver.any(|reference| is_meant(reference, ""))
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn gvr(group: &str, resource: &str) -> GroupVersionResource {
    GroupVersionResource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
    }
}
