//! Addresses and ids derived from names alone, so that equal runs create equal objects.

use std::fmt::Write as _;
use std::hash::Hasher;

use super::image::{Image, SameImages};

/// 64-bit FNV-1a: `std`'s hasher promises no stability between releases.
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Returns 64 hexadecimal digits that depend on `parts` only.
fn digest(parts: &[&str]) -> String {
    let mut hex = String::with_capacity(64);
    for lane in 0_u8..4 {
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        hash.write(&[lane]);
        for part in parts {
            hash.write(part.as_bytes());
            hash.write(&[0xff]);
        }
        // FNV's last bytes move few bits; one more round spreads them.
        hash.write(&hash.finish().to_le_bytes());
        write!(hex, "{:016x}", hash.finish()).expect("writing to a String does not fail");
    }
    hex
}

/// Returns a number below `below` that depends on `parts` only.
pub(super) fn draw(parts: &[&str], below: u64) -> u64 {
    let digest = digest(parts);
    let number = u64::from_str_radix(&digest[..16], 16).expect("a digest is hexadecimal");
    number.checked_rem(below).unwrap_or(0)
}

/// Returns the id of the `restarts`th run of a container.
pub(super) fn container_id(pod_uid: &str, container: &str, restarts: i32) -> String {
    let digest = digest(&[pod_uid, container, &restarts.to_string()]);
    format!("containerd://{digest}")
}

/// Returns the id of a pod's sandbox.
pub(super) fn sandbox_id(pod_uid: &str) -> String {
    digest(&[pod_uid, "sandbox"])
}

/// Returns the id of a claim's part of a device, which several claims can have: a UUID.
pub(super) fn share_id(claim_uid: &str, device: &str, index: usize) -> String {
    let digits = digest(&[claim_uid, device, &index.to_string()]);
    let parts = [
        &digits[..8],
        &digits[8..12],
        &digits[12..15],
        &digits[15..18],
        &digits[18..30],
    ];
    let [time, middle, high, clock, node] = parts;
    format!("{time}-{middle}-4{high}-8{clock}-{node}")
}

/// Returns the path of a pod's network namespace.
pub(super) fn network_namespace(pod_uid: &str) -> String {
    let digits = digest(&[pod_uid, "network"]);
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    format!("/var/run/netns/cni-{}", parts.join("-"))
}

/// Returns the image id in a container's status: the repository and a digest, which is the same for
/// all names of one image.
pub fn image_id(image: &str, same: &SameImages) -> String {
    let Ok(known) = Image::parse(image) else {
        return format!("{image}@sha256:{}", digest(&[image]));
    };
    let repository = known.repository();
    match known.digest() {
        Some(digest) => format!("{repository}@{digest}"),
        None => format!("{repository}@sha256:{}", digest(&[&known.canonical(same)])),
    }
}

/// Returns the name of the `index`th node, counted from 1.
pub(super) fn node_name(index: usize) -> String {
    format!("node-{index}")
}

/// Returns the address of the `index`th node; `.1` is reserved for a gateway.
pub(super) fn host_ip(index: usize) -> String {
    let host = index + 1;
    format!("172.18.{}.{}", (host / 256) % 256, host % 256)
}

/// Returns the address of the `pod`th pod of the `index`th node, counted from 1.
///
/// A node has 253 addresses and assigns them in turn.
pub(super) fn pod_ip(index: usize, pod: usize) -> String {
    let second = 244 + (index / 256) % 12;
    let last = 2 + (pod.saturating_sub(1)) % 253;
    format!("10.{second}.{}.{last}", index % 256)
}

/// Returns the subnet from which [`pod_ip`] draws.
pub(super) fn pod_cidr(index: usize) -> String {
    format!("10.{}.{}.0/24", 244 + (index / 256) % 12, index % 256)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_by_every_part() {
        let ids = [
            container_id("u", "a", 0),
            container_id("u", "a", 1),
            container_id("u", "b", 0),
            container_id("v", "a", 0),
            container_id("ua", "", 0),
        ];
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        assert_eq!(ids[0].len(), "containerd://".len() + 64);
        assert_eq!(ids[0], container_id("u", "a", 0));
    }

    #[test]
    fn image_ids_name_the_repository() {
        for (image, repository) in [
            ("nginx:1.27", "docker.io/library/nginx"),
            ("nginx", "docker.io/library/nginx"),
            ("bitnami/redis:7", "docker.io/bitnami/redis"),
            (
                "registry.k8s.io/nginx-slim:0.24",
                "registry.k8s.io/nginx-slim",
            ),
            ("localhost:5000/a/b:1", "localhost:5000/a/b"),
        ] {
            let id = image_id(image, &SameImages::default());
            assert!(id.starts_with(&format!("{repository}@sha256:")), "{id}");
        }
        let digest = format!("sha256:{}", "0".repeat(64));
        assert_eq!(
            image_id(&format!("a@{digest}"), &SameImages::default()),
            format!("docker.io/library/a@{digest}")
        );
        let same = SameImages::default();
        let mainline = image_id("nginx:mainline-alpine", &same);
        assert_eq!(image_id("nginx:alpine", &same), mainline);
        let groups = [vec!["app:1".to_owned(), "mirror.io/app:2".to_owned()]];
        let same = SameImages::try_new(&groups).unwrap();
        let (one, other) = (image_id("app:1", &same), image_id("mirror.io/app:2", &same));
        assert!(other.starts_with("mirror.io/app@"));
        assert_eq!(
            one.split_once('@').unwrap().1,
            other.split_once('@').unwrap().1
        );
    }

    #[test]
    fn addresses_stay_within_their_subnets() {
        assert_eq!(pod_ip(1, 1), "10.244.1.2");
        assert_eq!(pod_ip(1, 253), "10.244.1.254");
        assert_eq!(pod_ip(1, 254), "10.244.1.2");
        assert_eq!(pod_ip(256, 1), "10.245.0.2");
        assert_eq!(host_ip(1), "172.18.0.2");
    }
}
