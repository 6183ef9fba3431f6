//! The crate `apalis` on PostgreSQL, with the settings that its example names for throughput: large
//! batches, a task for each job, and no lock of a job that was fetched already.
//!
//! Its scheduled times are whole seconds; a fraction is rounded up, so that no job is early.

use std::time::Duration;

use apalis::prelude::*;
use apalis_postgres::{Config, PostgresStorage};
use futures::stream;
use kalends_bench_peers::{BATCH, Load, Mode, post, store};
use sqlx::postgres::PgPoolOptions;

/// Number of jobs that run at once.
const CONCURRENCY: usize = 128;
/// Number of jobs that one statement fetches.
const FETCH: usize = 2_000;
/// Number of connections to the database.
const POOL: u32 = 20;
/// Time between polls of an idle queue.
const POLL: Duration = Duration::from_millis(100);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let pool = PgPoolOptions::new().max_connections(POOL).connect(&store()?).await?;
    PostgresStorage::setup(&pool).await?;
    let config = Config::default().queue("posts").batch_size(FETCH).lock_tasks(false);
    let storage = PostgresStorage::<String>::new(&pool).with_config(config);
    match Mode::from_arguments()? {
        Mode::Load(load) => add(storage, load).await,
        Mode::Work => {
            println!("ready");
            let storage = storage.poll_with_strategy(Strategy::new().interval(POLL));
            let worker = WorkerBuilder::new("peer")
                .backend(storage)
                .concurrency(CONCURRENCY)
                .parallelize(tokio::spawn)
                .build(run);
            Ok(worker.run().await?)
        }
    }
}

async fn run(body: String) -> Result<(), BoxDynError> {
    Ok(post(body).await?)
}

async fn add(mut storage: PostgresStorage<String>, load: Load) -> anyhow::Result<()> {
    for from in (0..load.count).step_by(BATCH) {
        let tasks = (from..load.count.min(from + BATCH)).map(|job| {
            let seconds = load.due(job).unsigned_abs().div_ceil(1_000_000);
            TaskBuilder::new(load.body(job)).run_at_timestamp(seconds).build()
        });
        storage.push_all(stream::iter(tasks)).await?;
    }
    Ok(())
}
