//! The engine on a virtual clock.
//!
//! [`simulate`] makes a world of a seed: nodes over one store, targets, users, faults, clocks that
//! are set wrong; it runs the engine that the program runs, and checks afterwards whether every
//! promise was kept. The same seed makes the same world, event for event.
//!
//! [`Rehearsal`] is the same without seeds: what given jobs would do between two instants.
//!
//! | part | what it does |
//! |---|---|
//! | [`VirtualTime`], [`VirtualClock`] | time that jumps to the next instant somebody waits for |
//! | [`Node`] | one process with an engine, on a runtime of its own |
//! | `plan`, `definitions`, `users`, `target`, `link` | what a seed makes of a world |
//! | `world` | lets it happen |
//! | `check` | looks for broken promises, with its own reasoning |

mod chance;
#[expect(
    clippy::indexing_slicing,
    reason = "the checker is test code, though it stands in the library for its binary"
)]
mod check;
#[expect(clippy::unwrap_used, reason = "what seeds make up is valid, or the simulation is wrong")]
mod definitions;
mod edits;
mod link;
mod linked_store;
mod log;
#[cfg(feature = "mutants")]
mod mutant;
mod node;
mod plan;
#[cfg(feature = "mutants")]
mod planted_store;
mod rehearsal;
mod seed;
mod target;
mod time;
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the reference store does what users ask, or the simulation is wrong"
)]
mod users;
#[expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a world that cannot be made is a mistake of the simulation"
)]
mod world;

pub use edits::Edit;
pub use log::Tracing;
#[cfg(feature = "mutants")]
pub use mutant::Mutant;
pub use node::Node;
pub use rehearsal::{Happening, NoRehearsal, Rehearsal, Succeeds, What};
#[cfg(feature = "mutants")]
pub use seed::simulate_mutant;
pub use seed::{Ending, simulate};
pub use time::{VirtualClock, VirtualTime};
