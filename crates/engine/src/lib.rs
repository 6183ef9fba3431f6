//! The engine: runs every occurrence at its scheduled time, or records why it did not run.
//!
//! A single loop (`scheduler`) makes all decisions that are written. It claims jobs shortly before
//! they are due, receives the results of attempts, and commits both in batches, so that one fsync
//! serves many runs. Workers execute attempts and do not write to the store: they receive
//! assignments and return results.
//!
//! | module | contents |
//! |---|---|
//! | `timetable` | jobs and runs that are due soon, in memory; bounded, and reloadable at any time |
//! | `admission` | limits of attempts in flight: in total, per host and per collection |
//! | `scheduler` | the loop: read, decide, commit, assign |
//! | `scheduler/invariant_scan` | detects and repairs violated invariants |
//! | `worker` | executes attempts: wait for the scheduled time, check the gate, execute |
//! | [`kalends_actions::ActionExecutor`] | executes the action of one attempt |

mod admission;
mod engine;
mod messages;
mod metrics;
mod pace;
mod scheduler;
mod settings;
mod status;
mod store_clock;
mod timetable;
mod unreported;
mod worker;
mod workers;

pub use engine::{Engine, Nudge};
pub use metrics::EngineMetrics;
pub use settings::{ClockSource, EngineSettings, Nodes, OnViolation};
pub use status::{EngineState, EngineStatus};
pub use store_clock::StoreClock;
