//! The crate `graphile_worker` on PostgreSQL, with the settings that its documentation names for
//! throughput: a local queue, several of them for small jobs, and batched completions.

use std::time::Duration;

use chrono::DateTime;
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, TaskHandler, WorkerContext, WorkerOptions,
};
use kalends_bench_peers::{BATCH, Load, Mode, post, store};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPoolOptions;

/// Number of jobs that run at once, as the other contenders' number of connections.
const CONCURRENCY: usize = 128;
/// Number of connections to the database.
const POOL: u32 = 20;
/// Number of local queues, and number of jobs in each.
const QUEUES: usize = 4;
const QUEUE_SIZE: usize = 500;
/// Time between polls of an idle queue; the default of 1 s delays scheduled jobs by up to that.
const POLL: Duration = Duration::from_millis(100);

#[derive(Clone, Deserialize, Serialize)]
struct Post {
    body: String,
}

impl TaskHandler for Post {
    const IDENTIFIER: &'static str = "post";

    async fn run(self, _: WorkerContext) -> impl IntoTaskHandlerResult {
        post(self.body).await.map_err(|error| error.to_string())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let pool = PgPoolOptions::new().max_connections(POOL).connect(&store()?).await?;
    let worker = WorkerOptions::default()
        .concurrency(CONCURRENCY)
        .poll_interval(POLL)
        .complete_job_batch_delay(Duration::ZERO)
        .local_queue(
            LocalQueueConfig::default().with_size(QUEUE_SIZE).with_queue_count(QUEUES),
        )
        .define_job::<Post>()
        .pg_pool(pool)
        .init()
        .await?;
    match Mode::from_arguments()? {
        Mode::Load(load) => add(&worker.create_utils(), load).await,
        Mode::Work => {
            println!("ready");
            Ok(worker.run().await?)
        }
    }
}

async fn add(utils: &graphile_worker::WorkerUtils, load: Load) -> anyhow::Result<()> {
    for from in (0..load.count).step_by(BATCH) {
        let specs: Vec<_> = (from..load.count.min(from + BATCH))
            .map(|job| {
                let spec = JobSpec {
                    run_at: DateTime::from_timestamp_micros(load.due(job)),
                    ..JobSpec::default()
                };
                (Post { body: load.body(job) }, spec)
            })
            .collect();
        let jobs: Vec<_> = specs.iter().map(|(post, spec)| (post.clone(), spec)).collect();
        utils.add_jobs::<Post>(&jobs).await?;
    }
    Ok(())
}
