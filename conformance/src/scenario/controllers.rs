//! Which controllers run, in the form of kube-controller-manager's `--controllers`.

use kubeproof_controller::{CONTROLLERS, KRUISE_CONTROLLERS};
use serde::Deserialize;

/// A choice of controllers: names, `*` for all, and `-NAME` for one of all that is left out.
///
/// Source: Kubernetes, `IsControllerEnabled` in `staging/src/k8s.io/controller-manager`.
#[doc(hidden)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice<'a> {
    /// Whether it has `*`.
    pub has_all: bool,
    /// The names that it has.
    pub named: Vec<&'a str>,
    /// The names that are left out.
    pub excluded: Vec<&'a str>,
}

impl<'a> Choice<'a> {
    /// Reads the words of a choice.
    ///
    /// # Errors
    /// A name is left out although not all are chosen.
    pub fn read(words: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut choice = Self::default();
        for word in words {
            match word.strip_prefix('-') {
                Some(name) => choice.excluded.push(name),
                None if word == "*" => choice.has_all = true,
                None => choice.named.push(word),
            }
        }
        match choice.excluded.first() {
            Some(name) if !choice.has_all => Err(format!(
                "-{name} leaves out one of all controllers: write *,-{name}"
            )),
            _ => Ok(choice),
        }
    }

    /// The names chosen, of which `*` stands for `all`, in their order.
    #[must_use]
    pub fn names<'b>(&self, all: impl IntoIterator<Item = &'b str>) -> Vec<String>
    where
        'a: 'b,
    {
        let mut names: Vec<&str> = match self.has_all {
            true => all.into_iter().collect(),
            false => Vec::new(),
        };
        for name in &self.named {
            if !names.contains(name) {
                names.push(name);
            }
        }
        names.retain(|name| !self.excluded.contains(name));
        names.into_iter().map(str::to_owned).collect()
    }
}

/// The controllers of a scenario: their names, or `*` for all and `-NAME` for each that is left out.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(try_from = "Vec<String>")]
pub struct Controllers {
    names: Vec<String>,
    has_all: bool,
}

impl Controllers {
    /// The names of the controllers that run. Those of OpenKruise run only with its workloads.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether all run but some.
    #[must_use]
    pub fn leaves_out(&self) -> bool {
        self.has_all
    }

    /// Whether the controller of this name runs.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|own| own == name)
    }
}

impl TryFrom<Vec<String>> for Controllers {
    type Error = String;

    fn try_from(words: Vec<String>) -> Result<Self, String> {
        let choice = Choice::read(words.iter().map(String::as_str))?;
        let mut asked = choice.named.iter().chain(&choice.excluded);
        let known: Vec<&str> = kubeproof_controller::known().collect();
        if let Some(unknown) = asked.find(|name| !known.contains(name)) {
            let known = known.join(", ");
            return Err(format!("unknown controller {unknown:?} (known: {known})"));
        }
        Ok(Self {
            names: choice.names(CONTROLLERS.iter().chain(KRUISE_CONTROLLERS).copied()),
            has_all: choice.has_all,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Controllers, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        words.try_into()
    }

    #[test]
    fn names_are_listed_or_left_out_of_all() {
        let listed = read(&["statefulset", "deployment", "statefulset"]).unwrap();
        assert_eq!(listed.names(), ["statefulset", "deployment"]);
        assert!(!listed.leaves_out());
        let most = read(&["*", "-cronjob", "-cloneset"]).unwrap();
        let all = CONTROLLERS.len() + KRUISE_CONTROLLERS.len();
        assert_eq!(most.names().len(), all - 2);
        assert!(most.has("job") && !most.has("cronjob") && !most.has("cloneset"));
        assert!(most.leaves_out());
        assert_eq!(read(&[]).unwrap(), Controllers::default());
    }

    #[test]
    fn what_chooses_nothing_is_refused() {
        let error = read(&["deployment", "-cronjob"]).unwrap_err();
        assert_eq!(
            error,
            "-cronjob leaves out one of all controllers: write *,-cronjob"
        );
        for words in [&["cron"][..], &["*", "-cron"]] {
            let error = read(words).unwrap_err();
            assert!(
                error.starts_with("unknown controller \"cron\" (known: "),
                "{error}"
            );
        }
    }
}
