//! From a seed to a verdict.

use std::sync::Arc;
use std::time::Duration;

use kalends_actions::ActionExecutor;
use kalends_environment::Clock;
use kalends_store::Store;

use crate::check::Check;
use crate::log::Tracing;
use crate::plan::Plan;
use crate::world::{Ground, World};

/// How a world ended.
#[derive(Debug)]
pub struct Ending {
    /// Promises that were broken, a line each.
    pub broken: Vec<String>,
    /// Everything that happened, a line each, where it was asked for.
    pub trace: Vec<String>,
    /// How long the world lasted, in its own time.
    pub lasted: Duration,
    /// Occurrences that were accounted for.
    pub occurrences: u64,
    /// Calls that targets got.
    pub calls: u64,
}

/// What stands between the engine and its world.
pub(crate) trait Plant {
    fn store(&self, inner: Arc<dyn Store>) -> Arc<dyn Store>;
    fn targets(&self, inner: Arc<dyn ActionExecutor>) -> Arc<dyn ActionExecutor>;
    fn clock(&self, inner: Arc<dyn Clock>) -> Arc<dyn Clock>;
}

/// Nothing stands there.
struct Nothing;

impl Plant for Nothing {
    fn store(&self, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        inner
    }

    fn targets(&self, inner: Arc<dyn ActionExecutor>) -> Arc<dyn ActionExecutor> {
        inner
    }

    fn clock(&self, inner: Arc<dyn Clock>) -> Arc<dyn Clock> {
        inner
    }
}

/// Makes the world of a seed, lets it run, and checks it.
pub fn simulate(seed: u64, tracing: Tracing) -> Ending {
    simulate_with(seed, tracing, &Nothing)
}

/// The same, with a bug planted.
#[cfg(feature = "mutants")]
pub fn simulate_mutant(seed: u64, tracing: Tracing, mutant: crate::mutant::Mutant) -> Ending {
    simulate_with(seed, tracing, &mutant)
}

fn simulate_with(seed: u64, tracing: Tracing, plant: &dyn Plant) -> Ending {
    let plan = Plan::of(seed);
    let ground = Ground::new(&plan, tracing);
    ground.log.trace(|| format!("{plan:?}"));
    let store = plant.store(ground.kept.clone());
    let evidence = World::new(seed, &plan, &ground, &store, plant).run();
    let noted = std::mem::take(&mut *ground.log.noted());
    let check = Check::run(&evidence, &noted);
    Ending {
        broken: check.found,
        occurrences: check.occurrences,
        lasted: evidence.length,
        calls: noted.calls.len() as u64,
        trace: noted.trace,
    }
}
