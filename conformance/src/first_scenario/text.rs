//! The text of a first scenario.

use std::fmt::Write as _;

use kubeproof_machinery::json::Value;

use super::REFERENCE;

/// The parts of a first scenario.
pub(super) struct Parts<'a> {
    pub(super) object: &'a Value,
    /// The entries of `given.objects` for the definitions.
    pub(super) definition_files: &'a [String],
    /// The path of each changed field, and the merge patch.
    pub(super) changes: &'a [(String, Value)],
    /// The path of the number of replicas, and its values.
    pub(super) scaled: (Option<&'a str>, &'a [i64]),
    pub(super) schema: Option<&'a Value>,
    pub(super) is_custom: bool,
}

impl Parts<'_> {
    /// Returns the scenario as YAML.
    pub(super) fn text(&self) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = text(&self.object["kind"]);
        let namespace = text(&self.object["metadata"]["namespace"]);
        let target = format!(
            "{}/{}",
            kind.to_lowercase(),
            text(&self.object["metadata"]["name"])
        );
        let mut yaml = format!(
            "{REFERENCE}title: A {kind} is created, changed, scaled and deleted\n\
             source: TODO what says how the operator behaves, such as its manual\ngiven:\n"
        );
        if !namespace.is_empty() && namespace != "default" {
            let _ = writeln!(yaml, "  namespace: {}", Value::from(namespace));
        }
        yaml.push_str("  nodes: 1\n");
        if !self.definition_files.is_empty() {
            let _ = writeln!(yaml, "  objects: [{}]", self.definition_files.join(", "));
        }
        yaml.push_str("steps:\n- create:\n");
        let object =
            serde_saphyr::to_string(self.object).unwrap_or_else(|_| self.object.to_string());
        for line in object.lines() {
            let _ = writeln!(yaml, "    {line}");
        }
        yaml.push_str("  # TODO wait for what says that it is there, such as a condition:\n");
        let _ = writeln!(
            yaml,
            "# - wait: {{for: {target}, condition: Ready, timeout: 60s}}"
        );
        for (path, patch) in self.changes {
            let _ = writeln!(
                yaml,
                "- note: {}\n  patch: {{target: {target}, type: merge, patch: {patch}}}",
                Value::from(format!("{path} changes"))
            );
        }
        if let (Some(path), values) = self.scaled {
            for value in values {
                let patch = super::nested(path, (*value).into());
                let _ = writeln!(
                    yaml,
                    "- note: {}\n  patch: {{target: {target}, type: merge, patch: {patch}}}",
                    Value::from(format!("{value} replicas"))
                );
            }
        }
        let _ = writeln!(yaml, "- delete: {{target: {target}}}");
        self.properties(&kind, &mut yaml);
        yaml
    }

    /// Adds properties of the status that the schema describes, which the operator is expected to keep true.
    fn properties(&self, kind: &str, yaml: &mut String) {
        let status = self
            .schema
            .map(|schema| &schema["properties"]["status"]["properties"]);
        let Some(status) = status.filter(|_| self.is_custom) else {
            return;
        };
        let mut properties = Vec::new();
        if status["observedGeneration"].is_object() {
            properties.push((
                "the status is not ahead of the spec",
                format!(
                    "objects.{kind}.all(one, !has(one.status) || !has(one.status.observedGeneration) || \
                     one.status.observedGeneration <= one.metadata.generation)"
                ),
            ));
        }
        let condition = &status["conditions"]["items"]["properties"];
        if condition["type"].is_object() && condition["status"].is_object() {
            properties.push((
                "each condition is there once",
                format!(
                    "objects.{kind}.all(one, !has(one.status) || !has(one.status.conditions) || \
                     one.status.conditions.all(first, one.status.conditions.exists_one(other, other.type == first.type)))"
                ),
            ));
        }
        if !properties.is_empty() {
            yaml.push_str("properties:\n");
        }
        for (name, expression) in properties {
            let _ = writeln!(yaml, "- name: {name}\n  expression: >-\n    {expression}");
        }
    }
}
