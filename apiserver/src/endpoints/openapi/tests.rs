use std::collections::BTreeSet;

use super::*;
use crate::json::SmolStr;
use crate::meta::GroupVersionKind;
use crate::schema::{self, ListType, Object, Schema};

fn document(key: &str) -> Value {
    document_v3(&[], key).unwrap()
}

fn operation(key: &str, path: &str, method: &str) -> Value {
    document(key)["paths"][path][method].clone()
}

fn parameters(operation: &Value) -> Vec<&str> {
    let parameters = operation["parameters"].as_array().unwrap().iter();
    parameters
        .map(|parameter| parameter["name"].as_str().unwrap())
        .collect()
}

/// What kubectl looks for before it leaves field validation to the server.
#[test]
fn every_patch_operation_has_the_parameter_field_validation() {
    let mut patches = 0;
    for key in keys() {
        for operations in document(&key)["paths"].as_object().unwrap().values() {
            let patch = &operations["patch"];
            if patch["x-kubernetes-action"] == "patch" {
                patches += 1;
                assert!(parameters(patch).contains(&"fieldValidation"), "{key}");
            }
        }
    }
    assert!(patches > 50);
}

#[test]
fn operations_carry_kind_action_parameters_and_bodies() {
    let path = "/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}";
    let patch = operation("apis/apps/v1", path, "patch");
    assert_eq!(patch["operationId"], "patchAppsV1NamespacedStatefulSet");
    assert_eq!(patch["x-kubernetes-action"], "patch");
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "StatefulSet"})
    );
    assert_eq!(
        parameters(&patch),
        ["dryRun", "fieldManager", "fieldValidation", "force"]
    );
    let merge = &patch["requestBody"]["content"]["application/merge-patch+json"];
    let reference =
        json!({"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Patch"});
    assert_eq!(merge["schema"], reference);
    let scale = operation("apis/apps/v1", &format!("{path}/scale"), "get");
    assert_eq!(scale["operationId"], "readAppsV1NamespacedStatefulSetScale");
    assert_eq!(scale["x-kubernetes-group-version-kind"]["kind"], "Scale");
}

/// The groups and versions that `document` gives the options of deletions.
fn versions_of_options(document: &Value) -> Vec<(&str, &str)> {
    let name = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
    let schema = &document["components"]["schemas"][name];
    let kinds = schema["x-kubernetes-group-version-kind"]
        .as_array()
        .unwrap();
    let mut versions = Vec::new();
    for kind in kinds {
        let (group, version) = (kind["group"].as_str(), kind["version"].as_str());
        versions.push((group.unwrap(), version.unwrap()));
    }
    versions
}

#[test]
fn what_every_group_has_names_the_groups_of_its_document() {
    let apps = document("apis/apps/v1");
    assert_eq!(versions_of_options(&apps), [("", "v1"), ("apps", "v1")]);
    assert_eq!(versions_of_options(&document("api/v1")), [("", "v1")]);
    let custom = custom_document(json!({"type": "object"}));
    let versions = versions_of_options(&custom);
    assert!(versions.contains(&("apps", "v1beta2")), "{versions:?}");
    let unknown = |(group, _): &(&str, &str)| group.starts_with("ap") && group.ends_with("k8s.io");
    assert!(!versions.iter().any(unknown), "{versions:?}");
    let bare = document("openid/v1/jwks");
    assert_eq!(bare["components"]["schemas"], Value::Null);
}

#[test]
fn collections_list_create_and_delete() {
    let pods = "/api/v1/namespaces/{namespace}/pods";
    let delete = operation("api/v1", pods, "delete");
    assert_eq!(delete["operationId"], "deleteCoreV1CollectionNamespacedPod");
    assert_eq!(delete["x-kubernetes-action"], "deletecollection");
    let everywhere = operation("api/v1", "/api/v1/pods", "get");
    assert_eq!(everywhere["operationId"], "listCoreV1PodForAllNamespaces");
    let nodes = operation("api/v1", "/api/v1/nodes", "post");
    assert_eq!(nodes["operationId"], "createCoreV1Node");
    let exec = operation("api/v1", &format!("{pods}/{{name}}/exec"), "post");
    assert_eq!(exec["operationId"], "connectCoreV1PostNamespacedPodExec");
    let proxy = format!("{pods}/{{name}}/proxy/{{path}}");
    let proxy = operation("api/v1", &proxy, "options");
    assert_eq!(
        proxy["operationId"],
        "connectCoreV1OptionsNamespacedPodProxyWithPath"
    );
    let roles = "/apis/rbac.authorization.k8s.io/v1/watch/clusterroles/{name}";
    let watch = operation("apis/rbac.authorization.k8s.io/v1", roles, "get");
    assert_eq!(watch["operationId"], "watchRbacAuthorizationV1ClusterRole");
    assert_eq!(watch["tags"], json!(["rbacAuthorization_v1"]));
}

