//! Deterministic simulation of the engine on a virtual clock.
//!
//! [`simulate()`] builds a world from a seed: nodes that share a store, targets, users, injected faults
//! and clock steps. It runs the production engine and then checks the documented guarantees. The
//! same seed produces the same events in the same order.
//!
//! [`Rehearsal`] runs given jobs without faults and reports each attempt between two times.
//!
//! | module | contents |
//! |---|---|
//! | [`VirtualTime`], [`VirtualClock`] | time that jumps to the next timer |
//! | [`Node`] | one process with an engine, on its own runtime |
//! | `scenario`, `definitions`, `users`, `target`, `link` | nodes, jobs, edits and faults derived from a seed |
//! | [`StoreKind`] | the store of a world: in memory, or a SQLite file that crashes reopen |
//! | `world` | runs the scenario |
//! | `check` | verifies the guarantees independently of the engine's code |

#[expect(
    clippy::indexing_slicing,
    reason = "the checker is test code; it is in the library for the `simulate` binary"
)]
mod check;
#[expect(
    clippy::unwrap_used,
    reason = "generated definitions are valid; a panic is a bug of the simulation"
)]
mod definitions;
mod hosts;
mod job_edit;
mod link;
mod linked_store;
#[cfg(feature = "mutants")]
mod mutant;
#[cfg(feature = "mutants")]
mod mutant_store;
#[cfg(feature = "mutants")]
mod mutant_targets;
mod node;
mod recorder;
mod rehearsal;
#[expect(
    clippy::expect_used,
    reason = "a scratch store that does not open is a bug of the simulation or of the store"
)]
mod restartable_store;
mod rng;
mod scenario;
mod simulate;
mod target;
mod time;
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the reference store accepts every edit; a panic is a bug of the simulation"
)]
mod users;
#[expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a world that cannot be built is a bug of the simulation"
)]
mod world;

pub use job_edit::JobEdit;
#[cfg(feature = "mutants")]
pub use mutant::Mutant;
pub use node::Node;
pub use recorder::Tracing;
pub use rehearsal::{
    AttemptOutcome, Rehearsal, RehearsalError, RehearsalEvent, RehearsalEventKind,
};
pub use restartable_store::StoreKind;
#[cfg(feature = "mutants")]
pub use simulate::simulate_mutant;
pub use simulate::{SimulationReport, simulate};
pub use time::{VirtualClock, VirtualTime};
