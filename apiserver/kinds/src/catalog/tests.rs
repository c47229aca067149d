use super::*;

#[test]
fn builtin_resources_are_found_by_name() {
    let catalog = Catalog::builtin();
    let pods = catalog.resource("", "v1", "pods").unwrap();
    assert!(pods.namespaced && pods.short_names == ["po"]);
    assert_eq!(pods.subresource("eviction").unwrap().gvk.group, "policy");
    assert!(catalog.resource("apps", "v1", "pods").is_none());
}

#[test]
fn the_error_for_an_unknown_field_label_is_worded_per_resource() {
    let error = |group: &str, plural: &str| {
        let info = Catalog::builtin().resource(group, "v1", plural).unwrap();
        assert!(info.selects_by("metadata.name") && !info.selects_by("x"));
        info.field_label_error("x")
    };
    assert_eq!(error("", "pods"), "field label not supported: x");
    assert_eq!(
        error("", "configmaps"),
        r#""x" is not a known field selector: only "metadata.name", "metadata.namespace""#
    );
    assert_eq!(
        error("batch", "jobs"),
        r#"field label "x" not supported for Job"#
    );
}
