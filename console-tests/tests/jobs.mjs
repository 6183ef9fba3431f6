import { strict as assert } from "node:assert";

import { copyJob, manyJobs, nextYear } from "../data.mjs";
import { test } from "../registry.mjs";
import { eventually } from "../server.mjs";

test("search while typing finds one job among 2,000, and the URL keeps the search", async ({ start, open }) => {
  const server = await start();
  await manyJobs(server, 2000);
  const window = await open(server);
  const { page } = window;
  await window.go("jobs");
  await page.locator("[data-row]").first().waitFor();
  assert.ok(await page.locator("[data-row]").count() <= 100, "one page");
  // Exact as soon as the numbers over all jobs are calculated.
  assert.match(await page.getByRole("navigation", { name: "Jobs by state" }).innerText(), /All\s*(1,000\+|2,000)/);
  const field = page.getByRole("searchbox", { name: "Search", exact: true });
  await field.pressSequentially("001234");
  await eventually("one row", async () => (await page.locator("[data-row]").count()) === 1);
  assert.equal(await page.locator("[data-row] .name").innerText(), "job-001234");
  assert.ok(await field.evaluate((element) => element === document.activeElement), "the field keeps the focus");
  assert.equal(new URL(page.url()).searchParams.get("search"), "001234");
  await page.reload();
  assert.equal(await page.locator("[data-row]").count(), 1);
  assert.equal(await field.inputValue(), "001234");
  await field.fill("absent");
  await page.getByText("No job matches").waitFor();
});

test("a search among 100,000 jobs finds one by its name, a part of it, and its target while typing", async ({ start, open }) => {
  const server = await start();
  await server.job("template", { state: "Disabled" });
  await server.pause();
  copyJob(server, 100_000);
  await server.resume();
  await server.job("nightly-invoice-export", { path: "/200/warehouse", collection: "zz-finance" });
  const window = await open(server);
  const { page } = window;
  await window.go("jobs");
  const field = page.getByRole("searchbox", { name: "Search", exact: true });
  const counts = page.getByRole("navigation", { name: "Jobs by state" });
  for (const [text, name] of [["job-077000", "job-077000"], ["99987", "job-099987"], ["INVOICE", "nightly-invoice-export"], ["warehouse", "nightly-invoice-export"], ["finance", "nightly-invoice-export"]]) {
    await field.fill("");
    await field.pressSequentially(text);
    await eventually(`only ${name}`, async () => (await page.locator("[data-row] .name").allInnerTexts()).join() === name);
    await eventually("an exact count", async () => /All\s*1\s/.test(`${await counts.innerText()} `));
  }
  // Created and deleted jobs are found, and not found, at once.
  await server.job("nightly-invoice-check", { collection: "zz-finance" });
  await server.api("DELETE", "/api/collections/zz-finance/jobs/nightly-invoice-export");
  await field.fill("invoice");
  await eventually("the new job", async () => (await page.locator("[data-row] .name").allInnerTexts()).join() === "nightly-invoice-check");
  await field.fill("job-0");
  await eventually("a full page", async () => (await page.locator("[data-row]").count()) === 50);
  assert.match(await counts.innerText(), /All\s*1,000\+/);
  await field.fill("absent");
  await page.getByText("No job matches.").waitFor();
  // A state that no job is in: the search goes on until it has examined all of them.
  await window.go("jobs?state=Faulted");
  await page.getByText("No job matches.").waitFor();
});

