//! Fires every occurrence once at its instant, or records why not.
//!
//! One loop (`ledger`) owns all decisions that are written: it claims what is about to be due,
//! takes in how attempts ended, and commits both together, so that one sync of the disk serves
//! many runs. `worker`s carry out attempts and write nothing themselves. What a worker needs to
//! know it is handed; what it finds out it hands back.
//!
//! | part | what it does |
//! |---|---|
//! | `timetable` | what is due soon, in memory; bounded, and rebuilt from the store at any time |
//! | `admission` | how many attempts may be under way: in all, at one host, for one collection |
//! | `ledger` | the loop: ask, decide, commit, hand out |
//! | `ledger/survey` | looks for what must not be, and puts it right |
//! | `worker` | attempts: wait for their instant, pass the gate, perform |
//! | [`kalends_actions::ActionExecutor`] | what an attempt does to the world |

mod admission;
mod engine;
mod messages;
mod metrics;
mod scheduler;
mod settings;
mod store_clock;
mod timetable;
mod worker;

pub use engine::{Engine, Nudge};
pub use metrics::EngineMetrics;
pub use settings::{ClockSource, EngineSettings, Nodes, OnViolation};
