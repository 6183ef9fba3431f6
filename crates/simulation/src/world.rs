//! A simulated cluster: nodes that share a store, targets, users and injected faults.

mod pauses;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kalends_domain::CollectionState;
use kalends_engine::{ClockSource, EngineMetrics, EngineSettings, StoreClock};
use kalends_recurrence::{Instant, TICKS_PER_SECOND};
use kalends_store::record::NodeId;
use kalends_store::{Retention, Store};

use crate::definitions::{Span, random_definition};
use crate::link::{Link, LinkFaults};
use crate::node::Node;
use crate::recorder::{FaultKind, Recorder, Tracing};
use crate::restartable_store::{Exit, RestartableStore, StoreKind};
use crate::rng::Rng;
use crate::scenario::{Scenario, ScenarioEvent};
use crate::simulate::Mutation;
use crate::target::Targets;
use crate::time::{VirtualClock, VirtualTime, ticks};
use crate::users::{Pauses, Users, job_path};

const SECOND: i64 = TICKS_PER_SECOND;
/// A slow store counts as a fault for this many ticks after it recovered.
const SLOW_AFTER: i64 = 60 * SECOND;
/// Most edits of a world that are made because of a claim.
const EDITS_AROUND_CLAIMS_MAX: u64 = 40;
/// Longer than any scenario, so that retention removes nothing that the checker reads.
const FOREVER: Duration = Duration::from_secs(100 * 366 * 86_400);

/// A machine with a clock of its own, on which one node at a time runs.
struct Machine {
    clock: Arc<VirtualClock>,
    node: Option<Node>,
    /// Number of the current or last node; unique in the world.
    number: usize,
    link: Option<Arc<Link>>,
    paused_since: Option<i64>,
    down_since: Option<i64>,
    back_after: i64,
    /// Whether the node may be able to make progress.
    is_woken: bool,
}

pub(crate) struct World<'a> {
    base: &'a WorldBase,
    seed: u64,
    scenario: &'a Scenario,
    mutation: &'a dyn Mutation,
    time: Arc<VirtualTime>,
    recorder: Arc<Recorder>,
    store: Arc<dyn Store>,
    store_clock: Arc<VirtualClock>,
    machines: Vec<Machine>,
    users: Users<'a>,
    events: BTreeMap<(i64, u64), ScenarioEvent>,
    events_added: u64,
    nodes_started: usize,
    /// Start in virtual time.
    started: i64,
    /// End of the current failure of all writes, in virtual time.
    writes_fail_until: i64,
    /// Edits around claims that were made so far.
    edits_around_claims: u64,
    lookahead: Duration,
    /// Metrics of all nodes together.
    metrics: Arc<EngineMetrics>,
}

/// Input of the checker besides the observations.
pub(crate) struct Evidence<'a> {
    pub(crate) users: Users<'a>,
    pub(crate) scenario: &'a Scenario,
    /// The store's clock at the end.
    pub(crate) ended: Instant,
    /// The end in virtual time.
    pub(crate) ended_at: i64,
    pub(crate) length: Duration,
}

/// Parts that outlive a world.
pub(crate) struct WorldBase {
    pub(crate) time: Arc<VirtualTime>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) store_clock: Arc<VirtualClock>,
    pub(crate) store: Arc<RestartableStore>,
}

impl WorldBase {
    pub(crate) fn new(scenario: &Scenario, kind: StoreKind, tracing: Tracing) -> WorldBase {
        let time = VirtualTime::new(scenario.start.parse().unwrap());
        let store_clock = Arc::new(VirtualClock::new(&time));
        let recorder = Recorder::new(&time, &store_clock, tracing);
        let store = Arc::new(RestartableStore::new(kind, store_clock.clone()));
        WorldBase { time, recorder, store_clock, store }
    }
}

