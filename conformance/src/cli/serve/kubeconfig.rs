//! The kubeconfig of a server.

use std::fs::{OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubeproof_apiserver::Tls;
use kubeproof_machinery::json::json;

use super::identity::admin_certificate;

/// The mode of a file with credentials.
const OWNER_ONLY: u32 = 0o600;

/// Writes a file with owner-only permissions, also when it existed with others.
pub(in crate::cli) fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let mut file = options.mode(OWNER_ONLY).open(path)?;
    // The mode is that of a new file only; a device keeps its own.
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
    }
    file.write_all(text.as_bytes())
}

/// A kubeconfig for the server at `url`, whose cluster, user and context are called `name`.
pub(super) fn text(
    name: &str,
    token: Option<&str>,
    (url, tls): (&str, Option<&Tls>),
) -> anyhow::Result<String> {
    let mut cluster = json!({"server": url});
    if let Some(tls) = tls {
        cluster["certificate-authority-data"] = STANDARD.encode(tls.authority_pem()).into();
    }
    let mut user = token.map_or_else(|| json!({}), |token| json!({"token": token}));
    if let Some(tls) = tls {
        let admin = admin_certificate(tls);
        user["client-certificate-data"] = STANDARD.encode(admin.certificate_pem).into();
        user["client-key-data"] = STANDARD.encode(admin.key_pem).into();
    }
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{
            "name": name,
            "context": {"cluster": name, "user": name, "namespace": "default"},
        }],
        "current-context": name,
    });
    Ok(serde_saphyr::to_string(&config)?)
}
