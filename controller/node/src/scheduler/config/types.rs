//! The Go types of a configuration: which fields there are, and what they hold.
//!
//! Source: `k8s.io/kube-scheduler/config/v1` and `k8s.io/component-base/config/v1alpha1`.

use kubeproof_machinery::json::Value;
use kubeproof_machinery::schema::{self, DecodeError, FieldValidation};

/// The type of a field.
#[derive(Debug)]
pub(super) enum Type {
    /// A text, with the name of its Go type.
    Text(&'static str),
    Bool,
    /// A number, with the name of its Go type.
    Number(&'static str),
    /// Anything, read later or not at all.
    Any,
    /// A type of the core group.
    Core(&'static str),
    List(&'static Type),
    Struct(&'static str, &'static [(&'static str, Type)]),
}

const STRING: Type = Type::Text("string");
const INT32: Type = Type::Number("int32");
const INT64: Type = Type::Number("int64");
const DURATION: Type = Type::Text("v1.Duration");
const STRINGS: Type = Type::List(&STRING);

/// The first two fields of an object.
const API_VERSION: (&str, Type) = ("apiVersion", STRING);
const KIND: (&str, Type) = ("kind", STRING);

static PLUGIN: Type = Type::Struct("Plugin", &[("name", STRING), ("weight", INT32)]);
const PLUGIN_SET: Type = Type::Struct(
    "PluginSet",
    &[
        ("enabled", Type::List(&PLUGIN)),
        ("disabled", Type::List(&PLUGIN)),
    ],
);

static PROFILE: Type = Type::Struct(
    "KubeSchedulerProfile",
    &[
        ("schedulerName", STRING),
        ("percentageOfNodesToScore", INT32),
        (
            "plugins",
            Type::Struct(
                "Plugins",
                &[
                    ("preEnqueue", PLUGIN_SET),
                    ("queueSort", PLUGIN_SET),
                    ("preFilter", PLUGIN_SET),
                    ("filter", PLUGIN_SET),
                    ("postFilter", PLUGIN_SET),
                    ("preScore", PLUGIN_SET),
                    ("score", PLUGIN_SET),
                    ("reserve", PLUGIN_SET),
                    ("permit", PLUGIN_SET),
                    ("preBind", PLUGIN_SET),
                    ("bind", PLUGIN_SET),
                    ("postBind", PLUGIN_SET),
                    ("multiPoint", PLUGIN_SET),
                    ("placementGenerate", PLUGIN_SET),
                    ("placementScore", PLUGIN_SET),
                ],
            ),
        ),
        ("pluginConfig", Type::List(&PLUGIN_CONFIG)),
    ],
);

static PLUGIN_CONFIG: Type = Type::Struct("PluginConfig", &[("name", STRING), ("args", Type::Any)]);

static MANAGED_RESOURCE: Type = Type::Struct(
    "ExtenderManagedResource",
    &[("name", STRING), ("ignoredByScheduler", Type::Bool)],
);

static EXTENDER: Type = Type::Struct(
    "Extender",
    &[
        ("urlPrefix", STRING),
        ("filterVerb", STRING),
        ("preemptVerb", STRING),
        ("prioritizeVerb", STRING),
        ("weight", INT64),
        ("bindVerb", STRING),
        ("enableHTTPS", Type::Bool),
        (
            "tlsConfig",
            Type::Struct(
                "ExtenderTLSConfig",
                &[
                    ("insecure", Type::Bool),
                    ("serverName", STRING),
                    ("certFile", STRING),
                    ("keyFile", STRING),
                    ("caFile", STRING),
                    ("certData", Type::Text("[]uint8")),
                    ("keyData", Type::Text("[]uint8")),
                    ("caData", Type::Text("[]uint8")),
                ],
            ),
        ),
        ("httpTimeout", DURATION),
        ("nodeCacheCapable", Type::Bool),
        ("managedResources", Type::List(&MANAGED_RESOURCE)),
        ("ignorable", Type::Bool),
    ],
);

/// The document as a whole.
pub(super) static CONFIGURATION: Type = Type::Struct(
    "KubeSchedulerConfiguration",
    &[
        API_VERSION,
        KIND,
        ("parallelism", INT32),
        (
            "leaderElection",
            Type::Struct(
                "LeaderElectionConfiguration",
                &[
                    ("leaderElect", Type::Bool),
                    ("leaseDuration", DURATION),
                    ("renewDeadline", DURATION),
                    ("retryPeriod", DURATION),
                    ("resourceLock", STRING),
                    ("resourceName", STRING),
                    ("resourceNamespace", STRING),
                ],
            ),
        ),
        (
            "clientConnection",
            Type::Struct(
                "ClientConnectionConfiguration",
                &[
                    ("kubeconfig", STRING),
                    ("acceptContentTypes", STRING),
                    ("contentType", STRING),
                    ("qps", Type::Number("float32")),
                    ("burst", INT32),
                ],
            ),
        ),
        ("enableProfiling", Type::Bool),
        ("enableContentionProfiling", Type::Bool),
        ("percentageOfNodesToScore", INT32),
        ("podInitialBackoffSeconds", INT64),
        ("podMaxBackoffSeconds", INT64),
        ("profiles", Type::List(&PROFILE)),
        ("extenders", Type::List(&EXTENDER)),
        ("delayCacheUntilActive", Type::Bool),
    ],
);

static RESOURCE: Type = Type::Struct("ResourceSpec", &[("name", STRING), ("weight", INT64)]);
static POINT: Type = Type::Struct(
    "UtilizationShapePoint",
    &[("utilization", INT32), ("score", INT32)],
);
static CONSTRAINT: Type = Type::Core("TopologySpreadConstraint");

/// The types of the arguments of plugins; other plugins have none.
pub(super) static ARGUMENTS: &[(&str, Type)] = &[
    (
        "DefaultPreemption",
        Type::Struct(
            "DefaultPreemptionArgs",
            &[
                API_VERSION,
                KIND,
                ("minCandidateNodesPercentage", INT32),
                ("minCandidateNodesAbsolute", INT32),
            ],
        ),
    ),
    (
        "DynamicResources",
        Type::Struct(
            "DynamicResourcesArgs",
            &[
                API_VERSION,
                KIND,
                ("filterTimeout", DURATION),
                ("bindingTimeout", DURATION),
            ],
        ),
    ),
    (
        "InterPodAffinity",
        Type::Struct(
            "InterPodAffinityArgs",
            &[
                API_VERSION,
                KIND,
                ("hardPodAffinityWeight", INT32),
                ("ignorePreferredTermsOfExistingPods", Type::Bool),
            ],
        ),
    ),
    (
        "NodeAffinity",
        Type::Struct(
            "NodeAffinityArgs",
            &[
                API_VERSION,
                KIND,
                ("addedAffinity", Type::Core("NodeAffinity")),
            ],
        ),
    ),
    (
        "NodeResourcesBalancedAllocation",
        Type::Struct(
            "NodeResourcesBalancedAllocationArgs",
            &[API_VERSION, KIND, ("resources", Type::List(&RESOURCE))],
        ),
    ),
    (
        "NodeResourcesFit",
        Type::Struct(
            "NodeResourcesFitArgs",
            &[
                API_VERSION,
                KIND,
                ("ignoredResources", STRINGS),
                ("ignoredResourceGroups", STRINGS),
                (
                    "scoringStrategy",
                    Type::Struct(
                        "ScoringStrategy",
                        &[
                            ("type", Type::Text("v1.ScoringStrategyType")),
                            ("resources", Type::List(&RESOURCE)),
                            (
                                "requestedToCapacityRatio",
                                Type::Struct(
                                    "RequestedToCapacityRatioParam",
                                    &[("shape", Type::List(&POINT))],
                                ),
                            ),
                        ],
                    ),
                ),
            ],
        ),
    ),
    (
        "PodTopologySpread",
        Type::Struct(
            "PodTopologySpreadArgs",
            &[
                API_VERSION,
                KIND,
                ("defaultConstraints", Type::List(&CONSTRAINT)),
                (
                    "defaultingType",
                    Type::Text("v1.PodTopologySpreadConstraintsDefaulting"),
                ),
            ],
        ),
    ),
    (
        "VolumeBinding",
        Type::Struct(
            "VolumeBindingArgs",
            &[
                API_VERSION,
                KIND,
                ("bindTimeoutSeconds", INT64),
                ("shape", Type::List(&POINT)),
            ],
        ),
    ),
];

/// The faults of a document, in its order.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// The first value of a wrong type.
    pub(super) mismatch: Option<String>,
    /// The unknown fields.
    pub(super) unknown: Vec<String>,
}

/// The place of a value: its path, and that of Go's errors, which has no indexes.
#[derive(Clone, Default)]
struct Place {
    path: String,
    fields: String,
}

impl Place {
    fn field(&self, name: &str) -> Self {
        let join = |path: &str| match path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        Self {
            path: join(&self.path),
            fields: join(&self.fields),
        }
    }

    fn item(&self, index: usize) -> Self {
        Self {
            path: format!("{}[{index}]", self.path),
            fields: self.fields.clone(),
        }
    }
}

impl Type {
    /// Returns the faults of a value of this type.
    pub(super) fn faults(&self, value: &Value) -> Faults {
        let mut faults = Faults::default();
        self.check(value, ("", &Place::default()), &mut faults);
        faults
    }

    /// `within` is the Go type that has the field.
    fn check(&self, value: &Value, (within, place): (&str, &Place), faults: &mut Faults) {
        match (self, value) {
            (_, Value::Null)
            | (Self::Any, _)
            | (Self::Text(_), Value::String(_))
            | (Self::Bool, Value::Bool(_)) => {}
            (Self::Number(kind), Value::Number(number)) => {
                let fits = match *kind {
                    "int32" => number.as_i64().is_some_and(|it| i32::try_from(it).is_ok()),
                    "int64" => number.as_i64().is_some(),
                    _ => true,
                };
                if !fits {
                    faults.mismatch(&format!("number {number}"), (within, place), kind);
                }
            }
            (Self::List(items), Value::Array(values)) => {
                for (index, value) in values.iter().enumerate() {
                    items.check(value, (within, &place.item(index)), faults);
                }
            }
            (Self::Struct(name, fields), Value::Object(values)) => {
                for (key, value) in values {
                    let place = place.field(key);
                    match fields.iter().find(|(own, _)| own == key) {
                        Some((_, field)) => field.check(value, (name, &place), faults),
                        None => faults
                            .unknown
                            .push(format!("unknown field {:?}", place.path)),
                    }
                }
            }
            (Self::Core(name), Value::Object(_)) => check_core(name, value, place, faults),
            (own, value) => faults.mismatch(go_kind(value), (within, place), &own.go_name()),
        }
    }

    fn go_name(&self) -> String {
        match self {
            Self::Text(name) | Self::Number(name) => (*name).to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Any => "runtime.RawExtension".to_owned(),
            Self::Core(name) | Self::Struct(name, _) => format!("v1.{name}"),
            Self::List(items) => format!("[]{}", items.go_name()),
        }
    }
}

impl Faults {
    fn mismatch(&mut self, found: &str, (within, place): (&str, &Place), wanted: &str) {
        self.mismatch.get_or_insert_with(|| {
            let field = &place.fields;
            format!("json: cannot unmarshal {found} into Go struct field {within}.{field} of type {wanted}")
        });
    }
}

/// Checks a value of a type of the core group, which the schema of the API describes.
fn check_core(name: &str, value: &Value, place: &Place, faults: &mut Faults) {
    let decoded = schema::decode_value(
        schema::core_type(name),
        value.clone(),
        FieldValidation::Warn,
    );
    match decoded {
        Ok(decoded) => {
            let rooted = decoded.warnings.into_iter().map(|warning| {
                warning.replacen("field \"", &format!("field \"{}.", place.path), 1)
            });
            faults.unknown.extend(rooted);
        }
        Err(DecodeError::Strict(_)) => unreachable!("unknown fields are warnings"),
        Err(DecodeError::Syntax(message) | DecodeError::Type(message)) => {
            let rooted = match message.split_once("Go struct field ") {
                Some((head, tail)) => {
                    let (within, rest) = tail.split_once('.').unwrap_or(("", tail));
                    format!("{head}Go struct field {within}.{}.{rest}", place.fields)
                }
                None => message,
            };
            faults.mismatch.get_or_insert(rooted);
        }
    }
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