/// Parameters of all operations of a path are listed at the path.
#[test]
fn common_parameters_are_hoisted() {
    let core = document("api/v1");
    let bindings = &core["paths"]["/api/v1/namespaces/{namespace}/bindings"];
    assert_eq!(
        parameters(bindings),
        [
            "dryRun",
            "fieldManager",
            "fieldValidation",
            "namespace",
            "pretty"
        ]
    );
    assert_eq!(bindings["post"]["parameters"], Value::Null);
}

/// The Go types for decoding and the published schemas come from separate data.
#[test]
fn schemas_have_the_fields_and_list_types_of_the_go_types() {
    let mut seen = BTreeSet::new();
    for info in Catalog::builtin().resources() {
        let gvk = info.gvk();
        let Some(object) = schema::builtin(gvk) else {
            continue;
        };
        let name = definitions::name(gvk);
        check_object(&name, object, &mut seen);
    }
    assert!(seen.len() > 450, "{}", seen.len());
}

fn check_object(name: &str, object: &Object, seen: &mut BTreeSet<String>) {
    if !seen.insert(name.to_owned()) {
        return;
    }
    let definition = definitions::builtin(name).unwrap_or_else(|| panic!("no {name}"));
    let Some(properties) = definition["properties"].as_object() else {
        return;
    };
    let fields: BTreeSet<&str> = object.fields().iter().map(|field| &*field.name).collect();
    let properties_named: BTreeSet<&str> = properties.keys().map(SmolStr::as_str).collect();
    assert_eq!(fields, properties_named, "{name}");
    for field in object.fields() {
        let property = &properties[&*field.name];
        let list_type = field.list_type.map(|kind| match kind {
            ListType::Atomic => "atomic",
            ListType::Set => "set",
            ListType::Map => "map",
        });
        let at = format!("{name}.{}", field.name);
        assert_eq!(
            property["x-kubernetes-list-type"].as_str(),
            list_type,
            "{at}"
        );
        let key = field.patch_merge_key.as_deref();
        assert_eq!(
            property["x-kubernetes-patch-merge-key"].as_str(),
            key,
            "{at}"
        );
        let (schema, property) = match &field.schema {
            Schema::Array(array) => (&array.items, &property["items"]),
            Schema::Map(map) => (&map.values, &property["additionalProperties"]),
            schema => (schema, property),
        };
        if let (Schema::Object(object), Some(name)) = (schema, property["$ref"].as_str()) {
            check_object(name, object, seen);
        }
    }
}

/// Whatever a document refers to is in it, in both versions.
#[test]
fn references_lead_somewhere() {
    let v2 = document_v2(&[]);
    let mut used = BTreeSet::new();
    collect_references(&v2["paths"], &mut used);
    collect_references(&v2["definitions"], &mut used);
    assert!(used.len() > 500);
    for reference in used {
        let pointer = reference.trim_start_matches('#');
        assert!(v2.pointer(pointer).is_some(), "{reference}");
    }
    let all: BTreeSet<&str> = definitions::names().collect();
    let in_v2: BTreeSet<&str> = v2["definitions"]
        .as_object()
        .unwrap()
        .keys()
        .map(SmolStr::as_str)
        .collect();
    assert_eq!(all, in_v2);
    for key in keys() {
        let document = document(&key);
        let mut used = BTreeSet::new();
        collect_references(&document, &mut used);
        for reference in used {
            let pointer = reference.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{key} {reference}");
        }
    }
}

fn collect_references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(reference)) = object.get("$ref") {
                into.insert(reference.to_string());
            }
            object
                .values()
                .for_each(|value| collect_references(value, into));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|value| collect_references(value, into)),
        _ => {}
    }
}

