// BullMQ on Redis, with the settings that its documentation names for throughput: a high concurrency for
// jobs that wait for the network, bulk insertion, and removal of old completed jobs.
import { Queue, Worker } from "bullmq";
import { batches, main, poster, store } from "./peer.mjs";

const QUEUE = "posts";
const CONCURRENCY = 64;
const { hostname: host, port } = new URL(store);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };

await main({
  async load(jobs) {
    const queue = new Queue(QUEUE, { connection });
    for (const batch of batches(jobs, 1000)) {
      const timestamp = Date.now();
      await queue.addBulk(
        batch.map(({ body, due }) => ({
          name: "post",
          data: { body },
          opts: { timestamp, delay: due - timestamp, removeOnComplete: { count: 1000 } },
        })),
      );
    }
    await queue.close();
  },
  async work() {
    const post = poster(CONCURRENCY);
    const worker = new Worker(QUEUE, ({ data }) => post(data.body), { connection, concurrency: CONCURRENCY });
    worker.on("error", (error) => console.error(error));
    await worker.waitUntilReady();
  },
});
