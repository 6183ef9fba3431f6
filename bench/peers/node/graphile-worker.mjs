// graphile-worker on PostgreSQL, with the settings that its documentation names for throughput: a local
// queue, completions without a round trip for each job, and a pool of concurrentJobs + 2 connections.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { batches, main, poster, store } from "./peer.mjs";

const CONCURRENCY = 24;
// Time between polls of an idle queue; the default of 2 s delays scheduled jobs by up to that.
const POLL_MILLISECONDS = 100;

const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});

await main({
  async load(jobs) {
    const utils = await makeWorkerUtils({ connectionString: store, logger });
    await utils.migrate();
    for (const batch of batches(jobs, 1000)) {
      await utils.addJobs(
        batch.map(({ body, due }) => ({ identifier: "post", payload: { body }, runAt: new Date(due) })),
      );
    }
    await utils.release();
  },
  async work() {
    const post = poster(CONCURRENCY);
    await run({
      preset: {
        worker: {
          connectionString: store,
          concurrentJobs: CONCURRENCY,
          maxPoolSize: CONCURRENCY + 2,
          pollInterval: POLL_MILLISECONDS,
          localQueue: { size: 500 },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
          logger,
        },
      },
      taskList: { post: ({ body }) => post(body) },
    });
  },
});
