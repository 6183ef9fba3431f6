// The console with JOBS jobs (default 100,000): times of its pages, and a search.

import { strict as assert } from "node:assert";

import { launch, Window } from "./browser.mjs";
import { manyJobs } from "./data.mjs";
import { eventually, Server } from "./server.mjs";

const JOBS = Number(process.env.JOBS ?? 100_000);
/** Longest time until a page is complete in the browser, in milliseconds. */
const LIMIT = 1000;
const ROUNDS = 5;

const server = await Server.start({ variables: { KALENDS_HOLD: "1" } });
const browser = await launch();
let failed = 0;
try {
  const started = Date.now();
  await manyJobs(server, JOBS);
  console.log(`created ${JOBS} jobs in ${Math.round((Date.now() - started) / 1000)} s`);
  const window = await Window.open(browser, server);
  await window.go();
  await eventually("the counts of all jobs", async () => (await server.api("GET", "/api/overview")).jobs.all === JOBS, 120);
  const name = `job-${String(Math.floor(JOBS * 0.77)).padStart(6, "0")}`;
  for (const path of ["", "jobs", "jobs?state=Disabled", `jobs?search=${name}`, "jobs?search=absent", "runs", "collections", "system"]) {
    const times = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      await window.page.goto(window.base + path, { waitUntil: "load" });
      times.push(await window.page.evaluate(() => performance.getEntriesByType("navigation")[0].loadEventEnd));
    }
    const median = times.sort((a, b) => a - b)[Math.floor(ROUNDS / 2)];
    const isSlow = median > LIMIT;
    failed += isSlow;
    console.log(`${isSlow ? "FAILED" : "ok"} /${path}: ${median.toFixed(0)} ms`);
  }
  await window.go("jobs");
  await window.page.getByRole("searchbox", { name: "Search", exact: true }).pressSequentially(name);
  const typed = Date.now();
  await window.page.locator("[data-row]", { hasText: name }).waitFor();
  await eventually("one row", async () => (await window.page.locator("[data-row]").count()) === 1);
  const isSlow = Date.now() - typed > LIMIT;
  failed += isSlow;
  console.log(`${isSlow ? "FAILED" : "ok"} search while typing: ${Date.now() - typed} ms`);
  assert.deepEqual(await window.page.locator("[data-row] .name").allInnerTexts(), [name]);
  for (const problem of new Set(window.unexpected())) {
    failed += 1;
    console.log(`FAILED ${problem}`);
  }
} finally {
  await browser.close();
  await server.stop();
}
console.log(failed ? `${failed} failed` : "passed");
process.exit(failed ? 1 : 0);
