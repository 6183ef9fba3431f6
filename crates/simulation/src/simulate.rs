//! Runs the world of a seed and checks it.

use std::sync::Arc;
use std::time::Duration;

use kalends_actions::ActionExecutor;
use kalends_environment::Clock;
use kalends_store::Store;

use crate::check::Check;
use crate::recorder::Tracing;
use crate::restartable_store::StoreKind;
use crate::scenario::Scenario;
use crate::world::{World, WorldBase};

/// Result of one simulated world.
#[derive(Debug)]
pub struct SimulationReport {
    /// Violated guarantees, one line each. Empty if the seed passed.
    pub violations: Vec<String>,
    /// Every event, one line each. Empty with [`Tracing::Off`].
    pub trace: Vec<String>,
    /// Virtual time that passed.
    pub simulated: Duration,
    /// Occurrences that the checker accounted for.
    pub occurrences: u64,
    /// Requests that targets received.
    pub calls: u64,
}

/// Wraps the engine's dependencies, to change what the engine or the store sees.
pub(crate) trait Mutation {
    /// The store that all nodes share.
    fn store(&self, inner: Arc<dyn Store>) -> Arc<dyn Store>;
    /// The store as a node sees it, behind the link.
    fn store_of_node(&self, link: Arc<dyn Store>) -> Arc<dyn Store>;
    fn targets(&self, inner: Arc<dyn ActionExecutor>) -> Arc<dyn ActionExecutor>;
    fn clock(&self, inner: Arc<dyn Clock>) -> Arc<dyn Clock>;
}

/// Passes everything through.
struct Unmodified;

impl Mutation for Unmodified {
    fn store(&self, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        inner
    }

    fn store_of_node(&self, link: Arc<dyn Store>) -> Arc<dyn Store> {
        link
    }

    fn targets(&self, inner: Arc<dyn ActionExecutor>) -> Arc<dyn ActionExecutor> {
        inner
    }

    fn clock(&self, inner: Arc<dyn Clock>) -> Arc<dyn Clock> {
        inner
    }
}

/// Builds the world of a seed, runs it and checks the guarantees.
pub fn simulate(seed: u64, store: StoreKind, tracing: Tracing) -> SimulationReport {
    simulate_with(seed, store, tracing, &Unmodified)
}

/// Runs the world of a seed with an injected bug.
#[cfg(feature = "mutants")]
pub fn simulate_mutant(
    seed: u64,
    store: StoreKind,
    tracing: Tracing,
    mutant: crate::mutant::Mutant,
) -> SimulationReport {
    simulate_with(seed, store, tracing, &mutant)
}

fn simulate_with(
    seed: u64,
    kind: StoreKind,
    tracing: Tracing,
    mutation: &dyn Mutation,
) -> SimulationReport {
    let scenario = Scenario::from_seed(seed);
    let base = WorldBase::new(&scenario, kind, tracing);
    base.recorder.trace(|| format!("{scenario:?}"));
    let store = mutation.store(base.store.clone());
    let evidence = World::new(seed, &scenario, &base, &store, mutation).run();
    let observations = std::mem::take(&mut *base.recorder.observations());
    let check = Check::run(&evidence, &observations);
    SimulationReport {
        violations: check.violations,
        occurrences: check.occurrences,
        simulated: evidence.length,
        calls: observations.calls.len() as u64,
        trace: observations.trace,
    }
}