impl<'a> World<'a> {
    /// `store` is the store of `base`, possibly wrapped in a mutant.
    pub(crate) fn new(
        seed: u64,
        scenario: &'a Scenario,
        base: &'a WorldBase,
        store: &'a Arc<dyn Store>,
        mutation: &'a dyn Mutation,
    ) -> World<'a> {
        let WorldBase { time, recorder, store_clock, .. } = base;
        let users = Users {
            store: &**store,
            damage: &base.store,
            recorder,
            scenario,
            tracked: vec![],
            active: BTreeMap::new(),
            switched: vec![],
            pauses: Pauses::default(),
        };
        let machines = scenario.machines.iter().map(|start| Machine {
            clock: match scenario.nodes {
                // A single node shares its clock with the embedded store.
                1 => Arc::clone(store_clock),
                _ => {
                    let clock = VirtualClock::new(time);
                    clock.set_offset(start.clock_offset);
                    Arc::new(clock)
                }
            },
            node: None,
            number: 0,
            link: None,
            paused_since: None,
            down_since: None,
            back_after: 0,
            is_woken: true,
        });
        World {
            base,
            seed,
            scenario,
            mutation,
            machines: machines.collect(),
            users,
            time: Arc::clone(time),
            recorder: Arc::clone(recorder),
            store: Arc::clone(store),
            store_clock: Arc::clone(store_clock),
            events: BTreeMap::new(),
            events_added: 0,
            nodes_started: 0,
            started: 0,
            writes_fail_until: i64::MIN,
            edits_around_claims: 0,
            lookahead: match scenario.definitions.span {
                Span::Weeks => Duration::from_secs(600),
                _ => EngineSettings::default().lookahead,
            },
            metrics: Arc::default(),
        }
    }

    /// Runs the scenario, stops all faults and gives the nodes time to catch up.
    pub(crate) fn run(mut self) -> Evidence<'a> {
        let start = self.time.now();
        self.started = start;
        let faults_end = start + ticks(self.scenario.definitions.span.length());
        let end = faults_end + 3 * ticks(self.lookahead) + 200 * SECOND;
        for &(at, event) in &self.scenario.events {
            self.add(start + at, event);
        }
        let now = self.api_now();
        for number in 0..self.scenario.collections {
            self.users.switch_collection(number, CollectionState::Enabled, (start, now));
        }
        let rng = Rng::derive(&[self.seed, 2]);
        for number in 0..self.scenario.jobs {
            let definition = random_definition(&rng, self.scenario.definitions, now);
            let path = job_path(number, self.scenario.collections);
            self.users.create(path, definition, start, now);
        }
        // No node was running before.
        self.recorder.record_fault(None, start, start, FaultKind::Down);
        for (machine, start_of_machine) in self.scenario.machines.iter().enumerate() {
            match start_of_machine.at {
                0 => self.start(machine),
                at => self.add(start + at, ScenarioEvent::Start { machine }),
            }
        }
        self.run_until(faults_end);
        self.stop_faults();
        self.run_until(end);
        self.collect_evidence(start)
    }

    fn collect_evidence(mut self, start: i64) -> Evidence<'a> {
        for machine in &mut self.machines {
            machine.node = None;
        }
        let (found, scans) = (self.metrics.violations(), self.metrics.scans_completed());
        if found > 0 || scans == 0 {
            let what = format!("SCAN {found} violations found in {scans} invariant scans");
            self.recorder.observations().violations.push(what);
        }
        for index in 0..self.users.tracked.len() {
            if self.users.tracked[index].deleted_at.is_none() {
                self.users.tracked[index].stored =
                    self.users.read_stored(&self.users.tracked[index]);
            }
        }
        Evidence {
            users: self.users,
            scenario: self.scenario,
            ended: Instant::from_ticks(self.store_clock.reading()).unwrap_or(Instant::MAX),
            ended_at: self.time.now(),
            length: Duration::from_nanos((self.time.now() - start).unsigned_abs() * 100),
        }
    }

    fn add(&mut self, at: i64, event: ScenarioEvent) {
        self.events_added += 1;
        self.events.insert((at, self.events_added), event);
    }

    fn run_until(&mut self, end: i64) {
        loop {
            self.run_nodes();
            let event = self.events.keys().next().map(|&(at, _)| at);
            let next = event.into_iter().chain(self.time.next()).min();
            let Some(next) = next.filter(|&next| next <= end) else { break };
            self.time.advance_to(next);
            while let Some(entry) = self.events.first_entry() {
                if entry.key().0 > next {
                    break;
                }
                let event = entry.remove();
                self.apply(event);
            }
        }
        self.time.advance_to(end);
    }

    fn run_nodes(&mut self) {
        let woken = self.time.take_woken();
        for machine in 0..self.machines.len() {
            let host = &mut self.machines[machine];
            host.is_woken |= woken.contains(&host.clock.owner());
            if !host.is_woken || host.paused_since.is_some() {
                continue;
            }
            host.is_woken = false;
            let host = &self.machines[machine];
            let Some(node) = &host.node else {
                continue;
            };
            node.run_until_idle();
            let is_crashing =
                host.link.as_ref().is_some_and(|link| link.is_crashing.load(Ordering::Relaxed));
            if node.has_stopped() || is_crashing {
                let exit = if is_crashing { Exit::Crash } else { Exit::Graceful };
                self.end(machine, exit);
                let back_at = self.time.now() + self.machines[machine].back_after;
                self.add(back_at, ScenarioEvent::Start { machine });
            }
        }
        self.edit_around_claims();
    }

    /// Lets users edit some of the jobs whose runs were claimed: before the attempt is sent, while it
    /// is in flight, or while the run waits for its retry.
    fn edit_around_claims(&mut self) {
        let claimed = std::mem::take(&mut self.recorder.observations().claimed);
        let one_in = self.scenario.edit_one_in_claims;
        for job in claimed {
            if one_in == 0 || self.edits_around_claims >= EDITS_AROUND_CLAIMS_MAX {
                return;
            }
            let rng = Rng::derive(&[self.seed, 6, self.events_added]);
            if rng.one_in(one_in) {
                self.edits_around_claims += 1;
                let after = rng.pick([0, 1, 5, 19, 21, 500, 15_000]);
                let at = self.time.now() + rng.between(after / 2, after) as i64 * (SECOND / 1_000);
                self.add(at, ScenarioEvent::EditOfClaimedJob { job, what: rng.next() });
            }
        }
    }

    fn start(&mut self, machine: usize) {
        let link_faults = self.link_faults();
        let host = &mut self.machines[machine];
        if host.node.is_some() {
            return;
        }
        self.nodes_started += 1;
        let number = self.nodes_started;
        if let Some(since) = host.down_since.take() {
            self.recorder.record_fault(None, since, self.time.now(), FaultKind::Down);
        }
        let link = Link::new(
            number,
            self.store.clone(),
            &self.time,
            &self.recorder,
            &host.clock,
            self.seed,
        );
        *link.link_faults() = link_faults;
        let targets = Targets {
            node: number,
            time: self.time.clone(),
            recorder: self.recorder.clone(),
            node_clock: host.clock.clone(),
            store_clock: self.store_clock.clone(),
            target_behavior: self.scenario.target_behavior,
            hosts: self.scenario.hosts.clone(),
            panic_one_in: self.scenario.panic_one_in,
            faults: (self.started, self.started + ticks(self.scenario.definitions.span.length())),
            seed: self.seed,
        };
        let clock = self.mutation.clock(host.clock.clone());
        let settings = EngineSettings {
            lookahead: self.lookahead,
            clock: match self.scenario.nodes {
                1 => ClockSource::Node,
                _ => ClockSource::Store(Arc::new(StoreClock::unsynchronized(clock.clone()))),
            },
            retention: Retention {
                history_age: FOREVER,
                history_count: u64::MAX,
                finished_jobs: FOREVER,
            },
            metrics: Arc::clone(&self.metrics),
            attempts_max: self.scenario.limits.all,
            host_attempts_max: self.scenario.limits.host,
            collection_attempts_max: self.scenario.limits.collection,
            ..EngineSettings::default()
        };
        self.recorder.trace(|| format!("node {number} starts on machine {machine}"));
        let executor = self.mutation.targets(Arc::new(targets));
        let store = self.mutation.store_of_node(link.clone());
        let node = Node::start(store, clock, executor, NodeId(number as u64), settings);
        self.recorder.observations().lifetimes.insert(number, (self.time.now(), None));
        host.number = number;
        host.link = Some(link);
        host.node = Some(node.unwrap());
        host.is_woken = true;
        host.paused_since = None;
    }

    /// Crashes the node of a machine.
    fn end(&mut self, machine: usize, exit: Exit) {
        let now = self.time.now();
        let host = &mut self.machines[machine];
        if host.node.take().is_some() {
            // One process has the engine and the store in it.
            if self.scenario.nodes == 1 {
                self.base.store.restart(exit);
            }
            let number = host.number;
            self.recorder.record_fault(Some(number), now, now, FaultKind::Down);
            self.recorder.trace(|| format!("node {number} ended"));
            if let Some((_, end)) = self.recorder.observations().lifetimes.get_mut(&number) {
                *end = Some(now);
            }
            host.down_since = Some(now);
            host.paused_since = None;
            host.link = None;
        }
    }

    fn resume(&mut self, machine: usize) {
        let host = &mut self.machines[machine];
        if let Some(since) = host.paused_since.take() {
            host.is_woken = true;
            let number = host.number;
            self.recorder.record_fault(Some(number), since, self.time.now(), FaultKind::Pause);
            self.recorder.trace(|| format!("node {number} resumes"));
        }
    }

    fn set_link_faults(&self, machine: usize, link_faults: LinkFaults) {
        if let Some(link) = &self.machines[machine].link {
            self.recorder.trace(|| format!("node {}: {link_faults:?}", link.node));
            *link.link_faults() = link_faults;
        }
    }

    /// Faults of a link without an injected degradation.
    fn link_faults(&self) -> LinkFaults {
        let fails_writes = self.time.now() < self.writes_fail_until;
        LinkFaults { fails_writes, ..self.scenario.default_link_faults }
    }

    /// Nudges the node that handled an edit, or all nodes.
    fn nudge(&mut self, what: u64) {
        let all = self.scenario.nudges_all_nodes;
        let is_running =
            |machine: &Machine| machine.node.is_some() && machine.paused_since.is_none();
        let count = self.machines.iter().filter(|machine| is_running(machine)).count();
        let chosen = Rng::new(what ^ 7).below(count as u64) as usize;
        let nodes = self.machines.iter_mut().filter(|machine| all || is_running(machine));
        for (_, told) in nodes.enumerate().filter(|(index, _)| all || *index == chosen) {
            told.is_woken = true;
            told.node.iter().for_each(Node::nudge);
        }
    }

    /// Time that edits are decided by.
    fn api_now(&self) -> Instant {
        Instant::from_ticks(self.store_clock.reading()).unwrap_or(Instant::MAX)
    }

    fn apply(&mut self, event: ScenarioEvent) {
        let (now, api_now) = (self.time.now(), self.api_now());
        match event {
            event if event.is_request() && now < self.writes_fail_until => {}
            ScenarioEvent::UserEdit(what) | ScenarioEvent::Skip(what) => {
                let is_skip = matches!(event, ScenarioEvent::Skip(_));
                let act = if is_skip { Users::skip } else { Users::act };
                act(&mut self.users, what, now, api_now);
                self.nudge(what);
            }
            ScenarioEvent::EditOfClaimedJob { job, what } => {
                self.users.act_on_key(job, what, now, api_now);
                self.nudge(what);
            }
            ScenarioEvent::FailWrites { lasts } => {
                let faults_end = self.started + ticks(self.scenario.definitions.span.length());
                let lasts = lasts.min(faults_end - now);
                self.writes_fail_until = self.writes_fail_until.max(now + lasts);
                self.recorder.trace(|| format!("writes fail for {} s", lasts / SECOND));
                self.recorder.record_fault(None, now, now + lasts, FaultKind::Store);
                for machine in 0..self.machines.len() {
                    let link_faults = self.link_faults();
                    self.set_link_faults(machine, link_faults);
                    self.add(now + lasts, ScenarioEvent::RestoreLink { machine });
                }
            }
            ScenarioEvent::Crash { machine, back_after } => {
                self.end(machine, Exit::Crash);
                self.add(now + back_after, ScenarioEvent::Start { machine });
            }
            ScenarioEvent::CrashDuringCall { machine, calls } => {
                let link_faults =
                    self.machines[machine].link.as_ref().map(|link| *link.link_faults());
                if let Some(link_faults) = link_faults {
                    let after = self.machines[machine].link.as_ref().map_or(0, |link| link.calls());
                    self.machines[machine].back_after = SECOND;
                    self.set_link_faults(
                        machine,
                        LinkFaults { crash_after_calls: Some(after + calls), ..link_faults },
                    );
                }
            }
            ScenarioEvent::Stop { machine, back_after } => {
                let host = &mut self.machines[machine];
                host.back_after = back_after;
                host.is_woken = true;
                if let Some(node) = &mut host.node {
                    node.stop();
                    let number = host.number;
                    self.recorder.trace(|| format!("node {number} shuts down"));
                }
            }
            ScenarioEvent::Pause { machine, lasts } => {
                let host = &mut self.machines[machine];
                if host.node.is_some() && host.paused_since.is_none() {
                    host.paused_since = Some(now);
                    let number = host.number;
                    self.recorder.trace(|| format!("node {number} is paused"));
                    self.add(now + lasts, ScenarioEvent::Resume { machine });
                }
            }
            ScenarioEvent::Resume { machine } => self.resume(machine),
            ScenarioEvent::Partition { machine, lasts } => {
                self.set_link_faults(
                    machine,
                    LinkFaults { is_partitioned: true, ..self.link_faults() },
                );
                let number = self.machines[machine].number;
                self.recorder.record_fault(Some(number), now, now + lasts, FaultKind::Store);
                self.add(now + lasts, ScenarioEvent::RestoreLink { machine });
            }
            ScenarioEvent::DegradeLink { machine, link_faults, lasts } => {
                let fails_writes = self.link_faults().fails_writes;
                self.set_link_faults(machine, LinkFaults { fails_writes, ..link_faults });
                // Leases of ten seconds expire when each reply takes seconds.
                if link_faults.delay_max >= Duration::from_millis(500) {
                    let number = self.machines[machine].number;
                    self.recorder.record_fault(
                        Some(number),
                        now,
                        now + lasts + SLOW_AFTER,
                        FaultKind::Store,
                    );
                }
                self.add(now + lasts, ScenarioEvent::RestoreLink { machine });
            }
            ScenarioEvent::RestoreLink { machine } => {
                self.set_link_faults(machine, self.link_faults())
            }
            ScenarioEvent::Start { machine } => self.start(machine),
            ScenarioEvent::StepAllClocks { by } => {
                self.recorder.trace(|| format!("all clocks step by {} s", by / SECOND));
                self.recorder.record_fault(None, now, now, FaultKind::ClockStep);
                self.step_clock(&self.store_clock, by);
                if self.scenario.nodes > 1 {
                    self.machines.iter().for_each(|machine| self.step_clock(&machine.clock, by));
                }
            }
            ScenarioEvent::StepClock { machine, by } => {
                self.recorder
                    .trace(|| format!("the clock of machine {machine} steps by {} s", by / SECOND));
                let number = self.machines[machine].number;
                self.recorder.record_fault(Some(number), now, now, FaultKind::ClockStep);
                self.step_clock(&self.machines[machine].clock, by);
            }
            ScenarioEvent::PauseJobs { lasts, ends_by_itself } => {
                self.pause_jobs(lasts, ends_by_itself);
            }
            ScenarioEvent::ResumeJobs => self.resume_jobs(),
            ScenarioEvent::DamageJob { number } => self.users.damage(number, now),
            ScenarioEvent::RepairJob { is_replaced } => {
                let what = Rng::derive(&[self.seed, 10]).next();
                let is_replaced = is_replaced && now >= self.writes_fail_until;
                self.users.repair(is_replaced.then_some(what), now, api_now);
                self.nudge(what);
            }
        }
    }

    fn step_clock(&self, clock: &VirtualClock, by: i64) {
        clock.set_offset(clock.offset() + by);
    }

    /// Stops all faults.
    fn stop_faults(&mut self) {
        self.recorder.trace(|| "faults stop".into());
        self.events.clear();
        self.writes_fail_until = i64::MIN;
        for machine in 0..self.machines.len() {
            self.resume(machine);
            self.set_link_faults(machine, self.scenario.default_link_faults);
            self.machines[machine].back_after = 0;
            self.start(machine);
        }
    }
}
