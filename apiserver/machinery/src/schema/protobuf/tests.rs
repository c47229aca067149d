use crate::json::json;

use super::*;
use crate::schema::tests::kind;
use crate::schema::{FieldValidation, decode_value};

/// The request body of `kubectl create deployment web --image=nginx:1 --replicas=3 --port=80`.
const DEPLOYMENT: &str = "6b3873000a150a07617070732f7631120a4465706c6f796d656e7412ba010a1f0a0377\
    656212001a0022002a003200380042005a0a0a0361707012037765621288010803120c0a0a0a0361707012037765621a\
    6e0a1c0a0012001a0022002a003200380042005a0a0a036170701203776562124e12300a056e67696e7812076e67696e\
    783a312a00320a0a001000185022002a0042006a007200800100880100900100a201001a00320042004a005200580060\
    0068008201008a01009a0100c2010022020a00280038001a0c0800100018002000280038001a002200";

/// Objects, and a real server's protobuf encoding of them, in base64.
const RECORDED: &str = include_str!("recorded.jsonl");

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().map(|c| c.to_digit(16).unwrap()).collect();
    let byte = |pair: &[u32]| u8::try_from(pair[0] * 16 + pair[1]).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// A field of bytes, a string or a message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    [&[number << 3 | 2, length], content].concat()
}

/// A field inside others, the outermost first.
fn nested(numbers: &[u8], content: &[u8]) -> Vec<u8> {
    let wrap = |content: Vec<u8>, &number: &u8| field(number, &content);
    numbers.iter().rev().fold(content.to_vec(), wrap)
}

/// Decodes `message` and returns the value at `pointer`.
fn check(api_version: &str, name: &str, message: &[u8], pointer: &str, expected: Value) {
    let value = decode(kind(api_version, name), message).unwrap();
    assert_eq!(value.pointer(pointer), Some(&expected), "in {value}");
}

#[test]
fn a_deployment_of_kubectl_is_what_its_json_is() {
    let body = unhex(DEPLOYMENT);
    let envelope = envelope(&body).unwrap();
    assert_eq!(
        (&*envelope.api_version, &*envelope.kind),
        ("apps/v1", "Deployment")
    );
    let schema = kind("apps/v1", "Deployment");
    let normalize = |value| {
        decode_value(schema, value, FieldValidation::Strict)
            .unwrap()
            .value
    };
    let labels = json!({"app": "web"});
    assert_eq!(
        normalize(decode(schema, envelope.raw).unwrap()),
        normalize(json!({
            "metadata": {"name": "web", "labels": labels},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [
                        {"name": "nginx", "image": "nginx:1", "ports": [{"containerPort": 80}]},
                    ]},
                },
            },
        }))
    );
}

#[test]
fn objects_have_the_bytes_that_a_real_server_sends() {
    for line in RECORDED.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let object = &line["object"];
        let recorded = STANDARD.decode(line["protobuf"].as_str().unwrap()).unwrap();
        let encoded = encode(object).unwrap();
        assert_eq!(encoded.bytes(), recorded, "{object}");
        if object["metadata"]["name"].is_null() || object["kind"] == "PartialObjectMetadata" {
            // Documents that only the server writes.
            continue;
        }
        let text = |field: &str| object[field].as_str().unwrap();
        let schema = kind(text("apiVersion"), text("kind"));
        let mut decoded = decode(schema, encoded.message()).unwrap();
        for field in ["apiVersion", "kind"] {
            decoded[field] = object[field].clone();
        }
        let decoded = decode_value(schema, decoded, FieldValidation::Strict).unwrap();
        assert_eq!(decoded.value, *object);
    }
}

#[test]
fn a_status_has_its_empty_fields() {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "no", "reason": "NotFound",
        "details": { "name": "a", "causes": [{ "reason": "R" }] }, "code": 404,
    });
    let written = b"k8s\0\n\x0c\n\x02v1\x12\x06Status\x12\x38\
        \n\x06\n\0\x12\0\x1a\0\x12\x07Failure\x1a\x02no\x22\x08NotFound\
        \x2a\x14\n\x01a\x12\0\x1a\0\x22\x07\n\x01R\x12\0\x1a\0\x28\0\x32\0\x30\x94\x03\x1a\0\x22\0";
    assert_eq!(encode(&status).unwrap().bytes(), &written[..]);
    assert_eq!(
        encode(&json!({ "kind": "Foo", "apiVersion": "example.com/v1" })),
        None
    );
}

#[test]
fn an_event_is_framed_by_its_length() {
    let frame = watch_frame("ADDED", &[7; 130]);
    assert_eq!(frame.len(), 4 + 2 + 5 + 3 + 3 + 130);
    assert!(frame.starts_with(b"\0\0\0\x8f\x0a\x05ADDED\x12\x85\x01\x0a\x82\x01\x07"));
}

#[test]
fn messages_that_json_inlines_are_read_into_the_struct_around_them() {
    // spec.containers[].livenessProbe.handler.tcpSocket.port, the port being the string "a".
    let port = [&[0x08, 1][..], &field(3, b"a")].concat();
    let probe = nested(&[2, 2, 10, 1, 3, 1], &port);
    let at = "/spec/containers/0/livenessProbe/tcpSocket/port";
    check("v1", "Pod", &probe, at, json!("a"));
    let volume = nested(&[2, 1, 2, 6, 1], b"s");
    let at = "/spec/volumes/0/secret/secretName";
    check("v1", "Pod", &volume, at, json!("s"));
}

