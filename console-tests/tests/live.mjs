import { strict as assert } from "node:assert";

import { test } from "../registry.mjs";
import { eventually } from "../server.mjs";

/** Fails the test if the page is loaded again. */
async function noReload(page) {
  await page.evaluate(() => (globalThis.stillHere = true));
  return () => page.evaluate(() => globalThis.stillHere === true);
}

test("a run appears on the open list of runs without a reload", async ({ start, open }) => {
  const server = await start();
  await server.job("report");
  const window = await open(server);
  const { page } = window;
  await window.go("runs");
  await page.getByText("No runs yet.").waitFor();
  const isSame = await noReload(page);
  await server.run("report");
  await page.locator("main", { hasText: "demo/report" }).locator("text=Succeeded").last().waitFor();
  assert.ok(await isSame());
  await server.run("report", { runs: 2 });
  await eventually("two rows", async () => (await page.locator("[data-row]").count()) === 2);
  assert.ok(await isSame());
});

test("the overview and its link show a run while it lasts", async ({ start, open }) => {
  const server = await start();
  await server.job("slow", { path: "/200?delay=4s" });
  const window = await open(server);
  const { page } = window;
  await window.go("");
  const figure = page.locator("a.figure", { hasText: "running now" });
  await figure.getByText("0", { exact: true }).waitFor();
  await page.locator("[data-connection][data-state=on]").waitFor();
  const isSame = await noReload(page);
  await server.api("POST", "/api/collections/demo/jobs/slow/run");
  await figure.getByText("1", { exact: true }).waitFor({ timeout: 2500 });
  const list = await server.api("GET", "/api/runs?status=Running");
  assert.equal(list.value.length, 1);
  await eventually("a finished run", async () => !(await server.api("GET", "/api/runs?status=Running")).value.length);
  await figure.getByText("0", { exact: true }).waitFor({ timeout: 2500 });
  assert.ok(await isSame());
});

test("the page of a job follows a run that starts after the page was fetched", async ({ start, open }) => {
  const server = await start();
  await server.job("slow", { path: "/200?delay=8s" });
  const window = await open(server);
  const { page } = window;
  await window.go("jobs/demo/slow");
  await page.getByText("It has not run yet").waitFor();
  await page.locator("[data-connection][data-state=on]").waitFor();
  await server.api("POST", "/api/collections/demo/jobs/slow/run");
  await page.getByText("It is running", { exact: true }).waitFor({ timeout: 3000 });
});

test("rows do not move below the selection of the user", async ({ start, open }) => {
  const server = await start();
  await server.job("chosen");
  const window = await open(server);
  const { page } = window;
  await window.go("jobs");
  await page.getByRole("checkbox", { name: "Select chosen" }).check();
  await server.job("another");
  await server.run("chosen");
  await page.getByRole("button", { name: "Show 1 new job" }).click();
  await page.locator("[data-row]", { hasText: "another" }).waitFor();
});

test("a scrolled list offers new runs with their number, and none moves what the user reads", async ({ start, open }) => {
  const server = await start();
  await server.job("report");
  for (let runs = 1; runs <= 30; runs += 1) await server.run("report", { runs });
  const window = await open(server);
  const { page } = window;
  await window.go("runs");
  await page.evaluate(() => window.scrollTo(0, 400));
  const top = () => page.locator("[data-row]").first().evaluate((row) => row.getBoundingClientRect().top);
  const before = await top();
  for (let runs = 31; runs <= 33; runs += 1) await server.run("report", { runs });
  const offer = page.getByRole("button", { name: "Show 3 new runs" });
  await offer.waitFor();
  assert.equal(await top(), before);
  assert.equal(await page.locator("[data-row]").count(), 30);
  await offer.click();
  await eventually("all rows", async () => (await page.locator("[data-row]").count()) === 33);
});

test("what is new is no longer offered once the list shows it", async ({ start, open }) => {
  const server = await start();
  await server.job("chosen");
  const window = await open(server);
  const { page } = window;
  await window.go("jobs");
  await page.getByRole("checkbox", { name: "Select chosen" }).check();
  await server.job("another");
  await server.run("chosen");
  const offer = page.getByRole("button", { name: "Show 1 new job" });
  await offer.waitFor();
  await page.getByRole("button", { name: "Disable 1 job" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Disable 1 job" }).click();
  await page.locator("[data-row]", { hasText: "chosen" }).getByText("Disabled").waitFor();
  await offer.waitFor({ state: "detached" });
});

test("a page shows that the server is away, reconnects by itself and is current again", async ({ start, open }) => {
  const server = await start();
  await server.job("report");
  const window = await open(server);
  window.expect(/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|ERR_NETWORK|net::ERR_FAILED/);
  const { page } = window;
  await window.go("jobs");
  const isSame = await noReload(page);
  const state = page.locator("[data-connection]");
  await server.pause();
  await state.and(page.getByText("Reconnecting")).waitFor();
  await server.resume();
  await server.job("created-while-away");
  await state.and(page.getByText("Live")).waitFor({ timeout: 40_000 });
  await page.locator("[data-row]", { hasText: "created-while-away" }).waitFor();
  assert.ok(await isSame());
});

test("a page is prefetched when the pointer rests on its link, and is current when it opens", async ({ start, open }) => {
  const server = await start();
  await server.job("report");
  const window = await open(server);
  const { page } = window;
  const session = await window.context.newCDPSession(page);
  let isPrefetched = false;
  session.on("Preload.prefetchStatusUpdated", ({ status, prefetchUrl }) => (isPrefetched ||= status === "Ready" && prefetchUrl.endsWith("/jobs")));
  await session.send("Preload.enable");
  await window.go();
  const link = page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Jobs" });
  await link.hover();
  await eventually("the page is prefetched", async () => isPrefetched);
  await server.job("created-since");
  await link.click();
  await page.locator("[data-row]", { hasText: "created-since" }).waitFor();
  assert.equal(await page.evaluate(() => performance.getEntriesByType("navigation")[0].deliveryType), "navigational-prefetch");
});