test("a search before the search index is ready says that it still counts, and counts to the end by itself", async ({ start, open }) => {
  const server = await start();
  await server.job("template", { state: "Disabled" });
  await server.pause();
  copyJob(server, 60_000);
  await server.resume();
  const window = await open(server);
  const { page } = window;
  // The first page is full long before all jobs are examined.
  await window.go("jobs?search=job-000");
  const counts = page.getByRole("navigation", { name: "Jobs by state" });
  assert.match(await counts.innerText(), /All\s*(999\s|Enabled[^]*at least \d+, still counting)/);
  // The second page continues the count of the first one.
  const next = await page.getByRole("link", { name: "Next page" }).getAttribute("href");
  const isExact = async () => /All\s*999\s/.test(await counts.innerText());
  await eventually("an exact count", isExact, 30);
  assert.doesNotMatch(await counts.innerText(), /counting/);
  await window.go(`jobs${next}`);
  await page.locator("[data-row]").first().waitFor();
  assert.ok(await isExact(), await counts.innerText());
});

test("pages of the list follow each other, and back returns to the page before", async ({ start, open }) => {
  const server = await start();
  await manyJobs(server, 130);
  const window = await open(server);
  const { page } = window;
  await window.go("jobs");
  const names = async () => page.locator("[data-row] .name").allInnerTexts();
  const first = await names();
  const seen = new Set(first);
  let pages = 1;
  while (await page.getByRole("link", { name: "Next page" }).count()) {
    await page.getByRole("link", { name: "Next page" }).click();
    await eventually("the next page", async () => !seen.has((await names())[0]));
    for (const name of await names()) seen.add(name);
    pages += 1;
  }
  assert.equal(seen.size, 130);
  for (let index = 1; index < pages; index += 1) await page.goBack();
  await eventually("the first page again", async () => (await names())[0] === first[0]);
});

