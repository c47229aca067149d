//! What only the restricted standard asks.

use std::collections::BTreeSet;

use super::{Pod, Violation, named, plural, quoted, text};
use crate::json::Value;

const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

impl<'a> Pod<'a> {
    pub(super) fn restricted(&self) -> impl Iterator<Item = Violation> {
        // What has no meaning on Windows is not asked there.
        let is_windows = self.minor >= 25 && self.spec["os"]["name"] == "windows";
        let found = [
            (!is_windows).then(|| self.privilege_escalation()).flatten(),
            (!is_windows && self.minor >= 22)
                .then(|| self.dropped_capabilities())
                .flatten(),
            (self.minor >= 35).then(|| self.any_proc_mount()).flatten(),
            self.restricted_volumes(),
            self.non_root(),
            (self.minor >= 23).then(|| self.user()).flatten(),
            (!is_windows && self.minor >= 19)
                .then(|| self.stated_seccomp())
                .flatten(),
        ];
        found.into_iter().flatten()
    }

    fn privilege_escalation(&self) -> Option<Violation> {
        let bad = self.bad(|own| own["securityContext"]["allowPrivilegeEscalation"] != false);
        if bad.is_empty() {
            return None;
        }
        let names = named(&bad);
        let detail = format!("{names} must set securityContext.allowPrivilegeEscalation=false");
        Violation::new("allowPrivilegeEscalation != false", detail)
    }

    fn dropped_capabilities(&self) -> Option<Violation> {
        let list = |own: &'a Value, field: &str| {
            let list = own["securityContext"]["capabilities"][field].as_array();
            list.into_iter().flatten().map(text)
        };
        let missing = self.bad(|own| !list(own, "drop").any(|own| own == "ALL"));
        let mut added = BTreeSet::new();
        let adding = self.bad(|own| {
            let own = list(own, "add").filter(|own| *own != "NET_BIND_SERVICE");
            let own: Vec<&str> = own.collect();
            added.extend(own.iter().copied());
            !own.is_empty()
        });
        let mut details = Vec::new();
        if !missing.is_empty() {
            let names = named(&missing);
            details.push(format!(
                "{names} must set securityContext.capabilities.drop=[\"ALL\"]"
            ));
        }
        if !adding.is_empty() {
            let (names, added) = (named(&adding), quoted(added));
            details.push(format!(
                "{names} must not include {added} in securityContext.capabilities.add"
            ));
        }
        match details.is_empty() {
            true => None,
            false => Violation::new("unrestricted capabilities", details.join("; ")),
        }
    }

    fn restricted_volumes(&self) -> Option<Violation> {
        let has = |volume: &Value, kind: &str| !volume[kind].is_null();
        let bad = self
            .volumes()
            .filter(|volume| !VOLUMES.iter().any(|kind| has(volume, kind)));
        let bad: Vec<&Value> = bad.collect();
        if bad.is_empty() {
            return None;
        }
        let kinds: BTreeSet<&str> = bad
            .iter()
            .map(|volume| {
                let fields = volume.as_object().into_iter().flatten();
                let mut kinds = fields.filter(|(field, own)| *field != "name" && !own.is_null());
                kinds.next().map_or("unknown", |(field, _)| field.as_str())
            })
            .collect();
        let names: Vec<&str> = bad.iter().map(|volume| text(&volume["name"])).collect();
        let detail = format!(
            "{} {} {} {} {}",
            plural("volume", "volumes", names.len()),
            quoted(&names),
            plural("uses", "use", names.len()),
            plural(
                "restricted volume type",
                "restricted volume types",
                kinds.len()
            ),
            quoted(kinds),
        );
        Violation::new("restricted volume types", detail)
    }

    fn non_root(&self) -> Option<Violation> {
        if self.has_own_users() {
            return None;
        }
        let reason = "runAsNonRoot != true";
        let of_pod = &self.spec["securityContext"]["runAsNonRoot"];
        let own = |container: &'a Value| &container["securityContext"]["runAsNonRoot"];
        let setters = Self::setters(*of_pod == false, &self.bad(|each| *own(each) == false));
        if !setters.is_empty() {
            let setters = setters.join(" and ");
            let detail = format!("{setters} must not set securityContext.runAsNonRoot=false");
            return Violation::new(reason, detail);
        }
        let silent = self.bad(|each| own(each).is_null() && *of_pod != true);
        if silent.is_empty() {
            return None;
        }
        let names = named(&silent);
        let detail = format!("pod or {names} must set securityContext.runAsNonRoot=true");
        Violation::new(reason, detail)
    }

    fn user(&self) -> Option<Violation> {
        if self.has_own_users() {
            return None;
        }
        let is_root = |own: &Value| own["securityContext"]["runAsUser"] == 0;
        let setters = Self::setters(is_root(self.spec), &self.bad(is_root));
        if setters.is_empty() {
            return None;
        }
        let setters = setters.join(" and ");
        Violation::new("runAsUser=0", format!("{setters} must not set runAsUser=0"))
    }

    fn stated_seccomp(&self) -> Option<Violation> {
        if let Some(violation) = self.seccomp() {
            return Some(violation);
        }
        let stated = |own: &Value| own["securityContext"]["seccompProfile"].is_object();
        if stated(self.spec) {
            return None;
        }
        let silent = self.bad(|own| !stated(own));
        if silent.is_empty() {
            return None;
        }
        let names = named(&silent);
        let detail = format!(
            "pod or {names} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \
             \"Localhost\""
        );
        Violation::new("seccompProfile", detail)
    }
}
