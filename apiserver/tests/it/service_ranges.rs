//! Addresses and node ports of services in ranges that are not those of kube-apiserver without flags.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::IpAddr;

use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, ServiceRanges};

use crate::support::requests::{read, respond};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn server(address: &str, prefix: u32) -> ApiServer {
    let address: IpAddr = address.parse().unwrap();
    let ranges = ServiceRanges::DEFAULT
        .with_network(address, prefix)
        .unwrap();
    let ranges = ranges.with_node_ports(40_000..=40_001);
    ApiServer::builder().service_ranges(ranges).build()
}

async fn send(server: &ApiServer, request: &str, body: Value) -> (u16, Value) {
    let headers = [("content-type", "application/json")];
    let (code, body) = read(respond(server, request, &headers, body.to_string()).await).await;
    (code, serde_json::from_slice(&body).unwrap())
}

async fn create(server: &ApiServer, name: &str, spec: Value) -> (u16, Value) {
    let mut spec = spec;
    spec["ports"] = json!([{"port": 80}]);
    let body = json!({"metadata": {"name": name}, "spec": spec});
    send(server, &format!("POST {SERVICES}"), body).await
}

#[tokio::test]
async fn the_objects_of_a_fresh_server_follow_the_network() {
    for (address, prefix, own, family) in [
        ("172.30.0.0", 16, "172.30.0.1", "IPv4"),
        ("fd00:1::", 112, "fd00:1::1", "IPv6"),
    ] {
        let server = server(address, prefix);
        let get = async |path: &str| send(&server, &format!("GET {path}"), Value::Null).await.1;
        let service = get(&format!("{SERVICES}/kubernetes")).await;
        assert_eq!(service["spec"]["clusterIP"], own);
        assert_eq!(service["spec"]["clusterIPs"], json!([own]));
        assert_eq!(service["spec"]["ipFamilies"], json!([family]));
        let networking = "/apis/networking.k8s.io/v1";
        let cidr = get(&format!("{networking}/servicecidrs/kubernetes")).await;
        assert_eq!(
            cidr["spec"]["cidrs"],
            json!([format!("{address}/{prefix}")])
        );
        let claimed = get(&format!("{networking}/ipaddresses")).await;
        assert_eq!(claimed["items"][0]["metadata"]["name"], own);
        let label = "ipaddress.kubernetes.io/ip-family";
        assert_eq!(claimed["items"][0]["metadata"]["labels"][label], family);
    }
    // Another server of this process is as before.
    let plain = ApiServer::builder().build();
    let (_, service) = send(&plain, &format!("GET {SERVICES}/kubernetes"), Value::Null).await;
    assert_eq!(service["spec"]["clusterIP"], "10.0.0.1");
}

#[tokio::test]
async fn services_get_addresses_and_ports_of_the_ranges() {
    let server = server("172.30.0.0", 29);
    let (_, first) = create(&server, "a", json!({})).await;
    assert_eq!(first["spec"]["clusterIP"], "172.30.0.2");
    let (code, last) = create(&server, "b", json!({"clusterIP": "172.30.0.6"})).await;
    assert_eq!(code, 201, "{last}");
    for (address, why) in [
        (
            "10.0.0.9",
            "failed to allocate IP 10.0.0.9: the provided network does not match the current range",
        ),
        (
            "172.30.0.7",
            "failed to allocate IP 172.30.0.7: the provided IP (172.30.0.7) is not in the valid range. The range of \
             valid IPs is 172.30.0.0/29",
        ),
        (
            "172.30.0.6",
            "failed to allocate IP 172.30.0.6: provided IP is already allocated",
        ),
    ] {
        let (code, refused) = create(&server, "c", json!({"clusterIP": address})).await;
        let message = refused["message"].as_str().unwrap();
        assert!(code == 422 && message.contains(why), "{message}");
    }
    let mut ports = Vec::new();
    for name in ["d", "e"] {
        let (_, service) = create(&server, name, json!({"type": "NodePort"})).await;
        ports.push(service["spec"]["ports"][0]["nodePort"].clone());
    }
    assert_eq!(ports, [40_000, 40_001]);
    let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_000}]});
    let body = json!({"metadata": {"name": "f"}, "spec": spec});
    let (_, refused) = send(&server, &format!("POST {SERVICES}"), body).await;
    let why = "provided port is not in the valid range. The range of valid ports is 40000-40001";
    assert!(
        refused["message"].as_str().unwrap().contains(why),
        "{refused}"
    );
}

#[tokio::test]
async fn the_family_of_a_service_is_that_of_the_network() {
    let server = server("fd00:1::", 112);
    let (_, service) = create(&server, "a", json!({})).await;
    assert_eq!(service["spec"]["clusterIP"], "fd00:1::2");
    assert_eq!(service["spec"]["ipFamilies"], json!(["IPv6"]));
    let (code, refused) = create(&server, "b", json!({"clusterIP": "10.0.0.9"})).await;
    let why = "IPv4 is not configured on this cluster";
    assert!(
        code == 422 && refused["message"].as_str().unwrap().contains(why),
        "{refused}"
    );
    let (code, refused) = create(&server, "c", json!({"ipFamilies": ["IPv4"]})).await;
    let why = "not configured on this cluster";
    assert!(
        code == 422 && refused["message"].as_str().unwrap().contains(why),
        "{refused}"
    );
}
