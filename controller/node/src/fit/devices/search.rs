//! The search for devices: one device after the other, with a step back where none is left.
//!
//! Source: `structured/internal/incubating/allocator_incubating.go`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::{DeviceClass, DeviceSelector, ResourceClaim};
use kube::ResourceExt;
use kubeproof_machinery::json::to_value;
use kubeproof_runtime::resource_claim::key_of;

use super::super::name;
use super::allocated::Allocated;
use super::constraint::Constraint;
use super::consumable_capacity::{Amounts, Capacities, consumed_by, has_room};
use super::counters::Counters;
use super::device_id::DeviceId;
use super::pools::{Candidate, Pool, PoolState, is_for_node};
use super::request::{self, Request};
use super::selectors::Selectors;

/// The most devices of a claim.
pub(super) const RESULTS_MAX: usize = 32;
/// The most steps of a search for one node, where upstream ends after ten seconds.
const STEPS_MAX: usize = 500_000;

/// A request by its claim, its index there and that of the alternative.
pub(super) type RequestKey = (usize, usize, usize);

/// The reason why a search ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The claim would have more than [`RESULTS_MAX`] devices.
    TooMany,
    /// The claims cannot be allocated on any node.
    Failed(String),
}

/// A request with its class, as read before the search.
pub(super) struct RequestData<'a> {
    pub(super) request: Request<'a>,
    pub(super) class: &'a DeviceClass,
    /// The number of devices.
    count: usize,
    /// The devices of a request for all.
    all: Vec<Candidate<'a>>,
}

/// A device that the search has chosen for a request.
#[derive(Clone, Debug)]
pub(super) struct Found<'a> {
    pub(super) request: Request<'a>,
    pub(super) candidate: Candidate<'a>,
    /// The capacity that the claim gets of a device that several can have; None if it gets the device.
    pub(super) consumed: Option<Amounts<'a>>,
}

/// A device that is needed: of a claim, a request, one of its alternatives.
#[derive(Clone, Copy, Debug, Default)]
struct At {
    claim: usize,
    request: usize,
    alternative: usize,
    device: usize,
}

impl At {
    fn key(self) -> RequestKey {
        (self.claim, self.request, self.alternative)
    }
}

/// The inputs of a search.
pub(super) struct Task<'a> {
    pub(super) node: &'a Node,
    pub(super) claims: &'a [&'a ResourceClaim],
    pub(super) selectors: &'a Selectors,
    pub(super) allocated: &'a Allocated<'a>,
    pub(super) pools: &'a [Pool<'a>],
    /// The lookup of classes.
    pub(super) class: &'a dyn Fn(&str) -> Option<&'a DeviceClass>,
}

