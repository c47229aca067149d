//! Status of resource claims: its validation, and the removal of data about deallocated devices.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::condition::validate_conditions;
use crate::core::pod::volume_sources::validate_csi_driver_name;
use crate::json::{Map, Value, json};
use crate::resource::devices::{validate_label, validate_list, validate_pool_name};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{items, text};
use crate::validation::{invalid_as, invalid_each};

const CONSUMERS_MAX: usize = 256;
const CONDITIONS_MAX: usize = 8;
const DATA_BYTES_MAX: usize = 10 * 1024;
const INTERFACE_BYTES_MAX: usize = 256;
const HARDWARE_BYTES_MAX: usize = 128;
const ADDRESSES_MAX: usize = 16;
const NORMAL_UID: &str = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters";
const ADDRESS: &str = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";

/// Faults of those for whom the claim is reserved.
pub(super) fn validate_consumers(consumers: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let of_consumer = |own: &Value, path: &FieldPath, errors: &mut FieldErrors| {
        for field in ["resource", "name", "uid"] {
            if text(&own[field]).is_empty() {
                errors.required(&path.child(field), "");
            }
        }
    };
    if !validate_list(consumers, CONSUMERS_MAX, path, errors, of_consumer) {
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, own) in items(consumers).enumerate() {
        if !seen.insert(text(&own["uid"])) {
            errors.duplicate(&path.index(index), &own["uid"]);
        }
    }
}

/// Which device, and which share of it.
fn identity(device: &Value) -> [&str; 4] {
    ["driver", "pool", "device", "shareID"].map(|field| text(&device[field]))
}

fn shown(identity: [&str; 4]) -> String {
    let [driver, pool, device, share] = identity.map(|own| json!(own));
    format!("{{\"Driver\":{driver},\"Pool\":{pool},\"Device\":{device},\"ShareID\":{share}}}")
}

/// Removes the drivers' data about devices that are no longer allocated.
pub(super) fn forget_deallocated(status: &mut Map, old: &Value) {
    let of = |allocation: &Value| -> BTreeSet<[String; 4]> {
        let results = items(&allocation["devices"]["results"]);
        results
            .map(|own| identity(own).map(str::to_owned))
            .collect()
    };
    let kept = status.get("allocation").map(of).unwrap_or_default();
    let gone = &of(&old["allocation"]) - &kept;
    let Some(devices) = status.get_mut("devices").and_then(Value::as_array_mut) else {
        return;
    };
    devices.retain(|device| !gone.contains(&identity(device).map(str::to_owned)));
    if devices.is_empty() {
        status.remove("devices");
    }
}

/// Faults of the drivers' data about allocated devices.
pub(super) fn validate_devices(status: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let results = &status["allocation"]["devices"]["results"];
    let allocated: BTreeSet<_> = items(results).map(identity).collect();
    let mut seen = BTreeSet::new();
    let mut again = Vec::new();
    for (index, device) in items(&status["devices"]).enumerate() {
        let path = path.index(index);
        validate_csi_driver_name(&device["driver"], &path.child("driver"), errors);
        validate_pool_name(text(&device["pool"]), &path.child("pool"), errors);
        validate_label(text(&device["device"]), &path.child("device"), errors);
        validate_uid(&device["shareID"], &path.child("shareID"), errors);
        let own = identity(device);
        if !allocated.contains(&own) {
            let detail = "must be an allocated device in the claim";
            invalid_as(&path, &shown(own), detail, errors);
        }
        validate_reported(device, &path, errors);
        if !seen.insert(own) {
            again.push((path, own));
        }
    }
    for (path, own) in again {
        let message = format!("Duplicate value: {}", shown(own));
        errors.push(crate::status::CauseReason::Duplicate, &path, message);
    }
}

