//! `kubectl version`: the version of Kubernetes that kubeproof has, and the server's.

use kubeproof_apiserver::KUBERNETES_VERSION;
use kubeproof_machinery::json::{Value, json};

use super::connection::Connection;
use super::failure::Failure;
use super::printing;
use crate::cli::pflag::Parsed;

pub(super) async fn run(flags: &Parsed) -> Result<(), Failure> {
    let format = flags.text("output");
    if !matches!(format, None | Some("json" | "yaml")) {
        return Err(Failure::error("--output must be 'yaml' or 'json'"));
    }
    let mut versions = json!({"clientVersion": own()});
    let failed = match flags.is_on("client") {
        true => None,
        false => match server(flags).await {
            Ok(version) => {
                versions["serverVersion"] = version;
                None
            }
            Err(failure) => Some(failure),
        },
    };
    printing::print(&match format {
        Some("json") => printing::to_narrow_json(&versions),
        Some(_) => printing::to_yaml(&versions),
        None => lines(&versions),
    });
    failed.map_or(Ok(()), Err)
}

async fn server(flags: &Parsed) -> Result<Value, Failure> {
    let connection = Connection::open(flags).await?;
    let answered = connection.read("/version", "application/json").await?;
    Ok(answered.json()?)
}

/// Returns the version of this program as that of a kubectl.
fn own() -> Value {
    let mut numbers = KUBERNETES_VERSION.trim_start_matches('v').split('.');
    let mut next = || numbers.next().unwrap_or_default();
    json!({
        "major": next(),
        "minor": next(),
        "gitVersion": KUBERNETES_VERSION,
        "gitTreeState": "",
        "platform": format!("{}/{}", super::super::layout::os(), super::super::layout::arch()),
    })
}

fn lines(versions: &Value) -> String {
    let known = [("Client", "clientVersion"), ("Server", "serverVersion")];
    let lines = known.iter().filter_map(|(whose, field)| {
        let version = versions[field]["gitVersion"].as_str()?;
        Some(format!("{whose} Version: {version}\n"))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_served_api() {
        let own = own();
        assert_eq!(own["gitVersion"], KUBERNETES_VERSION);
        assert_eq!((&own["major"], &own["minor"]), (&json!("1"), &json!("36")));
        let text = lines(&json!({"clientVersion": own, "serverVersion": {"gitVersion": "v1.2.3"}}));
        assert_eq!(
            text,
            format!("Client Version: {KUBERNETES_VERSION}\nServer Version: v1.2.3\n")
        );
    }
}
