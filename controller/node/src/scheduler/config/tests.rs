use super::*;
use crate::fit::Strategy;

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

fn parse(text: &str) -> Result<SchedulerConfig, String> {
    let parsed = SchedulerConfig::parse(&format!("{HEAD}{text}"));
    parsed.map_err(|error| error.to_string())
}

fn only(text: &str) -> Profile {
    let config = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    config.into_profiles().remove(0)
}

#[test]
fn without_profiles_there_is_the_default_one() {
    for text in [
        "",
        "profiles: []",
        "profiles: [{}]",
        "profiles: [{plugins: {filter: {}}}]",
    ] {
        assert_eq!(only(text), Profile::default(), "{text}");
    }
    let names = |text: &str| -> Vec<String> {
        let config = parse(text).unwrap();
        config.profile_names().map(str::to_owned).collect()
    };
    assert_eq!(
        names("profiles: [{schedulerName: one}, {schedulerName: two}]"),
        ["one", "two"]
    );
}

#[test]
fn plugins_are_enabled_and_disabled_by_point() {
    let scores = |text: &str| -> Vec<(String, i64)> {
        let score = only(text).score.into_iter();
        score
            .map(|(plugin, weight)| (plugin.name(), weight))
            .collect()
    };
    let of = |name: &str, weight| (name.to_owned(), weight);
    let alone = "profiles: [{plugins: {score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality, weight: 7}, {name: NodeAffinity}]}}}]";
    assert_eq!(
        scores(alone),
        [of("ImageLocality", 7), of("NodeAffinity", 1)]
    );
    // A plugin that the point names again comes first; the weight of multiPoint does not count.
    let first = scores(
        "profiles: [{plugins: {score: {enabled: [{name: ImageLocality, weight: 5}], disabled: [{name: TaintToleration}, {name: VolumeBinding}, {name: DynamicResources}, {name: InterPodAffinity}]}}}]",
    );
    let expected = [
        of("ImageLocality", 5),
        of("NodeAffinity", 2),
        of("NodeResourcesFit", 1),
        of("PodTopologySpread", 2),
        of("NodeResourcesBalancedAllocation", 1),
    ];
    assert_eq!(first, expected);
    // multiPoint: a new weight leaves the place; what is disabled is at no point.
    let text = "profiles: [{plugins: {multiPoint: {enabled: [{name: TaintToleration, weight: 9}], disabled: [{name: NodeAffinity}]}}}]";
    assert_eq!(scores(text)[0], of("TaintToleration", 9));
    let profile = only(text);
    let plugin = Plugin::NodeAffinity;
    assert!(!profile.filter.contains(&plugin) && !profile.pre_filter.contains(&plugin));
    let text = "profiles: [{plugins: {postFilter: {disabled: [{name: '*'}]}, filter: {disabled: [{name: NodePorts}]}}}]";
    let profile = only(text);
    assert!(profile.post_filter.is_empty());
    assert!(!profile.filter.contains(&Plugin::NodePorts));
    assert!(profile.pre_filter.contains(&Plugin::NodePorts));
}

#[test]
fn arguments_have_defaults() {
    let fit = |args: &str| {
        let text =
            format!("profiles: [{{pluginConfig: [{{name: NodeResourcesFit, args: {args}}}]}}]");
        only(&text).arguments
    };
    assert_eq!(fit("{}"), Arguments::default());
    let most = fit(
        "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 3}, {name: example.com/gpu}]}}",
    );
    assert_eq!(most.strategy, Strategy::MostAllocated);
    let gpu = "example.com/gpu".to_owned();
    assert_eq!(most.resources, [("cpu".to_owned(), 3), (gpu, 1)]);
    let shape = "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 80, score: 10}]}}}";
    let points = vec![(0, 0), (80, 100)];
    assert_eq!(
        fit(shape).strategy,
        Strategy::RequestedToCapacityRatio(points)
    );
    assert_eq!(fit(shape).resources, Arguments::default().resources);
    let list = only(
        "profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List}}]}]",
    );
    assert!(list.arguments.spread.is_empty() && !list.arguments.spreads_without_keys);
    let hard = only(
        "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 0, ignorePreferredTermsOfExistingPods: true}}]}]",
    );
    assert_eq!(hard.arguments.hard_affinity_weight, 0);
    assert!(hard.arguments.ignores_preferences_of_others);
}

