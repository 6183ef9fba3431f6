//! A world that a seed makes: nodes over one store, targets, users, faults.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kalends_domain::CollectionState;
use kalends_engine::{ClockSource, EngineMetrics, EngineSettings};
use kalends_recurrence::Instant;
use kalends_store::memory::MemoryStore;
use kalends_store::record::NodeId;
use kalends_store::{Retention, Store};

use crate::chance::Chance;
use crate::definitions::{Span, definition};
use crate::link::{Link, Weather};
use crate::log::{Kind, Log, Tracing};
use crate::node::Node;
use crate::plan::{Act, Plan};
use crate::seed::Plant;
use crate::target::Targets;
use crate::time::{VirtualClock, VirtualTime, ticks};
use crate::users::{Users, job_path};

const SECOND: i64 = 10_000_000;
/// What a slow store delays may come so much later.
const SLOW_AFTER: i64 = 60 * SECOND;
/// Longer than any world: nothing that is checked is removed.
const FOREVER: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Nodes come and go in places.
struct Slot {
    clock: Arc<VirtualClock>,
    node: Option<Node>,
    /// The node's number; each has its own.
    number: usize,
    link: Option<Arc<Link>>,
    paused_since: Option<i64>,
    down_since: Option<i64>,
    back_after: i64,
    /// Whether it may have something to do.
    is_woken: bool,
}

pub(crate) struct World<'a> {
    seed: u64,
    plan: &'a Plan,
    plant: &'a dyn Plant,
    time: Arc<VirtualTime>,
    log: Arc<Log>,
    store: Arc<dyn Store>,
    store_clock: Arc<VirtualClock>,
    slots: Vec<Slot>,
    users: Users<'a>,
    acts: BTreeMap<(i64, u64), Act>,
    acts_added: u64,
    nodes_started: usize,
    lookahead: Duration,
    /// What all nodes count.
    metrics: Arc<EngineMetrics>,
}

/// What is left of a world, for who checks it.
pub(crate) struct Evidence<'a> {
    pub(crate) users: Users<'a>,
    pub(crate) plan: &'a Plan,
    /// What the clock of the store shows at the end.
    pub(crate) ended: Instant,
    pub(crate) length: Duration,
}

/// What is shared by a world and who looks at it from outside.
pub(crate) struct Ground {
    pub(crate) time: Arc<VirtualTime>,
    pub(crate) log: Arc<Log>,
    pub(crate) store_clock: Arc<VirtualClock>,
    pub(crate) kept: Arc<MemoryStore>,
}

impl Ground {
    pub(crate) fn new(plan: &Plan, tracing: Tracing) -> Ground {
        let time = VirtualTime::new(plan.start.parse().unwrap());
        let log = Log::new(&time, tracing);
        let store_clock = Arc::new(VirtualClock::new(&time));
        let kept = Arc::new(MemoryStore::new(store_clock.clone()));
        Ground { time, log, store_clock, kept }
    }
}

impl<'a> World<'a> {
    /// `store` is what nodes and users see of the one that is kept.
    pub(crate) fn new(
        seed: u64,
        plan: &'a Plan,
        ground: &'a Ground,
        store: &'a Arc<dyn Store>,
        plant: &'a dyn Plant,
    ) -> World<'a> {
        let Ground { time, log, store_clock, .. } = ground;
        let users = Users {
            store: &**store,
            log,
            span: plan.span,
            lives: vec![],
            living: BTreeMap::new(),
            switched: vec![],
        };
        let slots = (0..plan.nodes).map(|_| Slot {
            clock: match plan.nodes {
                // One process has one clock, and its store reads it too.
                1 => Arc::clone(store_clock),
                _ => Arc::new(VirtualClock::new(time)),
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
            seed,
            plan,
            plant,
            slots: slots.collect(),
            users,
            time: Arc::clone(time),
            log: Arc::clone(log),
            store: Arc::clone(store),
            store_clock: Arc::clone(store_clock),
            acts: BTreeMap::new(),
            acts_added: 0,
            nodes_started: 0,
            lookahead: match plan.span {
                Span::Weeks => Duration::from_secs(600),
                _ => EngineSettings::default().lookahead,
            },
            metrics: Arc::default(),
        }
    }

    /// Lets everything happen, then heals the world and gives it time to catch up.
    pub(crate) fn run(mut self) -> Evidence<'a> {
        let start = self.time.now();
        let heal_at = start + ticks(self.plan.span.length());
        let end = heal_at + 3 * ticks(self.lookahead) + 200 * SECOND;
        for &(at, act) in &self.plan.acts {
            self.add(start + at, act);
        }
        let now = self.api_now();
        for number in 0..2 {
            self.users.switch_collection(number, CollectionState::Enabled, (start, now));
        }
        let chance = Chance::of(&[self.seed, 2]);
        for number in 0..self.plan.jobs {
            let definition = definition(&chance, self.plan.span, now);
            self.users.make(job_path(number), definition, start, now);
        }
        // Nothing watched before.
        self.log.trouble(None, start, start, Kind::Down);
        (0..self.slots.len()).for_each(|slot| self.start(slot));
        self.run_until(heal_at);
        self.heal();
        self.run_until(end);
        self.look_back(start)
    }

