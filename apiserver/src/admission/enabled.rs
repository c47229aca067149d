//! The set of admission plugins that are on, and the flags that choose it.
//!
//! Source: `pkg/kubeapiserver/options/admission.go`, apiserver `pkg/server/options/admission.go`.

use std::collections::BTreeSet;

use crate::metrics::admission::Plugin;

/// The flags of kube-apiserver that choose admission plugins; `None` is a flag that is not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionFlags {
    /// `--enable-admission-plugins`: plugins that are on in addition to the default ones.
    pub enable: Option<Vec<String>>,
    /// `--disable-admission-plugins`: default plugins that are off.
    pub disable: Option<Vec<String>>,
    /// `--admission-control`, deprecated: the only plugins that are on.
    pub admission_control: Option<Vec<String>>,
}

/// The admission plugins that are on. Their order is that of upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionPlugins {
    /// A bit for each [`Plugin`].
    bits: u64,
}

impl Default for AdmissionPlugins {
    /// The plugins of a cluster without ServiceAccount, as in envtest, where no controller creates
    /// accounts.
    fn default() -> Self {
        Self::of_cluster().with(Plugin::ServiceAccount, false)
    }
}

impl AdmissionPlugins {
    const NONE: Self = Self { bits: 0 };

    /// The plugins that kube-apiserver has on without flags.
    #[must_use]
    pub fn of_cluster() -> Self {
        let on = Plugin::all().filter(|plugin| plugin.is_on_by_default());
        on.fold(Self::NONE, |own, plugin| own.with(plugin, true))
    }

    /// The plugins that kube-apiserver has on with these flags.
    ///
    /// # Errors
    /// Each fault of the flags, in upstream's words and order.
    pub fn from_flags(flags: &AdmissionFlags) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let (enable, disable) = (&flags.enable, &flags.disable);
        if flags.admission_control.is_some() && (enable.is_some() || disable.is_some()) {
            faults.push(
                "admission-control and enable-admission-plugins/disable-admission-plugins flags \
                 are mutually exclusive"
                    .to_owned(),
            );
        }
        let mut read = |flag: &str, names: &Option<Vec<String>>| -> Vec<Plugin> {
            let mut plugins = Vec::new();
            for name in names.iter().flatten() {
                match Plugin::named(name) {
                    Some(plugin) => plugins.push(plugin),
                    None => faults.push(format!("{flag} plugin {name:?} is unknown")),
                }
            }
            plugins
        };
        let only = read("admission-control", &flags.admission_control);
        let enabled = read("enable-admission-plugins", enable);
        let disabled = read("disable-admission-plugins", disable);
        let both: BTreeSet<&str> = names(enable)
            .intersection(&names(disable))
            .copied()
            .collect();
        if !both.is_empty() {
            let both: Vec<&str> = both.into_iter().collect();
            faults.push(format!(
                "[{}] in enable-admission-plugins and disable-admission-plugins overlapped",
                both.join(" ")
            ));
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let set = |own: Self, plugins: Vec<Plugin>, is_on: bool| {
            let plugins = plugins.into_iter();
            plugins.fold(own, |own: Self, plugin| own.with(plugin, is_on))
        };
        if flags.admission_control.is_some() {
            return Ok(set(Self::NONE, only, true));
        }
        let own = set(Self::of_cluster(), disabled, false);
        Ok(set(own, enabled, true))
    }

