//! Builds a testbed, piece by piece, with controllers under test.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use kubeproof_apiserver::{FieldValidation, LivelockLimits, Manifests};
use kubeproof_node::SameImages;

use crate::properties::{self, Declaration, Property, RustProperty};

use super::monitor::RULES;
use crate::user_agent;

use super::{Mode, Testbed, TestbedError, TestbedOptions};

/// Makes a controller's future, a new one after each crash.
type Make = Arc<dyn Fn(kube::Client) -> BoxFuture<'static, ()> + Send + Sync>;

/// A controller under test.
#[doc(hidden)]
#[derive(Clone)]
pub struct ControllerUnderTest {
    /// The user agent of the controller's requests.
    pub(super) user_agent: &'static str,
    /// Whether it may return.
    pub(super) may_end: bool,
    make: Make,
}

impl ControllerUnderTest {
    /// Makes a controller of `run`, which gets a client that signs its requests with `user_agent`, again after each
    /// crash.
    pub(crate) fn new<F>(
        user_agent: &'static str,
        run: impl Fn(kube::Client) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let make: Make = Arc::new(move |client| run(client).boxed());
        Self {
            user_agent,
            may_end: false,
            make,
        }
    }

    /// One life of the controller, from its start to a crash.
    pub(super) fn live(&self, client: &kube::Client) -> BoxFuture<'static, ()> {
        let signed = kubeproof_runtime::context::with_user_agent(client, self.user_agent);
        (self.make)(signed)
    }
}

impl fmt::Debug for ControllerUnderTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ControllerUnderTest")
            .field(&self.user_agent)
            .finish()
    }
}

impl TestbedOptions {
    /// Marks the controllers that may return.
    ///
    /// # Errors
    /// [`TestbedError::UnknownController`] for a name that no controller under test has.
    pub(super) fn let_end(&mut self) -> Result<(), TestbedError> {
        for name in &self.may_end {
            let mut under_test = self.under_test.iter_mut();
            let Some(controller) = under_test.find(|own| own.user_agent == name) else {
                let known = self.under_test.iter().map(|own| own.user_agent);
                return Err(TestbedError::UnknownController {
                    name: name.clone(),
                    known: known.collect(),
                });
            };
            controller.may_end = true;
        }
        Ok(())
    }
}

impl TestbedOptions {
    /// Checks the names of the rules that may be broken.
    ///
    /// # Errors
    /// [`TestbedError::UnknownRule`] for a name that no rule has.
    pub(super) fn check_allowed(&self) -> Result<(), TestbedError> {
        let mut known = properties::built_in_names();
        known.extend(RULES.map(str::to_owned));
        let unknown = self.allowed.iter().find(|name| !known.contains(*name));
        unknown.map_or(Ok(()), |name| {
            Err(TestbedError::UnknownRule {
                name: name.clone(),
                known,
            })
        })
    }
}

/// A testbed that is not started yet: no nodes and no controllers unless asked for.
#[derive(Clone, Debug)]
#[must_use]
pub struct TestbedBuilder {
    options: TestbedOptions,
}

impl Default for TestbedBuilder {
    fn default() -> Self {
        let options = TestbedOptions {
            nodes: 0,
            controllers: Vec::new(),
            fails_on_violations: true,
            user_agent: user_agent::TEST,
            ..TestbedOptions::default()
        };
        Self { options }
    }
}