    fn look_back(mut self, start: i64) -> Evidence<'a> {
        for slot in &mut self.slots {
            slot.node = None;
        }
        let (found, scans) = (self.metrics.violations(), self.metrics.scans_completed());
        if found > 0 || scans == 0 {
            let what = format!("SCAN {found} found in {scans} passes that must not be");
            self.log.noted().seen.push(what);
        }
        for index in 0..self.users.lives.len() {
            if self.users.lives[index].gone.is_none() {
                self.users.lives[index].kept = self.users.kept(&self.users.lives[index]);
            }
        }
        Evidence {
            users: self.users,
            plan: self.plan,
            ended: Instant::from_ticks(self.store_clock.shows()).unwrap_or(Instant::MAX),
            length: Duration::from_nanos((self.time.now() - start).unsigned_abs() * 100),
        }
    }

    fn add(&mut self, at: i64, act: Act) {
        self.acts_added += 1;
        self.acts.insert((at, self.acts_added), act);
    }

    fn run_until(&mut self, end: i64) {
        loop {
            self.run_nodes();
            let act = self.acts.keys().next().map(|&(at, _)| at);
            let next = act.into_iter().chain(self.time.next()).min();
            let Some(next) = next.filter(|&next| next <= end) else { break };
            self.time.advance_to(next);
            while let Some(entry) = self.acts.first_entry() {
                if entry.key().0 > next {
                    break;
                }
                let act = entry.remove();
                self.act(act);
            }
        }
        self.time.advance_to(end);
    }

    fn run_nodes(&mut self) {
        let woken = self.time.take_woken();
        for slot in 0..self.slots.len() {
            let place = &mut self.slots[slot];
            place.is_woken |= woken.contains(&place.clock.owner());
            if !place.is_woken || place.paused_since.is_some() {
                continue;
            }
            place.is_woken = false;
            let place = &self.slots[slot];
            let Some(node) = &place.node else {
                continue;
            };
            node.run_until_idle();
            let dying = place.link.as_ref().is_some_and(|link| link.dying.load(Ordering::Relaxed));
            if node.has_stopped() || dying {
                self.kill(slot);
                let back_at = self.time.now() + self.slots[slot].back_after;
                self.add(back_at, Act::Start { slot });
            }
        }
    }

    fn start(&mut self, slot: usize) {
        let place = &mut self.slots[slot];
        if place.node.is_some() {
            return;
        }
        self.nodes_started += 1;
        let number = self.nodes_started;
        if let Some(since) = place.down_since.take() {
            self.log.trouble(None, since, self.time.now(), Kind::Down);
        }
        let link =
            Link::new(number, self.store.clone(), &self.time, &self.log, &place.clock, self.seed);
        *link.weather() = self.plan.climate;
        let targets = Targets {
            node: number,
            time: self.time.clone(),
            log: self.log.clone(),
            node_clock: place.clock.clone(),
            store_clock: self.store_clock.clone(),
            temper: self.plan.temper,
            seed: self.seed,
        };
        let settings = EngineSettings {
            lookahead: self.lookahead,
            clock: match self.plan.nodes {
                1 => ClockSource::Node,
                _ => ClockSource::Store,
            },
            retention: Retention {
                history_age: FOREVER,
                history_count: u64::MAX,
                finished_jobs: FOREVER,
            },
            metrics: Arc::clone(&self.metrics),
            ..EngineSettings::default()
        };
        self.log.trace(|| format!("node {number} starts in place {slot}"));
        let executor = self.plant.targets(Arc::new(targets));
        let node = Node::start(
            link.clone(),
            self.plant.clock(place.clock.clone()),
            executor,
            NodeId(number as u64),
            settings,
        );
        place.number = number;
        place.link = Some(link);
        place.node = Some(node.unwrap());
        place.is_woken = true;
        place.paused_since = None;
    }

    /// The node is gone, with everything it was in the middle of.
    fn kill(&mut self, slot: usize) {
        let now = self.time.now();
        let place = &mut self.slots[slot];
        if place.node.take().is_some() {
            let number = place.number;
            self.log.trouble(Some(number), now, now, Kind::Down);
            self.log.trace(|| format!("node {number} is gone"));
            place.down_since = Some(now);
            place.paused_since = None;
            place.link = None;
        }
    }

    fn resume(&mut self, slot: usize) {
        let place = &mut self.slots[slot];
        if let Some(since) = place.paused_since.take() {
            place.is_woken = true;
            let number = place.number;
            self.log.trouble(Some(number), since, self.time.now(), Kind::Pause);
            self.log.trace(|| format!("node {number} goes on"));
        }
    }

    fn set_weather(&self, slot: usize, weather: Weather) {
        if let Some(link) = &self.slots[slot].link {
            self.log.trace(|| format!("node {}: {weather:?}", link.node));
            *link.weather() = weather;
        }
    }

    /// The time by which edits are decided.
    fn api_now(&self) -> Instant {
        Instant::from_ticks(self.store_clock.shows()).unwrap_or(Instant::MAX)
    }

    fn act(&mut self, act: Act) {
        let now = self.time.now();
        match act {
            Act::User(what) => {
                let slot = Chance::new(what ^ 7).below(self.slots.len() as u64) as usize;
                let api_now = self.api_now();
                self.users.act(what, now, api_now);
                let all = self.plan.all_are_nudged;
                let nodes = self.slots.iter_mut().enumerate();
                for (_, told) in nodes.filter(|(index, _)| all || *index == slot) {
                    told.is_woken = true;
                    told.node.iter().for_each(Node::nudge);
                }
            }
            Act::Crash { slot, back_after } => {
                self.kill(slot);
                self.add(now + back_after, Act::Start { slot });
            }
            Act::CrashInCall { slot, calls } => {
                let weather = self.slots[slot].link.as_ref().map(|link| *link.weather());
                if let Some(weather) = weather {
                    let after = self.slots[slot].link.as_ref().map_or(0, |link| link.calls());
                    self.slots[slot].back_after = SECOND;
                    self.set_weather(slot, Weather { dies_after: Some(after + calls), ..weather });
                }
            }
            Act::Stop { slot, back_after } => {
                let place = &mut self.slots[slot];
                place.back_after = back_after;
                place.is_woken = true;
                if let Some(node) = &mut place.node {
                    node.stop();
                    let number = place.number;
                    self.log.trace(|| format!("node {number} is told to stop"));
                    // Whatever it does not get done is taken over as from one that died.
                }
            }
            Act::Pause { slot, lasts } => {
                let place = &mut self.slots[slot];
                if place.node.is_some() && place.paused_since.is_none() {
                    place.paused_since = Some(now);
                    let number = place.number;
                    self.log.trace(|| format!("node {number} is paused"));
                    self.add(now + lasts, Act::Resume { slot });
                }
            }
            Act::Resume { slot } => self.resume(slot),
            Act::Cut { slot, lasts } => {
                self.set_weather(slot, Weather { is_cut: true, ..self.plan.climate });
                let number = self.slots[slot].number;
                self.log.trouble(Some(number), now, now + lasts, Kind::Store);
                self.add(now + lasts, Act::Calm { slot });
            }
            Act::Weather { slot, weather, lasts } => {
                self.set_weather(slot, weather);
                // A store that takes seconds for each answer cannot keep leases of ten.
                if weather.delay_max >= Duration::from_millis(500) {
                    let number = self.slots[slot].number;
                    self.log.trouble(Some(number), now, now + lasts + SLOW_AFTER, Kind::Store);
                }
                self.add(now + lasts, Act::Calm { slot });
            }
            Act::Calm { slot } => self.set_weather(slot, self.plan.climate),
            Act::Start { slot } => self.start(slot),
            Act::Step { by } => {
                self.log.trace(|| format!("all clocks are set by {} s", by / SECOND));
                self.log.trouble(None, now, now, Kind::Step);
                self.set(&self.store_clock, by);
                if self.plan.nodes > 1 {
                    self.slots.iter().for_each(|slot| self.set(&slot.clock, by));
                }
            }
            Act::StepOne { slot, by } => {
                self.log.trace(|| format!("the clock of place {slot} is set by {} s", by / SECOND));
                let number = self.slots[slot].number;
                self.log.trouble(Some(number), now, now, Kind::Step);
                self.set(&self.slots[slot].clock, by);
            }
        }
    }

    fn set(&self, clock: &VirtualClock, by: i64) {
        clock.set_offset(clock.offset() + by);
    }

    /// Everything works from now on.
    fn heal(&mut self) {
        self.log.trace(|| "the world heals".into());
        self.acts.clear();
        for slot in 0..self.slots.len() {
            self.resume(slot);
            self.set_weather(slot, self.plan.climate);
            self.slots[slot].back_after = 0;
            self.start(slot);
        }
    }
}
