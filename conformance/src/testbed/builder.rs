//! Builds a testbed, piece by piece, with controllers under test.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use kubeproof_apiserver::{FieldValidation, LivelockLimits, Manifests};
use kubeproof_controller::AddressPool;
use kubeproof_node::{MissingImages, SameImages, SchedulerConfig};

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

impl Testbed {
    /// Returns a builder of testbeds, with neither nodes nor controllers by default.
    pub fn builder() -> TestbedBuilder {
        TestbedBuilder::default()
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

/// The settings of a [`Testbed`], with neither nodes nor controllers by default. It may start any number of testbeds.
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
    /// Sets the seed of uids and generated names. Default: 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// Sets the namespace of objects without `metadata.namespace`. It has to be among the manifests unless it is
    /// `default`. Default: `default`.
    pub fn namespace(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.options.namespace);
        self
    }

    /// Sets the number of simulated nodes, `node-1` and so on; a cluster with nodes has a scheduler. Default: 0.
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.options.nodes = nodes;
        self
    }

    /// Sets whether the metrics APIs are served: `metrics.k8s.io` with the use of simulated containers, and
    /// `custom.metrics.k8s.io` and `external.metrics.k8s.io` with the values that are put. Default: if there are nodes.
    pub fn metrics(mut self, served: bool) -> Self {
        self.options.metrics = Some(served);
        self
    }

    /// Adds kind's default storage class and its provisioner: claims without a class wait for their
    /// pods. Default: neither, and such claims get volumes at once.
    pub fn default_storage_class(mut self) -> Self {
        self.options.default_storage_class = true;
        self
    }

    /// Adds a cloud: services of type `LoadBalancer`, Ingresses and Gateways get addresses of `pool`, such as
    /// `"192.0.2.0/24".parse()?`. Default: none, and they stay pending.
    pub fn load_balancers(mut self, pool: AddressPool) -> Self {
        self.options.load_balancers = Some(pool);
        self
    }

    /// Sets the profiles of the scheduler of the nodes. Default: `default-scheduler`, with the plugins of a kube-scheduler
    /// that has no configuration.
    pub fn scheduler_config(mut self, config: SchedulerConfig) -> Self {
        self.options.scheduler_config = config;
        self
    }

    /// Sets the images that have several names, which then have the same digest. Default: a built-in list.
    pub fn same_images(mut self, same_images: SameImages) -> Self {
        self.options.same_images = same_images;
        self
    }

    /// Sets the images that no registry has, whose containers wait in `ErrImagePull` and `ImagePullBackOff`. Default: those
    /// of registries whose names say `invalid`.
    pub fn missing_images(mut self, missing_images: MissingImages) -> Self {
        self.options.missing_images = missing_images;
        self
    }

    /// Sets the built-in controllers that run, by their names in
    /// [`CONTROLLERS`](kubeproof_controller::CONTROLLERS). Default: none.
    pub fn controllers<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.options.controllers = names.into_iter().map(str::to_owned).collect();
        self
    }

    /// Sets the manifests that are created before any controller runs, such as CustomResourceDefinitions and namespaces.
    /// Default: none.
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

    /// Adds a controller under test. `run` is called with a client whose requests carry `user_agent`, at the start and
    /// again after each crash; a crash drops the future. The controller must not return; see
    /// [`may_end`](Self::may_end). Tasks that it spawns do not end with it.
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

    /// Allows the controller of that user agent to return, which is otherwise an error of [`Testbed::settle`]. A panic
    /// stays one.
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

    /// Allows a runtime whose time is not paused. Default: [`start`](Self::start) fails there with
    /// [`TestbedError::NotPaused`].
    pub fn real_time(mut self) -> Self {
        self.options.mode = Mode::RealTime;
        self
    }

    /// Leaves violations of properties to the test, which calls [`Testbed::violations`]. Neither [`Testbed::settle`]
    /// nor the end of the testbed nor an exploration fails because of them.
    pub fn ignore_violations(mut self) -> Self {
        self.options.fails_on_violations = false;
        self
    }

    /// Allows violations of one built-in rule, which [`Testbed::settle`] reports otherwise. An unknown name is an error
    /// of [`start`](Self::start). In addition to the properties of workloads there are rules for the controllers under
    /// test:
    ///
    /// - `no write loops`: no controller keeps writing an object while no other client writes and no container restarts
    /// - `no hot requeue`: no controller sends the same request 40 times within five minutes without a change
    /// - `no idle writes`: no controller repeats an update or patch that changes nothing ten times; server-side apply
    ///   is exempt
    /// - `no leaked watches`: no controller has more than 30 equal watches open
    /// - `resources are served`: no controller lists or watches a resource without a definition
    /// - `namespaces exist`: no controller lists, watches or writes in a namespace that never existed
    /// - `objects of the test are seen`: a controller that lists or watches a resource in some namespaces does so in
    ///   one of those in which the test has written it
    /// - `finalizers are removed`: once everything has settled, no deleted object waits for a finalizer that a
    ///   controller has added or removed before
    pub fn allow(mut self, rule: &str) -> Self {
        self.options.allowed.push(rule.to_owned());
        self
    }

    /// Adds a property in CEL that has to hold at every revision, over objects of built-in kinds and of those that the
    /// manifests define. [`Testbed::settle`], [`Testbed::violations`] and explorations report violations. An expression
    /// that does not compile is an error of [`start`](Self::start).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use kubeproof::prelude::*;
    ///
    /// # let mut runtime = tokio::runtime::Builder::new_current_thread();
    /// # let runtime = runtime.enable_time().start_paused(true).build()?;
    /// # runtime.block_on(async {
    /// let full = Declaration::new("maps have data", "objects.ConfigMap.all(one, has(one.data))");
    /// let testbed = Testbed::builder().property(full).start().await?;
    /// testbed.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}").await?;
    /// let error = testbed.settle(Duration::from_secs(60)).await.unwrap_err();
    /// assert!(error.to_string().starts_with("maps have data: failed expression"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn property(mut self, declaration: Declaration) -> Self {
        self.options.properties.push(declaration);
        self
    }

    /// Adds a property in Rust that has to hold at every revision. `make` is called whenever a run is checked from its
    /// beginning, because properties remember earlier writes.
    pub fn property_in_rust<P: Property + 'static>(
        mut self,
        make: impl Fn() -> P + Send + Sync + 'static,
    ) -> Self {
        self.options.rust_properties.push(RustProperty::new(make));
        self
    }

    /// Adds the [properties that hold for any controller](crate::properties::general), except for those that are always
    /// in force.
    pub fn general_properties(mut self) -> Self {
        let general = properties::general::on_request();
        self.options.rust_properties.extend(general);
        self
    }

    /// Sets the seed of the order in which simultaneous requests, responses and events pass between controllers and
    /// server. Each seed gives another order that a network could have produced. Default: 0, the order of tasks.
    pub fn schedule_seed(mut self, seed: u64) -> Self {
        self.options.schedule_seed = seed;
        self
    }

    /// Records every request, for [`Testbed::log`]. Default: only writes are in the log.
    pub fn notes_requests(mut self) -> Self {
        self.options.notes = true;
        self
    }

    /// Puts the tables of these resources, such as `configmaps`, first in [`Testbed::outcome`], which has each table
    /// once. Default: workloads, pods and custom resources.
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

    /// Starts the server, creates the manifests, then starts the nodes and the controllers. Controllers have opened
    /// their watches when this returns.
    ///
    /// Cancel safety: dropping the future stops all that it has started.
    ///
    /// # Errors
    /// - [`TestbedError::NoRuntime`] and [`TestbedError::NotPaused`] in the wrong runtime,
    /// - [`TestbedError::Load`] for a manifest that the server refuses,
    /// - [`TestbedError::Property`] for a property that does not compile,
    /// - [`TestbedError::UnknownRule`], [`TestbedError::UnknownController`] and [`TestbedError::Start`] for unknown
    ///   names.
    pub async fn start(self) -> Result<Testbed, TestbedError> {
        Testbed::start(self.options).await
    }
}
