//! Specs of pods, which pods of equal spec share.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use k8s_openapi::api::core::v1::PodSpec;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::shared::Shared;
use crate::compact;

/// The beginning of the name of a token's volume, as JSON.
const TOKEN_VOLUME_START: &str = "\"kube-api-access-";
/// The name of a token's volume in a shared spec, as JSON.
const SHARED_TOKEN_VOLUME: &str = "\"kube-api-access\"";
/// The number of random characters at the end of the name.
const SUFFIX_LENGTH: usize = 5;

/// The spec of a pod, which is read in place and copied when it is changed.
///
/// The API server adds a volume with a token to each pod, and makes up its name. No two specs would be the same with
/// it, so a shared spec has `kube-api-access` instead. A spec is written and changed with the name that the server made
/// up. Only serde_json can decode it.
#[derive(Clone, Debug, Default)]
pub struct SharedPodSpec {
    spec: Shared<PodSpec>,
    token_volume: Option<TokenVolume>,
}

/// The random end of the name of a token's volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TokenVolume([u8; SUFFIX_LENGTH]);

impl TokenVolume {
    /// The volume of the token in a spec with this text, if the shared name can stand for its name.
    ///
    /// Source: upstream's `plugin/pkg/admission/serviceaccount`, which adds it as a projected volume.
    fn of(spec: &str) -> Option<Self> {
        let (_, rest) = spec.split_once(TOKEN_VOLUME_START)?;
        let (suffix, _) = rest.as_bytes().split_first_chunk()?;
        let volume = suffix.is_ascii().then_some(Self(*suffix))?;
        let is_projected = spec.contains(&format!("{},\"projected\":", volume.quoted()));
        (is_projected && !spec.contains(SHARED_TOKEN_VOLUME)).then_some(volume)
    }

    /// The name of the volume, as JSON.
    fn quoted(self) -> String {
        let suffix = self.0.map(char::from);
        let suffix = suffix.into_iter().chain(std::iter::once('"'));
        TOKEN_VOLUME_START.chars().chain(suffix).collect()
    }
}

impl SharedPodSpec {
    /// The shared spec with this text. It is decoded unless another pod has it.
    fn of(text: &str) -> serde_json::Result<Self> {
        let token_volume = TokenVolume::of(text);
        let text = match token_volume {
            Some(volume) => Cow::Owned(text.replace(&volume.quoted(), SHARED_TOKEN_VOLUME)),
            None => Cow::Borrowed(text),
        };
        let spec = Shared::of(&text, |text| {
            let mut spec = serde_json::from_str(text)?;
            compact::spec(&mut spec);
            Ok(spec)
        })?;
        Ok(Self { spec, token_volume })
    }

    /// The spec with the name that its volume has in the API.
    fn as_in_api(&self) -> serde_json::Result<Cow<'_, PodSpec>> {
        let Some(volume) = self.token_volume else {
            return Ok(Cow::Borrowed(&self.spec));
        };
        let text = serde_json::to_string(&*self.spec)?;
        let text = text.replace(SHARED_TOKEN_VOLUME, &volume.quoted());
        serde_json::from_str(&text).map(Cow::Owned)
    }
}

impl From<PodSpec> for SharedPodSpec {
    fn from(spec: PodSpec) -> Self {
        Self {
            spec: spec.into(),
            token_volume: None,
        }
    }
}

impl Deref for SharedPodSpec {
    type Target = PodSpec;

    fn deref(&self) -> &PodSpec {
        &self.spec
    }
}

impl DerefMut for SharedPodSpec {
    fn deref_mut(&mut self) -> &mut PodSpec {
        if self.token_volume.is_some() {
            let own = self.as_in_api();
            let own = own.expect("a spec is decoded from what it was encoded to");
            *self = Self::from(own.into_owned());
        }
        &mut self.spec
    }
}

