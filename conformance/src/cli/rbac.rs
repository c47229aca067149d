//! `kubeproof rbac`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::Args;
use kubeproof::rbac::{Comparison, GivenRoles, Needs, UserNeeds};
use kubeproof::scenario::read_objects;
use kubeproof_apiserver::Manifests;

use super::{known, out};

#[derive(Args)]
pub(super) struct RbacArgs {
    /// Audit logs with an audit.k8s.io/v1 event in each line: of `run --audit-log`, `serve --audit-log-path` or any
    /// kube-apiserver.
    #[arg(value_name = "AUDIT.log", required = true)]
    logs: Vec<PathBuf>,
    /// Only this user: a user name, or NAMESPACE/NAME of a service account.
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Compare with the roles in this file or directory, and print what they lack and what they grant beyond. Bindings in
    /// it say where a role is in force. May be repeated.
    #[arg(long, value_name = "FILE|DIR")]
    role: Vec<PathBuf>,
}

pub(super) fn rbac(args: &RbacArgs) -> anyhow::Result<ExitCode> {
    let mut needs = Needs::default();
    for path in &args.logs {
        let shown = path.display();
        let log = std::fs::read_to_string(path);
        let log = log.with_context(|| format!("cannot read {shown}"))?;
        needs.read(&log).with_context(|| shown.to_string())?;
    }
    let users = args.chosen(&needs)?;
    if args.role.is_empty() {
        let roles = users.into_iter().map(in_yaml);
        let roles = roles.collect::<anyhow::Result<Vec<_>>>()?;
        out::say(roles.join("---\n").trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut objects = Vec::new();
    for root in &args.role {
        for file in Manifests::files(root)? {
            objects.extend(read_objects(&file).map_err(anyhow::Error::msg)?);
        }
    }
    let given = GivenRoles::of(objects);
    ensure!(
        given.count() > 0,
        "there is no Role or ClusterRole in the files of --role"
    );
    let mut lacks_any = false;
    for needs in users {
        let compared = given.compare(needs);
        lacks_any |= !compared.lacking.is_empty();
        out::say(in_words(needs, &compared).trim_end())?;
    }
    Ok(match lacks_any {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

impl RbacArgs {
    /// The users that the command is about.
    ///
    /// # Errors
    /// When there is no such user.
    fn chosen<'n>(&self, needs: &'n Needs) -> anyhow::Result<Vec<&'n UserNeeds>> {
        let users: Vec<&UserNeeds> = needs.users().collect();
        ensure!(
            !users.is_empty(),
            "no request in the logs needed a permission"
        );
        let Some(wanted) = &self.user else {
            return Ok(users);
        };
        let is_wanted = |user: &&&UserNeeds| {
            let account = user.service_account();
            let account = account.map(|(namespace, name)| format!("{namespace}/{name}"));
            user.user == *wanted || account.as_ref() == Some(wanted)
        };
        let chosen: Vec<&UserNeeds> = users.iter().filter(is_wanted).copied().collect();
        let names: Vec<&str> = users.iter().map(|user| user.user.as_str()).collect();
        ensure!(
            !chosen.is_empty(),
            "{}",
            known::unknown("user", wanted, names.into_iter())
        );
        Ok(chosen)
    }
}

/// The least roles of a user, with what is remarkable about them in comments.
fn in_yaml(needs: &UserNeeds) -> anyhow::Result<String> {
    let mut text = format!("# {needs}\n");
    for (permission, times) in needs.refused() {
        text.push_str(&format!("# refused in the run: {permission} (×{times})\n"));
    }
    if needs.grants_permissions() {
        text.push_str(
            "# It writes roles or bindings whose bodies are not in the log: it also needs the permissions that these grant, or \
             the verbs escalate and bind.\n",
        );
    }
    let roles = needs.roles();
    let roles = roles.iter().map(serde_saphyr::to_string);
    let roles = roles.collect::<Result<Vec<_>, _>>()?;
    text.push_str(&roles.join("---\n"));
    Ok(text)
}

fn in_words(needs: &UserNeeds, compared: &Comparison) -> String {
    let mut lines = vec![needs.to_string()];
    let lacking: Vec<String> = compared.lacking.iter().map(ToString::to_string).collect();
    let parts = [
        ("lacks", &lacking),
        ("has beyond what was needed", &compared.beyond),
    ];
    for (heading, parts) in parts {
        if parts.is_empty() {
            continue;
        }
        lines.push(format!("  {heading}:"));
        lines.extend(parts.iter().map(|part| format!("    {part}")));
    }
    if lines.len() == 1 {
        lines.push("  has what was needed and nothing else".to_owned());
    }
    lines.join("\n")
}
