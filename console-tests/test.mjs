// Runs the tests, or those whose name contains the first argument. The last line has the counts.

import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";

import { launch, Window } from "./browser.mjs";
import { Server } from "./server.mjs";
import { tests } from "./registry.mjs";

const OUTPUT = process.env.KALENDS_TEST_OUTPUT;
/** Longest time of one test. */
const LIMIT = 120_000;

const folder = new URL("tests/", import.meta.url);
for (const file of readdirSync(folder).sort()) await import(new URL(file, folder));
const pattern = process.argv[2] ?? "";
const selected = tests.filter(({ name }) => name.includes(pattern));

async function attempt(browser, { name, run }) {
  const servers = [];
  const windows = [];
  const cleanups = [];
  const tools = {
    browser,
    start: async (settings) => {
      const server = await tools.create(settings);
      await server.resume();
      return server;
    },
    /** A server that has not started. */
    create: async (settings) => {
      servers.push(await Server.create(settings));
      return servers.at(-1);
    },
    open: async (server, options) => (windows.push(await Window.open(browser, server, options)), windows.at(-1)),
    /** Runs `action` at the end of the test. */
    finally: (action) => cleanups.push(action),
  };
  let timer;
  const limit = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(`not finished within ${LIMIT / 1000} s`)), LIMIT)));
  let failure;
  try {
    await Promise.race([run(tools), limit]);
  } catch (error) {
    failure = error.stack;
  }
  clearTimeout(timer);
  for (const [index, window] of windows.entries()) {
    const unexpected = window.unexpected();
    if (unexpected.length) failure = [failure, ...new Set(unexpected)].filter(Boolean).join("\n");
    if (failure) {
      const file = join(OUTPUT, `${name.replaceAll(/\W+/g, "-").slice(0, 80)}-${index}.png`);
      mkdirSync(OUTPUT, { recursive: true });
      await window.page.screenshot({ path: file, timeout: 5000 }).catch(() => {});
    }
    await window.context.close();
  }
  for (const action of cleanups) await action();
  for (const server of servers) await server.stop();
  return failure;
}

const browser = await launch();
let failed = 0;
for (const test of selected) {
  const started = Date.now();
  const failure = await attempt(browser, test);
  const seconds = ((Date.now() - started) / 1000).toFixed(1);
  console.log(`${failure ? "FAILED" : "ok"} ${test.name} (${seconds} s)`);
  if (failure) {
    failed += 1;
    console.log(failure.replaceAll(/^/gm, "    "));
  }
}
await browser.close();
if (failed) console.log(`pictures of the failed tests: ${OUTPUT}`);
console.log(`${selected.length - failed} passed, ${failed} failed`);
process.exit(failed || !selected.length ? 1 : 0);