#[test]
fn values_are_written_as_in_json() {
    let entry = |key: &[u8], value: &[u8]| [field(1, key), field(2, value)].concat();
    let data = field(2, &entry(b"k", &[0, 255]));
    check("v1", "Secret", &data, "/data/k", json!("AP8="));
    let hard = nested(&[2, 1], &entry(b"cpu", &field(1, b"1500m")));
    check(
        "v1",
        "ResourceQuota",
        &hard,
        "/spec/hard/cpu",
        json!("1500m"),
    );
    let time = nested(&[1, 8], &[0x08, 0xe8, 0x07, 0x10, 9]);
    let at = "/metadata/creationTimestamp";
    check("v1", "Pod", &time, at, json!("1970-01-01T00:16:40Z"));
    check("v1", "Pod", &nested(&[1, 8], &[]), at, Value::Null);
    // 2 s and 3001 ns, of which whole microseconds remain.
    let renewed = nested(&[2, 4], &[0x08, 2, 0x10, 0xb9, 0x17]);
    let at = "/spec/renewTime";
    let micros = json!("1970-01-01T00:00:02.000003Z");
    check("coordination.k8s.io/v1", "Lease", &renewed, at, micros);
    let data = nested(&[2, 1], br#"{"a":[1]}"#);
    check(
        "apps/v1",
        "ControllerRevision",
        &data,
        "/data",
        json!({"a": [1]}),
    );
    let negative = [0x10, 0xfb, 255, 255, 255, 255, 255, 255, 255, 255, 1];
    let at = "/value";
    check(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        &negative,
        at,
        json!(-5),
    );
}

#[test]
fn lists_in_maps_are_wrapped_and_numbers_may_be_packed() {
    let items = [field(1, b"x"), field(1, b"y")].concat();
    let extra = [field(1, b"k"), field(2, &items)].concat();
    let review = nested(&[2, 5], &extra);
    let group = "authorization.k8s.io/v1";
    check(
        group,
        "SubjectAccessReview",
        &review,
        "/spec/extra/k",
        json!(["x", "y"]),
    );
    // spec.securityContext.supplementalGroups
    let (packed, plain) = (nested(&[2, 14, 4], &[1, 2]), nested(&[2, 14], &[0x20, 3]));
    let at = "/spec/securityContext/supplementalGroups";
    check("v1", "Pod", &[packed, plain].concat(), at, json!([1, 2, 3]));
}

#[test]
fn unknown_fields_of_every_wire_type_are_passed_over() {
    let mut message = vec![0xf8, 0x3f, 1, 0xf9, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0];
    message.extend([
        0xfd, 0x3f, 0, 0, 0, 0, 0xfb, 0x3f, 0x0b, 0x08, 1, 0x0c, 0xfc, 0x3f,
    ]);
    message.extend(nested(&[1, 1], b"n"));
    check(
        "v1",
        "Namespace",
        &message,
        "",
        json!({"metadata": {"name": "n"}}),
    );
}

#[test]
fn malformed_messages_are_refused_with_their_fault() {
    let prefix =
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
    for (body, fault) in [
        (&b""[..], "empty data"),
        (b"{}", prefix),
        (b"k8s\0", "empty body"),
        (b"k8s\0\x0a\x7f", "unexpected EOF"),
        (
            b"k8s\0\x08\x01",
            "proto: wrong wireType = 0 for field TypeMeta",
        ),
    ] {
        assert_eq!(envelope(body).unwrap_err().to_string(), fault);
    }
    let overflow = [255; 11];
    let negative = [0x0a, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1];
    for (message, fault) in [
        (&overflow[..], "proto: integer overflow"),
        (
            &negative,
            "proto: negative length found during unmarshaling",
        ),
        (&[0x02, 0], "proto: Pod: illegal tag 0 (wire type 2)"),
        (&[0x0c], "proto: Pod: wiretype end group for non-group"),
        (&[0x0f], "proto: illegal wireType 7"),
        (&[0x0b, 0x0b], "unexpected EOF"),
        (&[0x08, 1], "proto: wrong wireType = 0 for field Metadata"),
    ] {
        let refused = decode(kind("v1", "Pod"), message).unwrap_err();
        assert_eq!(refused.to_string(), fault);
    }
    let too_deep = read_fields(kind("v1", "Pod"), &[], &[], 0, &mut Map::new());
    assert_eq!(too_deep, Err(Error::Depth));
}

#[test]
fn damaged_bodies_never_panic() {
    let body = unhex(DEPLOYMENT);
    let schema = kind("apps/v1", "Deployment");
    let read = |body: &[u8]| {
        let value = decode(schema, envelope(body).ok()?.raw).ok()?;
        decode_value(schema, value, FieldValidation::Strict).ok()
    };
    assert!(read(&body).is_some());
    for end in 0..body.len() {
        read(&body[..end]);
    }
    for bit in 0..body.len() * 8 {
        let mut damaged = body.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        read(&damaged);
    }
}
