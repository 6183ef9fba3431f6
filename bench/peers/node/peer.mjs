// Shared parts of the Node schedulers under comparison: command line, bodies of the requests and a
// keep-alive HTTP client. The protocol is described in bench/peers/README.md.
import { Pool } from "undici";

const BODY_BYTES = 256;

/** URL of the database. */
export const store = process.env.STORE;

/** Jobs of a load, in batches: { body, due }, with the scheduled time in milliseconds since 1970. */
export function* batches({ count, first, spacing }, size) {
  for (let from = 0; from < count; from += size) {
    const batch = [];
    for (let job = from; job < Math.min(count, from + size); job++) {
      const due = first + job * spacing;
      const head = `id=${String(job).padStart(10, "0")};due=${String(due).padStart(16, "0")};`;
      batch.push({ body: head.padEnd(BODY_BYTES, "x"), due: Math.ceil(due / 1000) });
    }
    yield batch;
  }
}

/** A function that posts a body to the sink over keep-alive connections. */
export function poster(connections) {
  const pool = new Pool(`http://${process.env.SINK}`, { connections });
  return async (body) => {
    const response = await pool.request({ path: "/", method: "POST", body });
    await response.body.dump();
    if (response.statusCode !== 200) throw new Error(`status ${response.statusCode}`);
  };
}

/** Runs `load` and exits, or runs `work` until the process is killed. */
export async function main({ load, work }) {
  const [mode, count, first, spacing] = process.argv.slice(2);
  if (mode === "load") {
    await load({ count: Number(count), first: Number(first), spacing: Number(spacing) });
    process.exit(0);
  }
  await work();
  console.log("ready");
}
