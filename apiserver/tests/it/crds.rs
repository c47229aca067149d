//! CustomResourceDefinitions of well-known operators, installed and used as their users do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, Clock};

use crate::support::requests::{answer, respond};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MERGE_PATCH: &str = "application/merge-patch+json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// A definition, an object of its kind, and the expected answers.
struct Case {
    /// The file of the definition, below `fixtures/crds`.
    file: &'static str,
    /// The spec of a valid object, in YAML.
    spec: &'static str,
    /// A merge patch that makes `spec` invalid, and the first cause of the refusal.
    fault: (&'static str, &'static str),
    /// The row of the object in a table, in JSON.
    cells: &'static str,
}

const CASES: &[Case] = &[
    Case {
        file: "cert-manager/acme.cert-manager.io_orders.yaml",
        spec: "{issuerRef: {name: acme}, request: aGVsbG8=, dnsNames: [a.example.com]}",
        fault: (r#"{"request": null}"#, r#"spec.request: Required value"#),
        cells: r#"["ok",null,"acme",null,"0s"]"#,
    },
    Case {
        file: "cert-manager/cert-manager.io_certificates.yaml",
        spec: "{secretName: tls, issuerRef: {name: ca, kind: ClusterIssuer}, dnsNames: [a.b],
            privateKey: {algorithm: ECDSA, size: 256}, usages: [server auth]}",
        fault: (r#"{"privateKey": {"algorithm": "DSA"}}"#, r#"spec.privateKey.algorithm: Unsupported value: "DSA": supported values: "RSA", "ECDSA", "Ed25519""#),
        cells: r#"["ok",null,"tls","ca",null,null,"0s"]"#,
    },
    Case {
        file: "cloudnative-pg/postgresql.cnpg.io_clusters.yaml",
        spec: "{instances: 3, storage: {size: 1Gi}, bootstrap: {initdb: {database: app}},
            affinity: {tolerations: [{key: a, operator: Exists}]}}",
        fault: (r#"{"instances": 0}"#, r#"spec.instances: Invalid value: 0: spec.instances in body should be greater than or equal to 1"#),
        cells: r#"["ok","0s",null,null,null,null,null]"#,
    },
    Case {
        file: "cloudnative-pg/postgresql.cnpg.io_scheduledbackups.yaml",
        spec: "{schedule: 0 0 0 * * *, cluster: {name: pg}}",
        fault: (r#"{"target": "nowhere"}"#, r#"spec.target: Unsupported value: "nowhere": supported values: "primary", "prefer-standby""#),
        cells: r#"["ok","0s","pg",null]"#,
    },
    Case {
        file: "crossplane/apiextensions.crossplane.io_compositeresourcedefinitions.yaml",
        spec: "{group: example.org, names: {kind: Db, plural: dbs}, versions: [
            {name: v1, served: true, referenceable: true, schema: {openAPIV3Schema: {x: {y: 1}}}}]}",
        fault: (r#"{"defaultCompositeDeletePolicy": "Never"}"#, r#"spec.defaultCompositeDeletePolicy: Unsupported value: "Never": supported values: "Background", "Foreground""#),
        cells: r#"["ok",null,null,"0s"]"#,
    },
    Case {
        file: "crossplane/apiextensions.crossplane.io_compositions.yaml",
        spec: "{mode: Pipeline, compositeTypeRef: {apiVersion: example.org/v1, kind: Db},
            pipeline: [{step: one, functionRef: {name: f}, input: {apiVersion: a/v1, kind: In, x: 1}}]}",
        fault: (r#"{"pipeline": null}"#, r#"spec: Invalid value: an array of pipeline steps is required in Pipeline mode"#),
        cells: r#"["ok","Db","example.org/v1","0s"]"#,
    },
    Case {
        file: "external-secrets/external-secrets.io_externalsecrets.yaml",
        spec: "{refreshInterval: 1h, secretStoreRef: {name: vault, kind: SecretStore},
            target: {name: s}, data: [{secretKey: k, remoteRef: {key: a/b}}]}",
        fault: (r#"{"refreshPolicy": "Sometimes"}"#, r#"spec.refreshPolicy: Unsupported value: "Sometimes": supported values: "CreatedOnce", "Periodic", "OnChange""#),
        cells: r#"["ok","SecretStore","vault","1h",null,null,null]"#,
    },
    Case {
        file: "gateway-api/gateway.networking.k8s.io_gatewayclasses.yaml",
        spec: "{controllerName: example.com/c, description: a class}",
        fault: (r#"{"controllerName": "c"}"#, r#"spec.controllerName: Invalid value: "c": spec.controllerName in body should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$'"#),
        cells: r#"["ok","example.com/c","Unknown","0s","a class"]"#,
    },
    Case {
        file: "gateway-api/gateway.networking.k8s.io_gateways.yaml",
        spec: "{gatewayClassName: c, listeners: [{name: web, port: 80, protocol: HTTP}]}",
        fault: (
            r#"{"listeners": [{"name": "a", "port": 80, "protocol": "HTTP", "tls": {"mode": "Terminate"}}]}"#,
            r#"spec.listeners: Invalid value: tls must not be specified for protocols ['HTTP', 'TCP', 'UDP']"#,
        ),
        cells: r#"["ok","c",null,"Unknown","0s"]"#,
    },
    Case {
        file: "gateway-api/gateway.networking.k8s.io_grpcroutes.yaml",
        spec: "{parentRefs: [{name: web}], hostnames: [a.example.com],
            rules: [{matches: [{method: {service: a.B, method: Get}}], backendRefs: [{name: s, port: 1}]}]}",
        fault: (r#"{"rules": [{"matches": [{"method": {"type": "Exact"}}]}]}"#, r#"spec.rules[0].matches[0].method: Invalid value: One or both of 'service' or 'method' must be specified"#),
        cells: r#"["ok","[\"a.example.com\"]","0s"]"#,
    },
    Case {
        file: "gateway-api/gateway.networking.k8s.io_referencegrants.yaml",
        spec: "{from: [{group: '', kind: Service, namespace: a}], to: [{group: '', kind: Secret}]}",
        fault: (r#"{"to": []}"#, r#"spec.to: Invalid value: 0: spec.to in body should have at least 1 items"#),
        cells: r#"["ok","0s"]"#,
    },
    Case {
        file: "keda/keda.sh_scaledobjects.yaml",
        spec: "{scaleTargetRef: {name: web}, minReplicaCount: 1, maxReplicaCount: 5,
            triggers: [{type: cron, metadata: {timezone: UTC}}]}",
        fault: (r#"{"triggers": [{"type": "cron", "metadata": {"desired": 3}}]}"#, r#"spec.triggers[0].metadata.desired: Invalid value: "integer": spec.triggers[0].metadata.desired in body must be of type string: "integer""#),
        cells: r#"["ok",null,"web",1,5,null,null,null,null,null,null,"0s"]"#,
    },
    Case {
        file: "kruise/apps.kruise.io_clonesets.yaml",
        spec: "{replicas: 2, selector: {matchLabels: {a: b}}, updateStrategy: {rollingUpdate: {maxUnavailable: 20%}},
            template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}",
        fault: (r#"{"replicas": "two"}"#, r#"spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string""#),
        cells: r#"["ok",2,null,null,null,null,null,"0s","c","i",null]"#,
    },
    Case {
        file: "kruise/apps.kruise.io_statefulsets.yaml",
        spec: "{replicas: 2, selector: {matchLabels: {a: b}}, reserveOrdinals: [1, 2-3],
            template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}",
        fault: (r#"{"updateStrategy": {"rollingUpdate": {"partition": [1]}}}"#, r#"spec.updateStrategy.rollingUpdate.partition: Invalid value: "array": spec.updateStrategy.rollingUpdate.partition in body must be of type integer: "array""#),
        cells: r#"["ok",2,null,null,null,"0s","c","i"]"#,
    },
    Case {
        file: "prometheus-operator/monitoring.coreos.com_probes.yaml",
        spec: "{interval: 30s, prober: {url: example.com}, targets: {staticConfig: {static: [a]}}}",
        fault: (r#"{"interval": "often"}"#, r#"spec.interval: Invalid value: "often": spec.interval in body should match '^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$'"#),
        cells: r#"["ok","0s"]"#,
    },
    Case {
        file: "prometheus-operator/monitoring.coreos.com_prometheusrules.yaml",
        spec: "{groups: [{name: g, rules: [{alert: Down, expr: up == 0, for: 5m}, {record: a, expr: 1}]}]}",
        fault: (r#"{"groups": [{"name": "g"}, {"name": "g"}]}"#, r#"spec.groups[1]: Duplicate value: {"name":"g"}"#),
        cells: r#"["ok","0s"]"#,
    },
    Case {
        file: "prometheus-operator/monitoring.coreos.com_servicemonitors.yaml",
        spec: "{selector: {matchLabels: {a: b}}, endpoints: [{port: web, interval: 1m,
            relabelings: [{action: drop, sourceLabels: [a]}]}]}",
        fault: (r#"{"endpoints": [{"scheme": "ftp"}]}"#, r#"spec.endpoints[0].scheme: Unsupported value: "ftp": supported values: "http", "https", "HTTP", "HTTPS""#),
        cells: r#"["ok","0s"]"#,
    },
    Case {
        file: "strimzi/043-Crd-kafkatopic.yaml",
        spec: "{partitions: 3, replicas: 2, config: {retention.ms: 7200000}}",
        fault: (r#"{"partitions": 0}"#, r#"spec.partitions: Invalid value: 0: spec.partitions in body should be greater than or equal to 1"#),
        cells: r#"["ok",null,3,2,null]"#,
    },
    Case {
        file: "strimzi/045-Crd-kafkanodepool.yaml",
        spec: "{replicas: 3, roles: [broker], storage: {type: jbod, volumes: [{id: 0, type: ephemeral}]}}",
        fault: (r#"{"roles": ["leader"]}"#, r#"spec.roles[0]: Unsupported value: "leader": supported values: "controller", "broker""#),
        cells: r#"["ok",3,null,null]"#,
    },
    Case {
        file: "velero/velero.io_backups.yaml",
        spec: "{includedNamespaces: ['*'], ttl: 720h, hooks: {resources: [{name: h, pre: [
            {exec: {command: [sync], onError: Fail}}]}]}}",
        fault: (r#"{"hooks": {"resources": [{"pre": []}]}}"#, r#"spec.hooks.resources[0].name: Required value"#),
        cells: r#"["ok","0s"]"#,
    },
    Case {
        file: "velero/velero.io_schedules.yaml",
        spec: "{schedule: 0 1 * * *, template: {ttl: 24h}}",
        fault: (r#"{"template": null}"#, r#"spec.template: Required value"#),
        cells: r#"["ok",null,"0 1 * * *",null,"0s",null]"#,
    },
];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/crds")
}

/// A server whose time stands still.
fn server() -> ApiServer {
    let epoch = "2024-01-01T00:00:00Z".parse().unwrap();
    ApiServer::builder().clock(Clock::simulated(epoch)).build()
}

/// Sends `METHOD PATH` and gives code and body of the answer.
async fn send(server: &ApiServer, request: &str, media_type: &str, body: &str) -> (u16, Value) {
    // The media type is accepted by a GET, and describes the body of any other request.
    let header = match request.starts_with("GET ") {
        true => "accept",
        false => "content-type",
    };
    let answer = answer(respond(server, request, &[(header, media_type)], body).await).await;
    (answer.code, answer.body)
}

async fn get(server: &ApiServer, path: &str) -> Value {
    send(server, &format!("GET {path}"), "application/json", "")
        .await
        .1
}

/// Creates the definition in a file, and returns the stored object.
async fn install(server: &ApiServer, file: &str) -> Value {
    let manifest = std::fs::read_to_string(directory().join(file)).unwrap();
    let request = format!("POST {DEFINITIONS}");
    let (code, created) = send(server, &request, "application/yaml", &manifest).await;
    assert_eq!(code, 201, "{file}: {created}");
    let name = created["metadata"]["name"].as_str().unwrap();
    get(server, &format!("{DEFINITIONS}/{name}")).await
}

/// The resource of a definition in the version that it is stored in.
struct Resource {
    definition: Value,
    version: String,
}

impl Resource {
    fn of(definition: Value) -> Self {
        let versions = definition["spec"]["versions"].as_array().unwrap();
        let stored = versions.iter().find(|version| version["storage"] == true);
        let version = stored.unwrap()["name"].as_str().unwrap().to_owned();
        Self {
            definition,
            version,
        }
    }

    fn text(&self, pointer: &str) -> &str {
        self.definition["spec"]
            .pointer(pointer)
            .unwrap()
            .as_str()
            .unwrap()
    }

    fn api_version(&self) -> String {
        format!("{}/{}", self.text("/group"), self.version)
    }

    /// The schema of the version.
    fn schema(&self) -> &Value {
        let versions = self.definition["spec"]["versions"].as_array().unwrap();
        let found = versions
            .iter()
            .find(|version| version["name"] == *self.version);
        &found.unwrap()["schema"]["openAPIV3Schema"]
    }

    /// The path of the collection.
    fn path(&self) -> String {
        let namespace = match self.text("/scope") {
            "Namespaced" => "namespaces/default/",
            _ => "",
        };
        let plural = self.text("/names/plural");
        format!("/apis/{}/{namespace}{plural}", self.api_version())
    }

    /// The path of the collection in OpenAPI.
    fn path_template(&self) -> String {
        self.path().replace("/default/", "/{namespace}/")
    }

    /// An object in YAML.
    fn object(&self, name: &str, spec: &str) -> String {
        let (api_version, kind) = (self.api_version(), self.text("/names/kind"));
        format!(
            "{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: {name}}}, spec: {spec}}}"
        )
    }
}

#[tokio::test(start_paused = true)]
async fn definitions_of_operators_are_installed_and_their_objects_checked() {
    for case in CASES {
        let server = server();
        let resource = Resource::of(install(&server, case.file).await);
        let path = resource.path();
        let object = resource.object("ok", case.spec);
        let post = format!("POST {path}?fieldValidation=Strict");
        let (code, created) = send(&server, &post, "application/yaml", &object).await;
        assert_eq!(code, 201, "{}: {created}", case.file);

        let (fault, want) = case.fault;
        let patch = format!(r#"{{"spec":{fault}}}"#);
        let request = format!("PATCH {path}/ok");
        let (code, refused) = send(&server, &request, MERGE_PATCH, &patch).await;
        let cause = &refused["details"]["causes"][0];
        let text = |field: &str| cause[field].as_str().unwrap_or_default();
        let cause = format!("{}: {}", text("field"), text("message"));
        assert_eq!((code, cause.as_str()), (422, want), "{}", case.file);

        let (_, table) = send(&server, &format!("GET {path}"), TABLE, "").await;
        let cells = table["rows"][0]["cells"].to_string();
        assert_eq!(cells, case.cells, "{}", case.file);
    }
}

#[tokio::test(start_paused = true)]
async fn definitions_of_operators_are_established_discovered_and_documented() {
    for case in CASES {
        let server = server();
        let resource = Resource::of(install(&server, case.file).await);
        let definition = &resource.definition;
        let conditions = definition["status"]["conditions"].as_array().unwrap();
        let conditions: Vec<_> = conditions
            .iter()
            .map(|condition| (condition["type"].as_str(), condition["status"].as_str()))
            .collect();
        let want = [
            (Some("NamesAccepted"), Some("True")),
            (Some("Established"), Some("True")),
        ];
        let conditions: Vec<_> = conditions
            .into_iter()
            .filter(|(kind, _)| want.iter().any(|(k, _)| k == kind))
            .collect();
        assert_eq!(conditions, want, "{}", case.file);

        let group_version = format!("/apis/{}", resource.api_version());
        let discovered = get(&server, &group_version).await;
        let listed = discovered["resources"].as_array().unwrap();
        let plural = resource.text("/names/plural");
        let found = listed
            .iter()
            .find(|listed| listed["name"] == plural)
            .unwrap();
        let names = &definition["spec"]["names"];
        for field in ["shortNames", "categories", "kind"] {
            assert_eq!(found[field], names[field], "{} {field}", case.file);
        }

        let document = get(&server, &format!("/openapi/v3{group_version}")).await;
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let kind = &definition["spec"]["names"]["kind"];
        let documented = schemas
            .values()
            .find(|schema| schema["x-kubernetes-group-version-kind"][0]["kind"] == *kind);
        let spec = &documented.unwrap()["properties"]["spec"];
        let declared = &resource.schema()["properties"]["spec"];
        // Embedded resources are documented with what the definition may leave out.
        assert!(fields(declared).is_subset(&fields(spec)), "{}", case.file);
        assert_eq!(spec["description"], declared["description"]);
    }
}

/// The paths of all fields that a schema has, however deep.
fn fields(schema: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if !schema.is_object() {
        return found;
    }
    let properties = schema["properties"].as_object();
    for (name, field) in properties.into_iter().flatten() {
        found.extend(
            fields(field)
                .into_iter()
                .map(|below| format!("{name}.{below}")),
        );
        found.insert(name.to_string());
    }
    for (keyword, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        let below = fields(&schema[keyword]).into_iter();
        found.extend(below.map(|below| format!("{mark}.{below}")));
    }
    found
}

#[tokio::test(start_paused = true)]
async fn all_definitions_together_are_in_the_document_of_version_2() {
    let server = server();
    let mut resources = Vec::new();
    for case in CASES {
        resources.push(Resource::of(install(&server, case.file).await));
    }
    let document = get(&server, "/openapi/v2").await;
    let definitions = document["definitions"].as_object().unwrap();
    for resource in resources {
        let wanted = json!([{
            "group": resource.text("/group"),
            "version": resource.version,
            "kind": resource.text("/names/kind"),
        }]);
        let documented = definitions
            .values()
            .find(|schema| schema["x-kubernetes-group-version-kind"] == wanted)
            .unwrap();
        let spec = &documented["properties"]["spec"];
        let declared = &resource.schema()["properties"]["spec"];
        let keys = |schema: &Value| -> Vec<String> {
            let properties = schema["properties"].as_object();
            properties
                .unwrap()
                .keys()
                .map(ToString::to_string)
                .collect()
        };
        assert_eq!(keys(spec), keys(declared), "{wanted}");
        // What this version of OpenAPI can't say is left out, so there may be less further below.
        assert!(fields(spec).is_subset(&fields(declared)), "{wanted}");
        assert!(document["paths"][&resource.path_template()].is_object());
    }
}

#[tokio::test(start_paused = true)]
async fn fields_that_a_definition_does_not_have_are_dropped() {
    for case in CASES {
        let server = server();
        let resource = Resource::of(install(&server, case.file).await);
        let path = resource.path();
        let object = resource.object("ok", case.spec);
        let object = object.replacen("spec: {", "spec: {unheardOf: {a: 1}, ", 1);
        let post = format!("POST {path}?fieldValidation=Strict");
        let (code, refused) = send(&server, &post, "application/yaml", &object).await;
        assert_eq!(code, 400, "{}", case.file);
        let message = refused["message"].as_str().unwrap();
        let want = r#"strict decoding error: unknown field "spec.unheardOf""#;
        assert!(message.ends_with(want), "{message}");

        let (code, _) = send(
            &server,
            &format!("POST {path}"),
            "application/yaml",
            &object,
        )
        .await;
        assert_eq!(code, 201, "{}", case.file);
        let stored = get(&server, &format!("{path}/ok")).await;
        assert!(stored["spec"].is_object() && stored["spec"]["unheardOf"].is_null());
    }
}

#[test]
fn every_definition_of_the_fixtures_is_used() {
    let mut found = Vec::new();
    for project in std::fs::read_dir(directory()).unwrap() {
        let project = project.unwrap();
        if project.path().is_dir() {
            for file in std::fs::read_dir(project.path()).unwrap() {
                let names = [project.file_name(), file.unwrap().file_name()];
                let names = names.map(|name| name.into_string().unwrap());
                found.push(names.join("/"));
            }
        }
    }
    found.sort();
    let used: Vec<&str> = CASES.iter().map(|case| case.file).collect();
    assert_eq!(found, used);
}