impl PartialEq for SharedPodSpec {
    fn eq(&self, other: &Self) -> bool {
        if self.token_volume == other.token_volume {
            return self.spec == other.spec;
        }
        let (own, other) = (self.as_in_api(), other.as_in_api());
        own.is_ok_and(|own| other.is_ok_and(|other| own == other))
    }
}

impl<'de> Deserialize<'de> for SharedPodSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Self::of(text.get()).map_err(D::Error::custom)
    }
}

impl Serialize for SharedPodSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let spec = self.as_in_api().map_err(S::Error::custom)?;
        spec.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::decode::{from_value, to_value};

    /// A spec as the API server completes it, on a node of its own for each test.
    fn spec(node: &str, volume: &str) -> Value {
        let mount = json!({ "name": volume, "mountPath": "/var/run/secrets" });
        json!({
            "containers": [{ "name": "c", "volumeMounts": [mount] }],
            "nodeName": node,
            "volumes": [{ "name": volume, "projected": { "sources": [] } }],
        })
    }

    fn read(spec: &Value) -> SharedPodSpec {
        from_value(spec).unwrap()
    }

    #[test]
    fn specs_that_differ_in_the_name_of_the_token_volume_are_one() {
        let specs =
            ["abcde", "12345"].map(|suffix| spec("one", &format!("kube-api-access-{suffix}")));
        let shared = [&specs[0], &specs[1], &specs[0]].map(read);
        assert!(shared[0].spec.is_shared_with(&shared[1].spec));
        assert_eq!([0, 1].map(|index| to_value(&shared[index]).unwrap()), specs);
        assert_ne!(shared[0], shared[1]);
        assert_eq!(shared[0], shared[2]);
        let other = read(&spec("another", "kube-api-access-abcde"));
        assert!(!shared[0].spec.is_shared_with(&other.spec));
    }

    #[test]
    fn a_changed_spec_is_one_of_its_own_with_the_names_of_the_api() {
        let before = spec("changed", "kube-api-access-abcde");
        let kept = read(&before);
        let mut changed = kept.clone();
        changed.hostname = Some("a".to_owned());
        let mut want = before.clone();
        want["hostname"] = json!("a");
        assert_eq!(to_value(&changed).unwrap(), want);
        assert_eq!(
            changed.volumes.as_ref().unwrap()[0].name,
            "kube-api-access-abcde"
        );
        assert_eq!(to_value(&kept).unwrap(), before);
        changed.hostname = None;
        assert_eq!(changed, kept);
    }

    #[test]
    fn other_names_stay_as_they_are() {
        for name in [
            "kube-api-access",
            "kube-api-access-abc",
            "kube-api-access-abcdef",
            "kube-api-access-",
        ] {
            let spec = spec("names", name);
            let read = read(&spec);
            assert_eq!(read.volumes.as_ref().unwrap()[0].name, name);
            assert_eq!(to_value(&read).unwrap(), spec);
        }
        let mut claimed = spec("claimed", "kube-api-access-abcde");
        claimed["volumes"][0] = json!({ "name": "kube-api-access-abcde", "ephemeral": {} });
        let volumes = read(&claimed).volumes.clone();
        assert_eq!(volumes.unwrap()[0].name, "kube-api-access-abcde");
        let mut both = spec("both", "kube-api-access-abcde");
        let other = json!({ "name": "kube-api-access", "emptyDir": {} });
        both["volumes"].as_array_mut().unwrap().push(other);
        let read = read(&both);
        let names = read.volumes.iter().flatten().map(|volume| &volume.name);
        assert!(names.eq(["kube-api-access-abcde", "kube-api-access"]));
        assert_eq!(to_value(&read).unwrap(), both);
    }

    #[test]
    fn what_is_no_spec_is_refused() {
        let refused = serde_json::from_str::<SharedPodSpec>(r#"{"containers":7}"#);
        let refused = refused.unwrap_err().to_string();
        let want = "invalid type: integer `7`, expected a sequence at line 1 column 15";
        assert_eq!(refused, want);
    }
}