impl TestbedBuilder {
    /// Seed of uids and generated names. Default: 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// The namespace of objects that name none. Default: `default`.
    pub fn namespace(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.options.namespace);
        self
    }

    /// The number of simulated nodes; a cluster with nodes has a scheduler. Default: none.
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.options.nodes = nodes;
        self
    }

    /// Brings kind's default storage class and its provisioner: claims without a class wait for their
    /// pods. Default: neither, and such claims get volumes at once.
    pub fn default_storage_class(mut self) -> Self {
        self.options.default_storage_class = true;
        self
    }

    /// Images that have several names, which then have the same digest. Default: those that the nodes
    /// know of.
    pub fn same_images(mut self, same_images: SameImages) -> Self {
        self.options.same_images = same_images;
        self
    }

    /// The built-in controllers that run, by their names in
    /// [`CONTROLLERS`](kubeproof_controller::CONTROLLERS). Default: none.
    pub fn controllers<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.options.controllers = names.into_iter().map(str::to_owned).collect();
        self
    }

    /// Manifests applied before any controller runs: definitions, objects.
    pub fn manifests(mut self, manifests: Manifests) -> Self {
        self.options.manifests = manifests;
        self
    }

    /// Chooses the treatment of unknown and duplicate fields in [`manifests`](Self::manifests) and
    /// [`Testbed::apply`]. Warnings go to standard error. Default: [`FieldValidation::Strict`].
    pub fn field_validation(mut self, validation: FieldValidation) -> Self {
        self.options.field_validation = validation;
        self
    }

    /// Adds a controller under test: `run` gets a client that signs its requests with `user_agent`, and is called
    /// again after each crash. The controller ends when its future does.
    pub fn controller<F>(
        mut self,
        user_agent: &'static str,
        run: impl Fn(kube::Client) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.options
            .under_test
            .push(ControllerUnderTest::new(user_agent, run));
        self
    }

    /// Lets the controller of that user agent return, which is an error of [`Testbed::settle`]
    /// otherwise. A panic still is.
    pub fn may_end(mut self, user_agent: &str) -> Self {
        self.options.may_end.push(user_agent.to_owned());
        self
    }

    /// Sets the maximum number of requests of a controller within one instant of virtual time. Beyond it the server
    /// stops answering the controller, and [`Testbed::settle`] fails. Default: [`LivelockLimits::default`].
    pub fn livelock_limits(mut self, limits: LivelockLimits) -> Self {
        self.options.livelock_limits = limits;
        self
    }

    /// Runs in real time, where tokio's time is not paused. Default: not, and [`start`](Self::start)
    /// fails there.
    pub fn real_time(mut self) -> Self {
        self.options.mode = Mode::RealTime;
        self
    }

    /// Leaves it to the test to ask for [`Testbed::violations`]: neither [`Testbed::settle`] nor the
    /// end of the testbed fails because of them, nor does an exploration whose run without faults has some.
    pub fn ignore_violations(mut self) -> Self {
        self.options.fails_on_violations = false;
        self
    }

    /// Lets one built-in rule be broken, which [`Testbed::settle`] reports otherwise. In addition to the properties
    /// of workloads there are rules for the controllers under test:
    ///
    /// - `no write loops`: none keeps writing an object while no other client writes
    /// - `no hot requeue`: none sends the same request 40 times within five minutes in which nothing
    ///   changes
    /// - `no idle writes`: none sends the same update or patch ten times that changes nothing;
    ///   server-side apply is not looked at
    /// - `no leaked watches`: none has more than 30 equal watches open
    /// - `resources are served`: none lists or watches a resource that has no definition
    /// - `namespaces exist`: none lists, watches or writes in a namespace that was never there
    /// - `objects of the test are seen`: a resource that the test writes and they list or watch in some
    ///   namespaces is asked for in one of those in which the test has written it
    /// - `finalizers are removed`: once everything has settled, no deleted object waits for a finalizer
    ///   that they put or removed before
    pub fn allow(mut self, rule: &str) -> Self {
        self.options.allowed.push(rule.to_owned());
        self
    }

    /// Adds a property that has to hold at every revision, in CEL; [`Testbed::violations`] and `explore` report
    /// violations. It may be about objects of the kinds built in and of those that the manifests define.
    pub fn property(mut self, declaration: Declaration) -> Self {
        self.options.properties.push(declaration);
        self
    }

    /// Adds a property in Rust: `make` is called for each run, as properties remember earlier writes.
    pub fn property_in_rust<P: Property + 'static>(
        mut self,
        make: impl Fn() -> P + Send + Sync + 'static,
    ) -> Self {
        self.options.rust_properties.push(RustProperty::new(make));
        self
    }

    /// Seed of the order in which simultaneous requests pass between controllers and server. Default: 0, the order of
    /// their tasks.
    pub fn schedule_seed(mut self, seed: u64) -> Self {
        self.options.schedule_seed = seed;
        self
    }

    /// Notes every request, for [`Testbed::log`]. Default: not.
    pub fn notes_requests(mut self) -> Self {
        self.options.notes = true;
        self
    }

    /// Has [`Testbed::outcome`] show the tables of these resources too, such as `configmaps`.
    pub fn shows<'a>(mut self, resources: impl IntoIterator<Item = &'a str>) -> Self {
        self.options.shown = resources.into_iter().map(str::to_owned).collect();
        self
    }

    /// Whether violations of properties are errors.
    pub(crate) fn fails_on_violations(&self) -> bool {
        self.options.fails_on_violations
    }

    /// The user agents of the controllers under test.
    pub(crate) fn user_agents(&self) -> impl Iterator<Item = &'static str> {
        self.options.under_test.iter().map(|own| own.user_agent)
    }

    /// Starts it.
    ///
    /// # Errors
    /// [`TestbedError`] when something given is refused or a controller does not start, and outside of
    /// a tokio runtime.
    pub async fn start(self) -> Result<Testbed, TestbedError> {
        Testbed::start(self.options).await
    }
}