#[test]
fn v3_keeps_defaults_and_alternatives_that_v2_has_not() {
    let v3 = document("apis/apps/v1");
    let v2 = document_v2(&[]);
    let rolling = "io.k8s.api.apps.v1.RollingUpdateDeployment";
    let spec = "io.k8s.api.apps.v1.DeploymentSpec";
    let (v3, v2) = (&v3["components"]["schemas"], &v2["definitions"]);
    let surge = &v2[rolling]["properties"]["maxSurge"];
    let int_or_string = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
    assert_eq!(surge["$ref"], format!("#/definitions/{int_or_string}"));
    assert!(surge["description"].is_string());
    assert_eq!(
        v3[rolling]["properties"]["maxSurge"]["allOf"],
        json!([{"$ref": format!("#/components/schemas/{int_or_string}")}])
    );
    assert_eq!(v2[int_or_string]["type"], "string");
    assert_eq!(v2[int_or_string]["oneOf"], Value::Null);
    assert_eq!(v3[int_or_string]["type"], Value::Null);
    assert_eq!(
        v3[int_or_string]["oneOf"],
        json!([{"type": "integer"}, {"type": "string"}])
    );
    assert_eq!(v3[spec]["properties"]["template"]["default"], json!({}));
    assert_eq!(v2[spec]["properties"]["template"]["default"], Value::Null);
    assert_eq!(v3[spec]["required"], json!(["selector", "template"]));
    let strategy = &v3["io.k8s.api.apps.v1.DeploymentStrategy"]["properties"]["type"];
    assert_eq!(strategy["enum"], json!(["Recreate", "RollingUpdate"]));
    let port = &v3["io.k8s.api.core.v1.ContainerPort"]["properties"]["protocol"];
    assert_eq!(port["default"], "TCP");
}

fn widget(schema: Value) -> CustomKind {
    CustomKind {
        gvk: GroupVersionKind {
            group: "example.com".to_owned(),
            version: "v1".to_owned(),
            kind: "Widget".to_owned(),
        },
        list_kind: "WidgetList".to_owned(),
        plural: "widgets".to_owned(),
        namespaced: true,
        subresources: vec!["scale".to_owned(), "status".to_owned()],
        schema: Some(schema.to_string().into()),
        preserve_unknown_fields: false,
        selectable_fields: vec![".spec.a".to_owned()],
    }
}

fn custom_document(schema: Value) -> Value {
    document_v3(&[widget(schema)], "apis/example.com/v1").unwrap()
}

fn spec_of(schema: Value, form: Form) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": schema}});
    let definitions = match form {
        Form::V2 => document_v2(&[widget(schema)])["definitions"].take(),
        Form::V3 => custom_document(schema)["components"]["schemas"].take(),
    };
    definitions["com.example.v1.Widget"]["properties"]["spec"].clone()
}

#[test]
fn custom_kinds_have_schemas_of_objects_and_lists() {
    let document = custom_document(json!({"type": "object", "properties": {}}));
    let schemas = &document["components"]["schemas"];
    let widget = &schemas["com.example.v1.Widget"];
    assert_eq!(
        widget["x-kubernetes-group-version-kind"],
        json!([{"group": "example.com", "kind": "Widget", "version": "v1"}])
    );
    assert_eq!(
        widget["x-kubernetes-selectable-fields"],
        json!([{"fieldPath": "spec.a"}])
    );
    let meta = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(
        widget["properties"]["metadata"]["allOf"],
        json!([{"$ref": meta}])
    );
    assert!(widget["properties"]["kind"]["description"].is_string());
    let list = &schemas["com.example.v1.WidgetList"];
    assert_eq!(list["description"], "WidgetList is a list of Widget");
    assert_eq!(list["required"], json!(["items"]));
    assert!(document["components"]["securitySchemes"].is_null());
}

#[test]
fn a_custom_kind_may_be_called_like_a_built_in_one() {
    let mut deployment = widget(json!({"type": "object", "title": "Ours"}));
    deployment.gvk.group = "apps.example.com".to_owned();
    deployment.gvk.kind = "Deployment".to_owned();
    let document = document_v2(&[deployment]);
    let definitions = &document["definitions"];
    assert_eq!(
        definitions["com.example.apps.v1.Deployment"]["title"],
        "Ours"
    );
    assert!(definitions["io.k8s.api.apps.v1.Deployment"]["title"].is_null());
}