/// The state of a search on one node.
pub(super) struct Search<'a> {
    task: Task<'a>,
    candidates: Vec<Candidate<'a>>,
    pub(super) requests: BTreeMap<RequestKey, RequestData<'a>>,
    /// The chosen alternatives by claim and request.
    pub(super) alternatives: BTreeMap<(usize, usize), usize>,
    constraints: Vec<Vec<Constraint<'a>>>,
    matches: BTreeMap<(DeviceId<'a>, RequestKey), bool>,
    /// The claims that get a device.
    taken: BTreeMap<DeviceId<'a>, BTreeSet<usize>>,
    capacity: Capacities<'a>,
    counters: Counters<'a>,
    /// The devices by claim.
    pub(super) found: Vec<Vec<Found<'a>>>,
    steps: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(task: Task<'a>) -> Self {
        let usable = task.pools.iter().enumerate();
        let usable = usable.filter(|(_, pool)| pool.state == PoolState::Usable);
        let candidates = usable.flat_map(|(index, pool)| pool.candidates(index));
        Self {
            candidates: candidates.collect(),
            requests: BTreeMap::new(),
            alternatives: BTreeMap::new(),
            constraints: Vec::new(),
            matches: BTreeMap::new(),
            taken: BTreeMap::new(),
            capacity: Capacities::default(),
            counters: Counters::default(),
            found: task.claims.iter().map(|_| Vec::new()).collect(),
            steps: 0,
            task,
        }
    }

    /// Searches. Returns whether there are devices for all claims.
    ///
    /// # Errors
    /// Upstream's text for what makes the claims impossible.
    pub(super) fn run(&mut self) -> Result<bool, String> {
        for index in 0..self.task.claims.len() {
            self.prepare(index)?;
        }
        match self.allocate(At::default(), None, 0) {
            Ok(done) => Ok(done),
            Err(Stop::TooMany) => Ok(false),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// Reads the requests and constraints of a claim.
    fn prepare(&mut self, index: usize) -> Result<(), String> {
        let claim = self.task.claims[index];
        let mut least = 0_usize;
        for (number, own) in request::of_claim(claim).iter().enumerate() {
            let mut fewest = usize::MAX;
            for (alternative, request) in request::alternatives(own).into_iter().enumerate() {
                let key = (index, number, alternative);
                let data = self.data(claim, key, request)?;
                fewest = fewest.min(data.count);
                self.requests.insert(key, data);
            }
            least = least.saturating_add(fewest);
        }
        if least > RESULTS_MAX {
            return Err(format!(
                "claim {}: number of requested devices {least} exceeds the claim limit of \
                 {RESULTS_MAX}",
                key_of(claim)
            ));
        }
        let devices = claim.spec.devices.as_ref();
        let constraints = devices.and_then(|devices| devices.constraints.as_deref());
        let constraints = constraints.unwrap_or_default().iter().enumerate();
        let constraints = constraints.map(|(number, own)| {
            Constraint::of(own).ok_or_else(|| {
                format!(
                    "claim {}, constraint #{number}: empty constraint (unsupported constraint \
                     type?)",
                    key_of(claim)
                )
            })
        });
        self.constraints
            .push(constraints.collect::<Result<_, _>>()?);
        Ok(())
    }

    /// Reads a request, and finds the devices of one for all (`validateDeviceRequest`).
    fn data(
        &mut self,
        claim: &'a ResourceClaim,
        key: RequestKey,
        request: Request<'a>,
    ) -> Result<RequestData<'a>, String> {
        let name = request.name();
        let failed = |why: String| format!("claim {}, request {name}: {why}", key_of(claim));
        let class_name = request.class_name();
        let class = (self.task.class)(class_name).ok_or_else(|| {
            failed(format!(
                "could not retrieve device class {class_name}: deviceclass.resource.k8s.io \
                 {class_name:?} not found"
            ))
        })?;
        let mut data = RequestData {
            request,
            class,
            count: usize::try_from(request.count()).unwrap_or(usize::MAX),
            all: Vec::new(),
        };
        match request.allocation_mode() {
            "ExactCount" => return Ok(data),
            "All" => {}
            mode => return Err(failed(format!("unsupported count mode {mode}"))),
        }
        let pools = self.task.pools;
        for (index, pool) in pools.iter().enumerate() {
            let state = match pool.state {
                PoolState::Usable => None,
                PoolState::Incomplete => Some("being updated"),
                PoolState::Invalid => Some("invalid"),
            };
            if let Some(state) = state {
                return Err(failed(format!(
                    "asks for all devices, but resource pool {pool} is currently {state}"
                )));
            }
            for candidate in pool.candidates(index) {
                if self.is_selected(key, (request, class), &candidate)?
                    && self.has_room(request, &candidate)
                {
                    data.all.push(candidate);
                }
            }
        }
        data.count = data.all.len();
        Ok(data)
    }

    /// Finds the device `at` and all after it (`allocateOne`). `within` is the alternative that is being tried; `start`
    /// is the first candidate that may be chosen for the request.
    fn allocate(&mut self, at: At, within: Option<usize>, start: usize) -> Result<bool, Stop> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(Stop::Failed(format!(
                "node {}: timed out trying to allocate devices",
                name(self.task.node)
            )));
        }
        let Some(claim) = self.task.claims.get(at.claim) else {
            return Ok(true);
        };
        if at.request >= request::of_claim(claim).len() {
            let next = At {
                claim: at.claim + 1,
                ..At::default()
            };
            return match self.allocate(next, None, 0) {
                Err(Stop::TooMany) => Ok(false),
                other => other,
            };
        }
        let data = &self.requests[&at.key()];
        if within.is_none() && data.request.is_alternative() {
            return self.allocate_first(at);
        }
        let wants_all = data.request.wants_all();
        if wants_all && data.all.is_empty() {
            return Ok(false);
        }
        if at.device >= data.count {
            let next = At {
                request: at.request + 1,
                alternative: 0,
                device: 0,
                ..at
            };
            return self.allocate(next, None, 0);
        }
        let more = data.count - at.device;
        if self.found[at.claim].len().saturating_add(more) > RESULTS_MAX {
            return Err(Stop::TooMany);
        }
        match wants_all {
            true => self.allocate_all(at, within),
            false => self.allocate_any(at, within, start),
        }
    }

    /// Tries the alternatives of a request in turn.
    fn allocate_first(&mut self, at: At) -> Result<bool, Stop> {
        let mut are_all_too_many = true;
        let mut alternative = 0;
        while self
            .requests
            .contains_key(&(at.claim, at.request, alternative))
        {
            let tried = At { alternative, ..at };
            match self.allocate(tried, Some(alternative), 0) {
                Err(Stop::TooMany) => {}
                Err(stop) => return Err(stop),
                Ok(true) => {
                    let of_request = (at.claim, at.request);
                    self.alternatives.insert(of_request, alternative);
                    return Ok(true);
                }
                Ok(false) => are_all_too_many = false,
            }
            alternative += 1;
        }
        match are_all_too_many {
            true => Err(Stop::TooMany),
            false => Ok(false),
        }
    }

    /// Takes the next device of a request for all, which has no choice.
    fn allocate_all(&mut self, at: At, within: Option<usize>) -> Result<bool, Stop> {
        let data = &self.requests[&at.key()];
        let (request, candidate) = (data.request, data.all[at.device]);
        if !self.take(at, candidate)? {
            return Ok(false);
        }
        let next = At {
            device: at.device + 1,
            ..at
        };
        let done = self.allocate(next, within, 0);
        if done != Ok(true) {
            self.give_back(at, request, candidate);
        }
        done
    }

    /// Tries the candidates in order.
    fn allocate_any(&mut self, at: At, within: Option<usize>, start: usize) -> Result<bool, Stop> {
        let RequestData { request, class, .. } = self.requests[&at.key()];
        for index in start..self.candidates.len() {
            let candidate = self.candidates[index];
            if self.is_in_use(at, request, candidate.id) {
                continue;
            }
            let selected = self.is_selected(at.key(), (request, class), &candidate);
            if !selected.map_err(Stop::Failed)? || !self.take(at, candidate)? {
                continue;
            }
            let next = At {
                device: at.device + 1,
                ..at
            };
            let done = self.allocate(next, within, index + 1);
            if done == Ok(true) {
                return done;
            }
            self.give_back(at, request, candidate);
            done?;
        }
        Ok(false)
    }

    fn is_in_use(&self, at: At, request: Request<'_>, id: DeviceId<'_>) -> bool {
        let taken = self.taken.get(&id);
        match request.has_admin_access() {
            true => taken.is_some_and(|claims| claims.contains(&at.claim)),
            false => {
                self.task.allocated.has_device(id) || taken.is_some_and(|taken| !taken.is_empty())
            }
        }
    }

    fn has_room(&self, request: Request<'_>, candidate: &Candidate<'_>) -> bool {
        let consumed = [&self.task.allocated.capacities, &self.capacity];
        has_room(candidate.id, candidate.device, request.capacity(), consumed)
    }

    /// Returns whether the class and the request select the device, and its slice the node (`isSelectable`).
    fn is_selected(
        &mut self,
        key: RequestKey,
        wanted: (Request<'a>, &'a DeviceClass),
        candidate: &Candidate<'a>,
    ) -> Result<bool, String> {
        let of_device = (candidate.id, key);
        if let Some(known) = self.matches.get(&of_device) {
            return Ok(*known);
        }
        let selects = self.selects(key, wanted, candidate)?;
        self.matches.insert(of_device, selects);
        Ok(selects)
    }

    fn selects(
        &self,
        (claim, _, _): RequestKey,
        (request, class): (Request<'a>, &'a DeviceClass),
        candidate: &Candidate<'a>,
    ) -> Result<bool, String> {
        let device = to_value(candidate.device).unwrap_or_default();
        let driver = candidate.id.driver;
        let of_class = class.spec.selectors.as_deref().unwrap_or_default();
        let class = || format!("class {}", class.name_any());
        let claim = || format!("claim {}", key_of(self.task.claims[claim]));
        let lists: [(&[DeviceSelector], &dyn Fn() -> String); 2] =
            [(of_class, &class), (request.selectors(), &claim)];
        for (selectors, owner) in lists {
            for (number, selector) in selectors.iter().enumerate() {
                let expression = selector.cel.as_ref().map(|cel| cel.expression.as_str());
                let selectors = self.task.selectors;
                let matched = selectors.matches(expression.unwrap_or_default(), driver, &device);
                let matched =
                    matched.map_err(|why| format!("{}: selector #{number}: {why}", owner()))?;
                if !matched {
                    return Ok(false);
                }
            }
        }
        Ok(is_for_node(
            candidate.slice,
            candidate.device,
            self.task.node,
        ))
    }

    /// Takes a device for the request, if it is free and breaks no constraint (`allocateDevice`). Returns whether it did.
    fn take(&mut self, at: At, candidate: Candidate<'a>) -> Result<bool, Stop> {
        let request = self.requests[&at.key()].request;
        let Candidate { id, device, .. } = candidate;
        let is_shared = device.allow_multiple_allocations == Some(true);
        if (!is_shared || !request.has_admin_access()) && self.is_in_use(at, request, id) {
            return Ok(false);
        }
        // Devices that a program has to prepare first are not for this scheduler.
        let waits = device.binding_conditions.as_ref();
        if waits.is_some_and(|waits| !waits.is_empty()) || !self.has_room(request, &candidate) {
            return Ok(false);
        }
        let mut taints = device.taints.iter().flatten();
        if taints.any(|taint| !request.tolerates(taint)) {
            return Ok(false);
        }
        if self.needs_counters(&candidate) {
            let pool = (candidate.pool, &self.task.pools[candidate.pool]);
            if !self.counters.take(pool, device, self.task.allocated) {
                return Ok(false);
            }
        }
        if !self.add_to_constraints(at, request, candidate)? {
            if self.needs_counters(&candidate) {
                self.counters.give_back(candidate.pool, device);
            }
            return Ok(false);
        }
        let consumed = is_shared.then(|| consumed_by(device, request.capacity()));
        match &consumed {
            Some(consumed) => self.capacity.add(id, consumed),
            None => _ = self.taken.entry(id).or_default().insert(at.claim),
        }
        self.found[at.claim].push(Found {
            request,
            candidate,
            consumed,
        });
        Ok(true)
    }

    /// Returns whether taking the device consumes counters. A device of which a claim has a part has consumed them.
    fn needs_counters(&self, candidate: &Candidate<'_>) -> bool {
        let Candidate { id, device, .. } = candidate;
        let consumes = device.consumes_counters.as_ref();
        let is_shared = device.allow_multiple_allocations == Some(true);
        let has_parts = self.task.allocated.capacities.has(*id) || self.capacity.has(*id);
        consumes.is_some_and(|consumes| !consumes.is_empty()) && !(is_shared && has_parts)
    }

    fn add_to_constraints(
        &mut self,
        at: At,
        request: Request<'a>,
        Candidate { id, device, .. }: Candidate<'a>,
    ) -> Result<bool, Stop> {
        let constraints = &mut self.constraints[at.claim];
        let mut own = constraints.iter_mut();
        let Some(broken) = own.position(|own| !own.add(request, id.driver, device)) else {
            return Ok(true);
        };
        if request.wants_all() {
            return Err(Stop::Failed(format!(
                "claim {}, request {}: cannot add device {id} because a claim constraint would not \
                 be satisfied",
                key_of(self.task.claims[at.claim]),
                request.name()
            )));
        }
        let added = constraints.iter_mut().take(broken);
        added.for_each(|own| own.remove(request));
        Ok(false)
    }

    /// Undoes the last [`Search::take`].
    fn give_back(&mut self, at: At, request: Request<'a>, candidate: Candidate<'a>) {
        let constraints = self.constraints[at.claim].iter_mut();
        constraints.for_each(|own| own.remove(request));
        let last = self.found[at.claim].pop();
        match last.and_then(|last| last.consumed) {
            Some(consumed) => self.capacity.remove(candidate.id, &consumed),
            None => {
                if let Some(claims) = self.taken.get_mut(&candidate.id) {
                    claims.remove(&at.claim);
                }
            }
        }
        if self.needs_counters(&candidate) {
            self.counters.give_back(candidate.pool, candidate.device);
        }
    }
}