    /// The names of all plugins, in the order of calls.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Plugin::all().map(Plugin::as_str)
    }

    /// The names of the plugins that are on, in the order of calls.
    pub fn enabled(self) -> impl Iterator<Item = &'static str> {
        let on = Plugin::all().filter(move |plugin| self.has(*plugin));
        on.map(Plugin::as_str)
    }

    /// The plugins that are on because a flag names them, and that this server does not have.
    pub fn without_effect(self) -> impl Iterator<Item = &'static str> {
        let asked = |plugin: &Plugin| !plugin.is_built() && !plugin.is_on_by_default();
        let on = Plugin::all().filter(move |plugin| self.has(*plugin));
        on.filter(asked).map(Plugin::as_str)
    }

    /// The values of `--enable-admission-plugins` and `--disable-admission-plugins` for this set.
    pub(crate) fn flags(self) -> (Vec<&'static str>, Vec<&'static str>) {
        let differing = Plugin::all().filter(|own| self.has(*own) != own.is_on_by_default());
        let (enabled, disabled) = differing.partition::<Vec<_>, _>(|own| self.has(*own));
        let names = |own: Vec<Plugin>| own.into_iter().map(Plugin::as_str).collect();
        (names(enabled), names(disabled))
    }

    /// Whether `plugin` is on.
    pub(crate) fn has(self, plugin: Plugin) -> bool {
        self.bits & bit(plugin) != 0
    }

    /// Whether a plugin is on that is off in a cluster without flags.
    pub(crate) fn has_optional(self) -> bool {
        self.bits & OPTIONAL != 0
    }

    /// Whether `plugin` is on and is called here.
    pub(crate) fn calls(self, plugin: Plugin) -> bool {
        self.has(plugin) && plugin.is_built()
    }

    /// The set with `plugin` on or off.
    pub(crate) fn with(self, plugin: Plugin, is_on: bool) -> Self {
        let bits = match is_on {
            true => self.bits | bit(plugin),
            false => self.bits & !bit(plugin),
        };
        Self { bits }
    }
}

/// The bits of the plugins that are off in a cluster without flags.
const OPTIONAL: u64 = {
    assert!(Plugin::COUNT <= 64, "each plugin has a bit");
    let mut bits = 0;
    let mut index = 0;
    while index < Plugin::COUNT {
        if !Plugin::at(index).is_on_by_default() {
            bits |= 1 << index;
        }
        index += 1;
    }
    bits
};

fn bit(plugin: Plugin) -> u64 {
    1 << (plugin as u32)
}

fn names(flag: &Option<Vec<String>>) -> BTreeSet<&str> {
    flag.iter().flatten().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flag(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn read(
        enable: Option<Vec<String>>,
        disable: Option<Vec<String>>,
        admission_control: Option<Vec<String>>,
    ) -> Result<AdmissionPlugins, Vec<String>> {
        AdmissionPlugins::from_flags(&AdmissionFlags {
            enable,
            disable,
            admission_control,
        })
    }

    #[test]
    fn a_cluster_has_27_plugins_and_the_builder_all_but_service_accounts() {
        let of_cluster = AdmissionPlugins::of_cluster();
        assert_eq!(of_cluster.enabled().count(), 27);
        assert_eq!(read(None, None, None), Ok(of_cluster));
        let own: Vec<&str> = AdmissionPlugins::default().enabled().collect();
        let rest = of_cluster.enabled().filter(|own| *own != "ServiceAccount");
        assert_eq!(own, rest.collect::<Vec<_>>());
        assert_eq!(of_cluster.without_effect().count(), 0);
    }

    #[test]
    fn flags_switch_plugins_on_and_off() {
        let plugins = read(
            flag(&["ImagePolicyWebhook", "AlwaysPullImages"]),
            flag(&["ServiceAccount", "EventRateLimit"]),
            None,
        );
        let plugins = plugins.unwrap();
        assert!(plugins.has(Plugin::AlwaysPullImages));
        assert!(!plugins.has(Plugin::ServiceAccount));
        assert!(plugins.has(Plugin::ResourceQuota));
        let without: Vec<&str> = plugins.without_effect().collect();
        assert_eq!(without, ["ImagePolicyWebhook"]);
        let only = read(None, None, flag(&["NamespaceLifecycle"])).unwrap();
        assert_eq!(only.enabled().collect::<Vec<_>>(), ["NamespaceLifecycle"]);
        let none = read(None, None, flag(&[])).unwrap();
        assert_eq!(none.enabled().count(), 0);
    }

    #[test]
    fn faults_of_flags_are_in_upstreams_words() {
        let faults = read(
            flag(&["B", "AlwaysAdmit", "PodSecurity"]),
            flag(&["C", "PodSecurity", "AlwaysAdmit"]),
            flag(&["A"]),
        );
        assert_eq!(
            faults.unwrap_err(),
            [
                "admission-control and enable-admission-plugins/disable-admission-plugins flags \
                 are mutually exclusive",
                "admission-control plugin \"A\" is unknown",
                "enable-admission-plugins plugin \"B\" is unknown",
                "disable-admission-plugins plugin \"C\" is unknown",
                "[AlwaysAdmit PodSecurity] in enable-admission-plugins and \
                 disable-admission-plugins overlapped",
            ]
        );
    }
}