#[test]
fn what_has_no_effect_is_named() {
    let config = parse("extenders: [{urlPrefix: x}]\nprofiles: [{plugins: {permit: {disabled: [{name: '*'}]}, score: {disabled: [{name: '*'}]}}, pluginConfig: [{name: VolumeBinding}, {name: InterPodAffinity}]}]").unwrap();
    let of = |part: &str| format!("without effect in the scheduler's configuration: {part}");
    let expected = [
        of("extenders"),
        of("profiles[0].plugins.permit"),
        of("profiles[0].pluginConfig[0] (VolumeBinding)"),
    ];
    assert_eq!(config.warnings(), expected);
}

/// Configurations that kube-scheduler v1.36.2 refuses, each with its message, as the program prints
/// it.
const REFUSED: &[(&str, &str)] = &[
    (
        "profiles: [{schedulerNam: x}]",
        "strict decoding error: unknown field \"profiles[0].schedulerNam\"",
    ),
    (
        "foo: 1\nprofiles: [{foo: 1, plugins: {score: {enable: []}}}]",
        "strict decoding error: unknown field \"foo\", unknown field \"profiles[0].foo\", unknown field \"profiles[0].plugins.score.enable\"",
    ),
    (
        "profiles: [{schedulerName: a}, {schedulerName: a}]",
        "profiles[1].schedulerName: Duplicate value: {}",
    ),
    (
        "profiles: [{schedulerName: a}, {}]",
        "profiles[1].schedulerName: Required value",
    ),
    (
        "profiles: [{schedulerName: a, plugins: {score: {enabled: [{name: Nope}]}}}]",
        "initializing profiles: creating profile for scheduler name a: ScorePlugin \"Nope\" does not exist",
    ),
    (
        "profiles: [{schedulerName: a, plugins: {multiPoint: {enabled: [{name: Nope}]}}}]",
        "initializing profiles: creating profile for scheduler name a: PreFilterPlugin \"Nope\" does not exist",
    ),
    (
        "profiles: [{schedulerName: a, plugins: {filter: {enabled: [{name: ImageLocality}]}}}]",
        "initializing profiles: creating profile for scheduler name a: plugin \"ImageLocality\" does not extend FilterPlugin plugin",
    ),
    (
        "profiles: [{schedulerName: a, plugins: {score: {enabled: [{name: ImageLocality},{name: ImageLocality}]}}}]",
        "initializing profiles: creating profile for scheduler name a: plugin \"ImageLocality\" already registered as \"ScorePlugin\"",
    ),
    (
        "profiles: [{schedulerName: 5}]",
        "json: cannot unmarshal number into Go struct field KubeSchedulerProfile.profiles.schedulerName of type string",
    ),
    (
        "parallelism: x",
        "json: cannot unmarshal string into Go struct field KubeSchedulerConfiguration.parallelism of type int32",
    ),
    (
        "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {foo: 1, scoringStrategy: {typ: Foo}}}]}]",
        "strict decoding error: decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin NodeResourcesFit: strict decoding error: unknown field \"foo\", unknown field \"scoringStrategy.typ\"",
    ),
    (
        "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio}}}]}]",
        "initializing profiles: creating profile for scheduler name default-scheduler: initializing plugin \"NodeResourcesFit\": scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is RequestedToCapacityRatio",
    ),
    (
        "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: LeastAllocated, requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}]}}}}]}]",
        "initializing profiles: creating profile for scheduler name default-scheduler: initializing plugin \"NodeResourcesFit\": scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not RequestedToCapacityRatio",
    ),
    (
        "profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}]}]",
        "profiles[0].pluginConfig[0].args.defaultingType: Invalid value: \"System\": when .defaultConstraints are not empty",
    ),
    (
        "profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultConstraints: [{whenUnsatisfiable: No}]}}]}]",
        "decoding .profiles[0].pluginConfig[0]: decoding args for plugin PodTopologySpread: json: cannot unmarshal bool into Go struct field TopologySpreadConstraint.defaultConstraints.whenUnsatisfiable of type v1.UnsatisfiableConstraintAction",
    ),
    (
        "profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: Lst}}]}]",
        "profiles[0].pluginConfig[0].args.defaultingType: Unsupported value: \"Lst\": supported values: \"System\", \"List\"",
    ),
    (
        "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]}]",
        "profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
    ),
    (
        "profiles: [{pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu, weight: 2},{name: cpu}]}}]}]",
        "[profiles[0].pluginConfig[0].args.resources[0].weight: Invalid value: 2: must be 1, profiles[0].pluginConfig[0].args.resources[1].name: Duplicate value: \"cpu\"]",
    ),
    (
        "profiles: [{pluginConfig: [{name: InterPodAffinity},{name: InterPodAffinity}]}]",
        "profiles[0].pluginConfig[1]: Duplicate value: \"InterPodAffinity\"",
    ),
    (
        "profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Foo}, {key: b, operator: In}]}]}}}}]}]",
        "[profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: \"Foo\": supported values: \"In\", \"NotIn\", \"Exists\", \"DoesNotExist\", \"Gt\", \"Lt\", profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[1].values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty]",
    ),
    (
        "profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}]}}}]",
        "initializing profiles: creating profile for scheduler name default-scheduler: only one queue sort plugin required for profile with scheduler name \"default-scheduler\", but got 0",
    ),
    (
        "profiles: [{plugins: {bind: {disabled: [{name: '*'}]}}}]",
        "initializing profiles: creating profile for scheduler name default-scheduler: at least one bind plugin is needed for profile with scheduler name \"default-scheduler\"",
    ),
    (
        "percentageOfNodesToScore: 101\npodInitialBackoffSeconds: 0\nparallelism: 0",
        "[parallelism: Invalid value: 0: should be an integer value greater than zero, percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100], podInitialBackoffSeconds: Invalid value: 0: must be greater than 0]",
    ),
    (
        "profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]",
        "profiles[0].plugins.filter.enabled[0]: Invalid value: \"EBSLimits\": was invalid in version \"v1\" (KubeSchedulerConfiguration is version \"kubescheduler.config.k8s.io/v1\")",
    ),
    (
        "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: NodeAffinityArgs}}]}]",
        "decoding .profiles[0].pluginConfig[0]: args for plugin InterPodAffinity were not of type InterPodAffinityArgs.kubescheduler.config.k8s.io, got NodeAffinityArgs.kubescheduler.config.k8s.io",
    ),
    (
        "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {resources: [{name: cpu, weight: x}]}}}]}]",
        "decoding .profiles[0].pluginConfig[0]: decoding args for plugin NodeResourcesFit: json: cannot unmarshal string into Go struct field ResourceSpec.scoringStrategy.resources.weight of type int64",
    ),
    (
        "profiles: [{plugins: {score: {enabled: [{name: ImageLocality, weight: -1}]}}}]",
        "initializing profiles: creating profile for scheduler name default-scheduler: score plugins: total score of Score plugins could overflow",
    ),
];

#[test]
fn refusals_have_the_words_of_kube_scheduler() {
    for (text, message) in REFUSED {
        assert_eq!(parse(text).unwrap_err(), *message, "{text}");
    }
    let other = SchedulerConfig::parse("apiVersion: v1\nkind: Pod").unwrap_err();
    let message = "no kind \"Pod\" is registered for version \"v1\" in scheme \"pkg/scheduler/apis/config/scheme/scheme.go:29\"";
    assert_eq!(other.to_string(), message);
}

#[test]
fn the_percentage_of_a_profile_comes_before_that_of_all() {
    let text = "percentageOfNodesToScore: 30\nprofiles: [{schedulerName: a}, {schedulerName: b, percentageOfNodesToScore: 7}]";
    let profiles = parse(text).unwrap().into_profiles();
    let percentages = profiles
        .iter()
        .map(|profile| profile.percentage_of_nodes_to_score);
    assert_eq!(percentages.collect::<Vec<_>>(), [30, 7]);
    let default = SchedulerConfig::default().into_profiles();
    assert_eq!(default[0].percentage_of_nodes_to_score, 0);
}