fn validate_reported(device: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (conditions, at) = (&device["conditions"], path.child("conditions"));
    let count = items(conditions).count();
    if count > CONDITIONS_MAX {
        errors.too_many(&at, count, CONDITIONS_MAX);
    }
    validate_conditions(conditions, &at, errors);
    let (data, at) = (&device["data"], path.child("data"));
    if !data.is_null() && data.to_string().len() > DATA_BYTES_MAX {
        errors.too_long(&at, DATA_BYTES_MAX);
    } else if !data.is_null() && !data.is_object() {
        let detail = "must be a valid JSON object";
        errors.invalid(&at, &"<value omitted>".into(), detail);
    }
    let (network, path) = (&device["networkData"], path.child("networkData"));
    for (field, most) in [
        ("interfaceName", INTERFACE_BYTES_MAX),
        ("hardwareAddress", HARDWARE_BYTES_MAX),
    ] {
        if text(&network[field]).len() > most {
            errors.too_long(&path.child(field), most);
        }
    }
    let (addresses, path) = (&network["ips"], path.child("ips"));
    if !validate_list(addresses, ADDRESSES_MAX, &path, errors, validate_address) {
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, own) in items(addresses).enumerate() {
        if !seen.insert(text(own)) {
            errors.duplicate(&path.index(index), own);
        }
    }
}

/// Validates the address of an interface with its prefix length, which must be in canonical form.
fn validate_address(own: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let parsed = text(own).split_once('/').and_then(|(address, size)| {
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let size: u8 = size.parse().ok().filter(|size| *size <= most)?;
        Some(format!("{address}/{size}"))
    });
    match parsed {
        None => errors.invalid(path, own, ADDRESS),
        Some(shortest) if shortest != text(own) => {
            let detail = format!("must be in canonical form ({shortest:?})");
            errors.invalid(path, own, &detail);
        }
        Some(_) => {}
    }
}

/// The identity of a share of a device.
pub(super) fn validate_uid(uid: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    const BYTES: usize = 36;
    let Some(own) = uid.as_str() else {
        return;
    };
    let fits = |(at, byte): (usize, u8)| match DASHES.contains(&at) {
        true => byte == b'-',
        false => byte.is_ascii_hexdigit(),
    };
    if own.len() != BYTES {
        let detail = format!("error validating uid: invalid UUID length: {}", own.len());
        errors.invalid(path, uid, &detail);
    } else if !own.bytes().enumerate().all(fits) {
        errors.invalid(path, uid, "error validating uid: invalid UUID format");
    } else if own.bytes().any(|byte| byte.is_ascii_uppercase()) {
        invalid_each(vec![NORMAL_UID.to_owned()], uid, path, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_allocated_and_reported_once() {
        let device = |name: &str| json!({"driver": "d.io", "pool": "p", "device": name});
        let mut reported = device("a");
        reported["networkData"] = json!({"ips": ["10.0.0.1/24", "10.0.0.1/24", "x"]});
        let status = json!({
            "allocation": {"devices": {"results": [device("a")]}},
            "devices": [reported, device("a"), device("b")],
        });
        let mut errors = FieldErrors::new();
        validate_devices(&status, &FieldPath::new("devices"), &mut errors);
        let fields: Vec<&str> = errors.causes().iter().map(|own| &*own.field).collect();
        assert_eq!(
            fields,
            [
                "devices[0].networkData.ips[2]",
                "devices[0].networkData.ips[1]",
                "devices[2]",
                "devices[1]"
            ]
        );
    }

    #[test]
    fn shares_have_uids() {
        for (uid, want) in [
            ("aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa", ""),
            ("a", "error validating uid: invalid UUID length: 1"),
            ("Aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa", NORMAL_UID),
        ] {
            let mut errors = FieldErrors::new();
            validate_uid(&uid.into(), &FieldPath::new("u"), &mut errors);
            let found = errors.causes().first().map_or("", |own| &own.message);
            assert!(
                found.ends_with(want) && found.is_empty() == want.is_empty(),
                "{found}"
            );
        }
    }
}
