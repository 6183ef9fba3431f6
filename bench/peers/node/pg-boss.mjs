// pg-boss on PostgreSQL, with the settings that its documentation names for throughput: large batches,
// which are fetched without a pause while they are full, and two workers.
import { PgBoss } from "pg-boss";
import { batches, main, poster, store } from "./peer.mjs";

const QUEUE = "posts";
const CONNECTIONS = 64;

const boss = new PgBoss({ connectionString: store, max: 10 });
boss.on("error", (error) => console.error(error));
await boss.start();
await boss.createQueue(QUEUE);

await main({
  async load(jobs) {
    for (const batch of batches(jobs, 1000)) {
      await boss.insert(
        QUEUE,
        batch.map(({ body, due }) => ({ data: { body }, startAfter: new Date(due) })),
      );
    }
    await boss.stop();
  },
  async work() {
    const post = poster(CONNECTIONS);
    const options = {
      batchSize: 500,
      localConcurrency: 2,
      burstWhenBatchFull: true,
      pollingIntervalSeconds: 0.5, // the shortest that it allows
    };
    await boss.work(QUEUE, options, (jobs) => Promise.all(jobs.map(({ data }) => post(data.body))));
  },
});