#[test]
fn custom_kinds_have_paths_with_their_subresources() {
    let document = custom_document(json!({"type": "object"}));
    let widgets = "/apis/example.com/v1/namespaces/{namespace}/widgets";
    let expected = [
        widgets.to_owned(),
        format!("{widgets}/{{name}}"),
        format!("{widgets}/{{name}}/scale"),
        format!("{widgets}/{{name}}/status"),
        "/apis/example.com/v1/widgets".to_owned(),
    ];
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.keys().eq(&expected), "{paths:?}");
    let patch = &paths[&expected[3]]["patch"];
    assert_eq!(
        patch["operationId"],
        "patchExampleComV1NamespacedWidgetStatus"
    );
    assert_eq!(
        patch["description"],
        "partially update status of the specified Widget"
    );
    let patches = patch["requestBody"]["content"].as_object().unwrap();
    assert_eq!(patches.len(), 3, "no strategic merge patch: {patches:?}");
    let scale = &paths[&expected[2]]["get"]["responses"]["200"]["content"]["application/json"];
    assert_eq!(
        scale["schema"]["$ref"],
        "#/components/schemas/io.k8s.api.autoscaling.v1.Scale"
    );
}

#[test]
fn v2_says_of_a_custom_kind_what_it_has_words_for() {
    let v2 = |schema| spec_of(schema, Form::V2);
    let text = json!({"type": "string"});
    let nullable = json!({"type": "object", "nullable": true, "properties": {"a": text}});
    assert_eq!(v2(nullable.clone()), json!({}));
    assert_eq!(spec_of(nullable.clone(), Form::V3), nullable);
    let requires = json!({
        "type": "object", "required": ["a", "b"], "anyOf": [{"required": ["a"]}],
        "properties": {"a": text, "b": {"type": "string", "nullable": true}},
    });
    assert_eq!(
        v2(requires),
        json!({"type": "object", "required": ["a"], "properties": {"a": text, "b": {}}})
    );
    let either = json!({"x-kubernetes-int-or-string": true});
    assert_eq!(v2(either.clone()), either);
    assert_eq!(
        spec_of(either, Form::V3)["anyOf"],
        json!([{"type": "integer"}, {"type": "string"}])
    );
    let open = json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"a": text},
    });
    assert_eq!(
        v2(open),
        json!({"x-kubernetes-preserve-unknown-fields": true})
    );
    assert_eq!(v2(json!({"type": "string", "default": "x"})), text);
    let unset = json!({"type": "string", "nullable": false, "id": "x"});
    assert_eq!(v2(unset), text);
}

#[test]
fn an_embedded_resource_has_the_fields_of_every_object() {
    let template = json!({"type": "object", "x-kubernetes-embedded-resource": true});
    let embedded = spec_of(template, Form::V3);
    assert_eq!(embedded["required"], json!(["kind", "apiVersion"]));
    assert!(embedded["properties"]["metadata"]["allOf"].is_array());
}

#[test]
fn a_change_of_custom_kinds_changes_their_documents_and_no_others() {
    let openapi = OpenApi::default();
    let etag = |key: &str| openapi.generation().index().etags.get(key).cloned();
    let served_etag = |path: &str| {
        let answer = openapi.answer(path, &[], &HeaderMap::new(), Timestamp::UNIX_EPOCH);
        answer.unwrap().headers()["etag"].clone()
    };
    let (key, core) = ("apis/example.com/v1", etag("api/v1"));
    let v2 = served_etag("/openapi/v2");
    openapi.set_custom(vec![widget(json!({"type": "object"}))]);
    let first = etag(key).unwrap();
    assert_eq!(
        served_etag("/openapi/v3/apis/example.com/v1"),
        format!("\"{first}\"")
    );
    assert_ne!(served_etag("/openapi/v2"), v2);
    openapi.set_custom(vec![widget(json!({"type": "object", "title": "Another"}))]);
    assert_ne!(etag(key).unwrap(), first);
    assert_eq!(etag("api/v1"), core);
    openapi.set_custom(Vec::new());
    assert_eq!(etag(key), None);
    assert_eq!(served_etag("/openapi/v2"), v2);
}
