//! User agents: the names of the clients of a run.

/// The user agent of the requests of a test.
pub(crate) const TEST: &str = "test";
/// The user agent of the requests of a scenario's steps.
pub(crate) const SCENARIO: &str = "kubeproof-scenario";
/// The user agent of the requests that load manifests into the server.
pub(crate) const LOADER: &str = "kubeproof-load";
/// The writer of a scenario's steps in a timeline.
pub(crate) const SCENARIO_ACTOR: &str = "scenario";

/// The product in a user agent, without its version.
pub(crate) fn product(user_agent: &str) -> &str {
    let is_end = |byte| matches!(byte, b'/' | b' ');
    let end = user_agent.bytes().position(is_end);
    &user_agent[..end.unwrap_or(user_agent.len())]
}

/// Returns the writer by its user agent: the product without the version.
pub(crate) fn actor(user_agent: &str) -> &str {
    match product(user_agent) {
        SCENARIO => SCENARIO_ACTOR,
        "" => "-",
        product => product,
    }
}

/// Whether a user agent is that of a component of a cluster, not of the scenario or test itself.
pub(crate) fn is_component(user_agent: &str) -> bool {
    !["", SCENARIO, TEST].contains(&user_agent)
}
