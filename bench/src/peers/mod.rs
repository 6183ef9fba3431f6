//! Kalends compared with other schedulers in one run, all with the same sink; see bench/README.md.
//!
//! | module | contents |
//! |---|---|
//! | [`workload`] | jobs, the same for every contender |
//! | [`contender`] | the schedulers, their settings and how they are started |
//! | [`kalends`] | creation of jobs over the API |
//! | [`floor`] | a client without a scheduler, the lower bound of every lateness |
//! | [`database`] | PostgreSQL and Redis, with a database for each measurement |
//! | [`processor`] | processor time of processes |
//! | [`machine`] | description of the machine |
//! | [`plot`] | bar charts as SVG |

pub mod contender;
pub mod database;
pub mod floor;
pub mod kalends;
pub mod machine;
pub mod plot;
pub mod processor;
pub mod workload;

use jiff::Timestamp;

/// Now.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Waits until a time.
pub async fn sleep_until(at: Timestamp) {
    let left = at.duration_since(now());
    tokio::time::sleep(left.try_into().unwrap_or_default()).await;
}

/// The middle value; of an even number of values the upper one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
