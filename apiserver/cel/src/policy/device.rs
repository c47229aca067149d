//! Selectors of devices: whether a device of a ResourceSlice is one that an expression asks for.

use std::{collections::BTreeMap, sync::Arc};

use kubeproof_machinery::json::Value as Json;
use kubeproof_machinery::schema::quantity::Quantity;

use super::super::{
    program::CALL_COST_MAX,
    value::{Key, Map, Object, Semver, Value},
};
use super::Expression;

impl Expression {
    /// Returns whether a device fits.
    ///
    /// `driver` is the driver's name, the domain of names without a domain. `device` is an entry of a ResourceSlice's
    /// devices. The expression is one of [`super::Scope::of_device`].
    ///
    /// # Errors
    /// The reason why the expression has no value, in upstream's words.
    ///
    /// Source: `DeviceMatches` of `dynamic-resource-allocation/cel/compile.go`.
    pub fn matches_device(&self, driver: &str, device: &Json) -> Result<bool, String> {
        let attributes = by_domain(driver, &device["attributes"], |name, own| {
            attribute(own).map_err(|why| format!("attribute {name}: {why}"))
        })?;
        let capacity = by_domain(driver, &device["capacity"], |_, own| {
            let text = own["value"].as_str().unwrap_or_default();
            let amount = Quantity::parse(text).map_err(|error| error.to_string())?;
            Ok(Value::Object(Arc::new(Object::Quantity(amount))))
        })?;
        let shared = device["allowMultipleAllocations"].as_bool();
        let fields = [
            ("driver", Value::string(driver)),
            (
                "allowMultipleAllocations",
                Value::Bool(shared.unwrap_or_default()),
            ),
            ("attributes", attributes),
            ("capacity", capacity),
        ];
        let fields = fields.map(|(name, value)| (Key::String(name.into()), value));
        let device = Value::Map(Map::new(fields.into_iter().collect()));
        let variables = BTreeMap::from([("device", device)]);
        let (value, _) = self.program.evaluate_within(&variables, CALL_COST_MAX);
        match value {
            Ok(Value::Bool(fits)) => Ok(fits),
            Ok(other) => Err(format!(
                "CEL result of type {} could not be converted to bool: {}",
                other.type_name(),
                not_a_bool(&other)
            )),
            Err(error) => Err(error.message().to_owned()),
        }
    }
}

/// Returns attributes or capacities by domain; a domain without any is an empty map.
fn by_domain(
    driver: &str,
    named: &Json,
    mut value: impl FnMut(&str, &Json) -> Result<Value, String>,
) -> Result<Value, String> {
    let mut domains: BTreeMap<&str, BTreeMap<Key, Value>> = BTreeMap::new();
    for (name, own) in named.as_object().into_iter().flatten() {
        let (domain, id) = name.split_once('/').unwrap_or((driver, name));
        let value = value(name, own)?;
        let names = domains.entry(domain).or_default();
        names.insert(Key::String(id.into()), value);
    }
    let domains = domains.into_iter().map(|(domain, names)| {
        let names = Value::Map(Map::new(names));
        (Key::String(domain.into()), names)
    });
    Ok(Value::Map(Map::total(domains.collect())))
}

fn attribute(own: &Json) -> Result<Value, String> {
    if let Some(number) = own["int"].as_i64() {
        return Ok(Value::Int(number));
    }
    if let Some(flag) = own["bool"].as_bool() {
        return Ok(Value::Bool(flag));
    }
    if let Some(text) = own["string"].as_str() {
        return Ok(Value::string(text));
    }
    let version = own["version"].as_str();
    let version = version.ok_or("unsupported attribute value")?;
    let version = Semver::parse(version).map_err(|why| format!("parse semantic version: {why}"))?;
    Ok(Value::Object(Arc::new(Object::Semver(version))))
}

/// Returns cel-go's error for the native conversion of a value that is not a bool.
fn not_a_bool(value: &Value) -> String {
    match value {
        Value::Int(_) => "unsupported type conversion from 'int' to bool".to_owned(),
        Value::String(_) => "unsupported native conversion from string to 'bool'".to_owned(),
        Value::Object(_) => "type conversion error from 'Semver' to 'bool'".to_owned(),
        other => format!("type conversion error from {} to 'bool'", other.type_name()),
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::super::{Returns, Scope};

    #[test]
    fn a_selector_reads_the_attributes_and_capacity_of_a_device() {
        let device = json!({
            "name": "gpu-0",
            "attributes": {
                "model": {"string": "large"},
                "index": {"int": 3},
                "healthy": {"bool": true},
                "other.example/firmware": {"version": "1.10.0"},
            },
            "capacity": {"memory": {"value": "16Gi"}},
        });
        let matches = |text: &str| {
            let expression = Scope::of_device().compile(text, Returns::DeviceMatch);
            expression.unwrap().matches_device("gpu.example", &device)
        };
        for (text, wanted) in [
            ("device.driver == 'gpu.example'", Ok(true)),
            (
                "device.attributes['gpu.example'].model == 'large'",
                Ok(true),
            ),
            ("device.attributes['gpu.example'].index > 3", Ok(false)),
            ("device.attributes['gpu.example'].healthy", Ok(true)),
            (
                "device.attributes['other.example'].firmware.isGreaterThan(semver('1.9.0'))",
                Ok(true),
            ),
            (
                "device.capacity['gpu.example'].memory.compareTo(quantity('16Gi')) >= 0",
                Ok(true),
            ),
            ("device.allowMultipleAllocations", Ok(false)),
            (
                "cel.bind(own, device.attributes['gpu.example'], own.healthy && own.index == 3)",
                Ok(true),
            ),
            ("'model' in device.attributes['elsewhere']", Ok(false)),
            ("'elsewhere' in device.attributes", Ok(false)),
            ("size(device.attributes) == 2", Ok(true)),
            (
                "device.attributes['elsewhere'].model == 'large'",
                Err("no such key: model"),
            ),
            (
                "device.attributes['gpu.example'].index",
                Err(
                    "CEL result of type int could not be converted to bool: unsupported type \
                     conversion from 'int' to bool",
                ),
            ),
            (
                "device.attributes['gpu.example'].model",
                Err(
                    "CEL result of type string could not be converted to bool: unsupported \
                     native conversion from string to 'bool'",
                ),
            ),
        ] {
            let wanted = wanted.map_err(str::to_owned);
            assert_eq!(matches(text), wanted, "{text}");
        }
    }

    #[test]
    fn only_selectors_bind_names_and_only_simple_ones() {
        let fault = |scope: &Scope, text: &str| {
            let compiled = scope.compile(text, Returns::Anything);
            let fault = compiled.map(|_| ()).unwrap_err();
            fault.lines().next().unwrap_or_default().to_owned()
        };
        let own = "compilation failed: ERROR: <input>:1:11: cel.bind() variable names must be \
                   simple identifiers";
        assert_eq!(fault(&Scope::of_device(), "cel.bind(a.b, 1, true)"), own);
        let foreign = "compilation failed: ERROR: <input>:1:1: undeclared reference to 'cel' (in \
                       container '')";
        assert_eq!(fault(&Scope::new(), "cel.bind(a, 1, a == 1)"), foreign);
    }

    #[test]
    fn an_attribute_without_a_value_is_an_error() {
        let expression = Scope::of_device().compile("true", Returns::DeviceMatch);
        let device = json!({"attributes": {"model": {}}});
        let matched = expression.unwrap().matches_device("gpu.example", &device);
        let error = "attribute model: unsupported attribute value";
        assert_eq!(matched, Err(error.to_owned()));
    }
}