test("selected jobs are disabled together, with a note, and tabs count them", async ({ start, open }) => {
  const server = await start();
  for (let number = 1; number <= 5; number += 1) await server.job(`job-${number}`);
  const window = await open(server);
  const { page } = window;
  await window.go("jobs");
  assert.equal(await page.getByRole("button", { name: /^Disable/ }).count(), 0, "nothing is selected");
  for (const number of [1, 2, 4]) await page.getByRole("checkbox", { name: `Select job-${number}` }).check();
  await window.checkAccessibility();
  await page.getByRole("button", { name: "Disable 3 jobs" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel(/Note/).fill("Release freeze");
  await window.checkAccessibility();
  await dialog.getByRole("button", { name: "Disable 3 jobs" }).click();
  await page.getByText("Disabled 3 jobs").waitFor();
  await eventually("three disabled rows", async () => (await page.locator("[data-row]", { hasText: "Disabled" }).count()) === 3);
  for (const [number, state] of [[1, "Disabled"], [2, "Disabled"], [3, "Enabled"], [4, "Disabled"], [5, "Enabled"]]) {
    assert.equal((await server.api("GET", `/api/collections/demo/jobs/job-${number}`)).properties.state, state);
  }
  await page.getByRole("navigation", { name: "Jobs by state" }).getByRole("link", { name: "Disabled" }).click();
  await eventually("the tab of disabled jobs", async () => (await page.locator("[data-row]").count()) === 3);
});

test("a dialog that is cancelled changes nothing and returns the focus", async ({ start, open }) => {
  const server = await start();
  await server.job("kept");
  const window = await open(server);
  const { page } = window;
  await window.go("jobs");
  await page.getByRole("checkbox", { name: "Select kept" }).check();
  const button = page.getByRole("button", { name: "Delete 1 job" });
  await button.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.ok(await button.evaluate((element) => element === document.activeElement));
  await server.api("GET", "/api/collections/demo/jobs/kept");
});

test("a job is found as it is shown, with its collection", async ({ start, open }) => {
  const server = await start();
  for (const collection of ["billing", "web"]) await server.job("export", { collection });
  const window = await open(server);
  const { page } = window;
  await window.go("jobs?search=billing/export");
  assert.deepEqual(await page.locator("[data-row] .lead").allTextContents(), ["billing/export"]);
});

test("a collection of another resource group is named by its group", async ({ start, open }) => {
  const server = await start();
  const group = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/prod/providers/Microsoft.Scheduler/jobCollections";
  await server.api("PUT", `${group}/c1`, { location: "local", properties: { sku: { name: "Standard" } } });
  await server.api("PUT", `${group}/c1/jobs/j1`, { properties: { startTime: `${nextYear("06-01")}T00:00:00Z`, action: { type: "Http", request: { method: "GET", uri: `${server.echo}/200` } } } });
  const window = await open(server);
  const { page } = window;
  await window.go("jobs");
  assert.deepEqual(await page.locator("[data-row] .lead").allTextContents(), ["prod/c1/j1"]);
  await eventually("the collection in the filter", async () => {
    await page.reload();
    return (await page.getByLabel("Collection").locator("option").allTextContents()).includes("prod/c1");
  });
  await page.getByLabel("Collection").selectOption({ label: "prod/c1" });
  await page.waitForURL(/collection=/);
  await page.locator("[data-row] .lead").getByText("j1").waitFor();
  await window.go("collections");
  await page.getByRole("link", { name: "prod/c1", exact: true }).click();
  await page.getByRole("heading", { name: "c1" }).waitFor();
});

test("the list shows which jobs do not run because of their collection or of a pause", async ({ start, open }) => {
  const server = await start();
  for (const collection of ["billing", "web"]) await server.job("export", { collection });
  await server.api("PATCH", "/api/collections/web", { properties: { state: "Disabled" } });
  const window = await open(server);
  const { page } = window;
  const states = () => page.locator("[data-row] .status").allInnerTexts();
  await window.go("jobs");
  assert.deepEqual(await states(), ["Enabled", "Collection disabled"]);
  await window.go("collections/web");
  assert.deepEqual(await states(), ["Collection disabled"]);
  await server.api("POST", "/api/pause", { reason: "maintenance" });
  await window.go("jobs");
  assert.deepEqual(await states(), ["Paused", "Paused"]);
});

test("all jobs that match are selected over all pages, and a failed action keeps the selection", async ({ start, open }) => {
  const server = await start();
  await manyJobs(server, 130, { size: 70 });
  await server.job("other");
  const window = await open(server);
  window.expect(/bulk/);
  window.expect(/ERR_FAILED/);
  const { page } = window;
  await window.go("jobs?search=job-&state=Enabled");
  const all = page.getByRole("checkbox", { name: "Select all jobs on this page" });
  const offer = page.getByRole("button", { name: "Select all 117 matching jobs" });
  assert.ok(await offer.isHidden(), "nothing is selected");
  await all.check();
  await page.getByRole("button", { name: "Disable 50 jobs" }).waitFor();
  await offer.click();
  await page.getByText("All 117 jobs that match are selected.").waitFor();
  await window.checkAccessibility();
  const disable = page.getByRole("button", { name: "Disable 117 jobs" });
  const confirm = async () => {
    await disable.click();
    await page.getByRole("dialog").getByText("Show all 117 jobs").click();
    assert.equal(await page.getByRole("dialog").locator("dt").count(), 117);
    await page.getByRole("dialog").getByRole("button", { name: "Disable 117 jobs" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
  };
  await page.route("**/jobs/bulk*", (route) => route.abort());
  await confirm();
  await page.getByText("The server cannot be reached").waitFor();
  assert.ok(await all.isChecked());
  assert.ok(await disable.isVisible(), "the selection stays");
  await page.unroute("**/jobs/bulk*");
  await confirm();
  await page.getByText("Disabled 117 jobs").waitFor();
  const count = async (state) => (await server.api("GET", `/api/jobs?state=${state}&limit=1`)).counts[state.toLowerCase()].count;
  assert.deepEqual([await count("Disabled"), await count("Enabled")], [130, 1]);
  // Another row ends the selection of all.
  await window.go("jobs");
  await all.check();
  await page.getByRole("button", { name: "Select all 131 matching jobs" }).click();
  await page.getByRole("button", { name: "Enable 131 jobs" }).waitFor();
  await page.locator("[data-select]").first().uncheck();
  await page.getByRole("button", { name: "Enable 49 jobs" }).waitFor();
});
