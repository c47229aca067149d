//! The launch priorities of new pods: each container gets the barrier that it waits at.
//!
//! Source: openkruise/kruise pkg/webhook/pod/mutating/container_launch_priority_initialization.go.

use kubeproof_controller::kruise::launch_priority::barrier_variables;
use kubeproof_machinery::json::json;
use kubeproof_runtime::decode::from_value;
use kubeproof_runtime::pod::Pod;
use sha2::{Digest, Sha256};

use super::{Change, Refusal, Request};

/// The characters of generated names, as in Kubernetes.
const CHARACTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The number of characters that are appended to `generateName`, and the length of the whole.
const SUFFIX: usize = 5;
const NAME_MAX: usize = 63;

/// Gives the containers of the pod their barriers; `None` when they need not wait for each other.
pub(super) fn launch_by_priority(request: &Request<'_>) -> Result<Option<Change>, Refusal> {
    let failed = |message: String| Refusal { code: 500, message };
    let pod: Pod = from_value(request.object).map_err(|error| failed(error.to_string()))?;
    let metadata = &request.object["metadata"];
    let text = |field: &str| metadata[field].as_str().filter(|text| !text.is_empty());
    let generated = match (text("name"), text("generateName")) {
        (None, Some(prefix)) => Some(generated_name(prefix, request.uid)),
        _ => None,
    };
    let name = generated.as_deref().or(text("name")).unwrap_or_default();
    let variables = barrier_variables(&pod, name).map_err(|error| failed(error.to_string()))?;
    let Some(variables) = variables else {
        return Ok(None);
    };
    let mut spec = request.object["spec"].clone();
    let containers = spec["containers"].as_array_mut();
    for (container, variable) in containers.into_iter().flatten().zip(variables) {
        let env = &mut container["env"];
        if env.is_null() {
            *env = json!([]);
        }
        if let Some(env) = env.as_array_mut() {
            env.push(json!(variable));
        }
    }
    Ok(Some(Change {
        spec,
        finalizers: None,
        name: generated,
    }))
}

/// A name that follows from the request, so that equal runs have equal names.
fn generated_name(prefix: &str, uid: &str) -> String {
    let digest = Sha256::digest(uid);
    let characters = digest.iter().take(SUFFIX);
    let suffix =
        characters.map(|byte| char::from(CHARACTERS[usize::from(*byte) % CHARACTERS.len()]));
    let room = prefix.len().min(NAME_MAX - SUFFIX);
    format!("{}{}", &prefix[..room], suffix.collect::<String>())
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::Value;

    use super::*;

    fn pod(metadata: Value, priorities: [&str; 2]) -> Value {
        let containers = priorities.map(|priority| {
            let env = json!([{"name": "KRUISE_CONTAINER_PRIORITY", "value": priority}]);
            match priority {
                "" => json!({"name": "c"}),
                _ => json!({"name": "c", "env": env}),
            }
        });
        json!({"metadata": metadata, "spec": {"containers": containers}})
    }

    fn changed(object: &Value) -> Result<Option<Change>, Refusal> {
        launch_by_priority(&Request {
            uid: "8f0c",
            version: "v1",
            operation: "CREATE",
            object,
            old: &Value::Null,
        })
    }

    #[test]
    fn containers_of_different_priorities_wait_at_barriers() {
        let object = pod(json!({"name": "web"}), ["", "10"]);
        let change = changed(&object).unwrap().expect("a change");
        assert_eq!(change.name, None);
        let source = |container: usize, variable: usize| {
            let env = &change.spec["containers"][container]["env"][variable];
            env["valueFrom"]["configMapKeyRef"].clone()
        };
        assert_eq!(source(0, 0), json!({"name": "web-barrier", "key": "p_0"}));
        assert_eq!(source(1, 1), json!({"name": "web-barrier", "key": "p_10"}));
        assert!(
            changed(&pod(json!({"name": "web"}), ["3", "3"]))
                .unwrap()
                .is_none()
        );
        let refusal = changed(&pod(json!({"name": "web"}), ["", "high"])).unwrap_err();
        assert_eq!(refusal.code, 500);
    }

    #[test]
    fn a_pod_without_a_name_gets_one_for_its_config_map() {
        let object = pod(json!({"generateName": "web-"}), ["", "1"]);
        let name = changed(&object).unwrap().and_then(|change| change.name);
        let name = name.expect("a name");
        let suffix = name.strip_prefix("web-").expect("the prefix");
        assert!(suffix.len() == SUFFIX && suffix.bytes().all(|byte| CHARACTERS.contains(&byte)));
        assert_eq!(generated_name(&"a".repeat(80), "").len(), NAME_MAX);
    }
}
