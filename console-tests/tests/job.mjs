import { strict as assert } from "node:assert";

import { PHONE } from "../browser.mjs";
import { HOSTILE, springForward } from "../data.mjs";
import { test } from "../registry.mjs";
import { eventually } from "../server.mjs";

const TABS = ["", "?tab=runs", "?tab=schedule", "?tab=definition", "?tab=ledger", "?tab=notes"];

test("Run now starts a run that appears on the page of the job without a reload", async ({ start, open }) => {
  const server = await start();
  await server.job("report", { description: "Daily report" });
  const window = await open(server);
  const { page } = window;
  await window.go("jobs/demo/report");
  await page.evaluate(() => (globalThis.stillHere = true));
  const rows = page.locator('[data-live="runs"] [data-row]');
  assert.equal(await rows.count(), 0);
  await page.getByRole("button", { name: "Run now" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Run now" }).click();
  await rows.filter({ hasText: "Succeeded" }).waitFor();
  assert.match(await rows.first().innerText(), /manual/);
  await page.keyboard.press("r");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Enter");
  await eventually("the second run", async () => (await rows.count()) === 2);
  assert.ok(await page.evaluate(() => globalThis.stillHere));
  await page.keyboard.press("e");
  await page.waitForURL(/\/jobs\/demo\/report\/edit$/);
});

test("notes are given when a job is edited and when it is run", async ({ start, open }) => {
  const server = await start();
  await server.job("nightly");
  const window = await open(server);
  const { page } = window;
  await window.go("jobs/demo/nightly/edit");
  await page.locator("[data-preview]", { hasText: "03:00" }).waitFor();
  await page.getByLabel("Cron expression").fill("0 4 * * *");
  await page.getByLabel("Note (optional)").fill("The target is slow at three");
  await page.getByRole("button", { name: "Save changes" }).click();
  await page.waitForURL(/\/jobs\/demo\/nightly$/);
  await window.ready();
  await page.getByRole("button", { name: "Run now" }).click();
  await page.getByRole("dialog").getByLabel(/Note/).fill("A first run at once");
  await page.getByRole("dialog").getByRole("button", { name: "Run now" }).click();
  await eventually("a run", async () => (await server.runs("nightly")).some((run) => run.disposition === "Completed"));
  await window.go("jobs/demo/nightly?tab=notes");
  const notes = await page.locator("[data-row]").allInnerTexts();
  assert.equal(notes.length, 2);
  assert.match(notes[0], /Ran\s+A first run at once/);
  assert.match(notes[1], /The target is slow at three/);
});

test("a job is disabled and enabled again", async ({ start, open }) => {
  const server = await start();
  await server.job("report");
  const window = await open(server);
  const { page } = window;
  await window.go("jobs/demo/report");
  await page.getByRole("button", { name: "Disable…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Disable" }).click();
  await page.locator('[data-live="heading"]', { hasText: "Disabled" }).waitFor();
  await eventually("the focus is on the button that replaced Disable", async () => (await page.evaluate(() => document.activeElement.textContent)) === "Enable…");
  await page.locator('[data-live="next"]', { hasText: "if the job were enabled" }).waitFor();
  await page.getByRole("button", { name: "Enable…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Enable" }).click();
  await page.locator('[data-live="heading"]', { hasText: "Enabled" }).waitFor();
});

test("a deleted job leads to the list of jobs", async ({ start, open }) => {
  const server = await start();
  await server.job("report");
  const window = await open(server);
  const { page } = window;
  await window.go("jobs/demo/report");
  const pages = await page.evaluate(() => history.length);
  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete report" }).click();
  await page.waitForURL(`${server.url}/jobs`);
  await page.getByText("No jobs yet.").waitFor();
  await page.getByText("Deleted demo/report").waitFor();
  // The message is shown once, and the way back does not lead to the deleted job.
  await page.reload();
  assert.equal(await page.getByText("Deleted demo/report").count(), 0);
  assert.equal(await page.evaluate(() => history.length), pages);
});

test("a manual run of a job whose collection is disabled says that it waits", async ({ start, open }) => {
  const server = await start();
  await server.job("report");
  await server.api("PATCH", "/api/collections/demo", { properties: { state: "Disabled" } });
  const window = await open(server);
  const { page } = window;
  await window.go("jobs/demo/report");
  await page.getByRole("button", { name: "Run now" }).click();
  await page.getByRole("dialog").getByText("Its collection is disabled: the run waits until somebody enables it.").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Run now" }).click();
  await page.getByText("A run waits until the collection is enabled").waitFor();
});

test("every tab of a job is accessible, fits a phone and shows hostile texts as text", async ({ start, open }) => {
  const server = await start();
  const text = HOSTILE.join(" ");
  const request = { method: "POST", uri: `${server.echo}/500`, headers: { "X-Text": HOSTILE[1] }, body: text };
  await server.job("hostile", { description: text, tags: { team: HOSTILE[0] }, action: { request, retryPolicy: { retryType: "None" } } });
  await server.run("hostile");
  const desktop = await open(server);
  const phone = await open(server, { size: PHONE });
  for (const tab of TABS) {
    for (const window of [desktop, phone]) {
      await window.go(`jobs/demo/hostile${tab}`);
      await window.checkAccessibility();
      await window.checkWidth();
      assert.doesNotMatch(await window.page.title(), /owned/);
      assert.equal(await window.page.locator("main img, main script, main [onerror], main [onload]").count(), 0);
      assert.equal(await window.page.locator('a[href^="javascript:"]').count(), 0);
    }
  }
});

test("the calendar of a job shows today first on a phone", async ({ start, open }) => {
  const server = await start();
  await server.job("nightly");
  const window = await open(server, { size: PHONE });
  await window.go("jobs/demo/nightly?tab=schedule");
  const [left, right] = await window.page.locator(".calendar .today").evaluate((today) => {
    const box = today.closest(".scroll").getBoundingClientRect();
    return [today.getBoundingClientRect().left - box.left, box.right - today.getBoundingClientRect().right];
  });
  assert.ok(left > 100 && right > 100, `${left} px from the left, ${right} px from the right`);
});

test("a job shows its next runs in its own zone, in that of the browser and in UTC, with DST", async ({ start, open }) => {
  const server = await start();
  await server.job("nightly", { startTime: `${springForward().before}T00:00:00`, recurrence: { cron: "30 2 * * *", timeZone: "Europe/Berlin" } });
  const window = await open(server, { zone: "America/New_York" });
  const { page } = window;
  await window.go("jobs/demo/nightly");
  const runs = () => page.locator(".next-dates time:not([data-relative])").allInnerTexts();
  const choose = async (zone) => {
    await page.locator(`[data-zone="${zone}"]`).click();
    await page.locator(`[data-zone="${zone}"][aria-pressed="true"]`).waitFor();
    // The page was loaded again: its scripts have to start before the next click.
    await window.ready();
    return (await runs()).slice(0, 3).map((time) => /\d\d:\d\d/.exec(time)[0]);
  };
  assert.deepEqual(await choose("job"), ["02:30", "03:30", "02:30"]);
  assert.deepEqual(await choose("utc"), ["01:30", "01:30", "00:30"]);
  assert.deepEqual(await choose("browser"), ["21:30", "21:30", "20:30"]);
  await page.getByText("skips 02:00 to 03:00: 02:30 runs at 03:30").waitFor();
  const local = await open(server, { zone: "Europe/Berlin" });
  await local.go("jobs/demo/nightly");
  assert.deepEqual(await local.page.locator("[data-zone]").allInnerTexts(), ["Berlin", "UTC"], "no zone twice");
});

test("a job on 29 February shows its next ten runs and offers to skip the first", async ({ start, open }) => {
  const server = await start();
  await server.job("leap", { recurrence: { cron: "0 6 29 2 *" } });
  const window = await open(server, { zone: "UTC" });
  const { page } = window;
  await window.go("jobs/demo/leap");
  const runs = await page.locator(".next-dates time:not([data-relative])").allInnerTexts();
  assert.equal(runs.length, 10);
  assert.ok(runs.every((run) => /\d{4}-02-29 06:00/.test(run)), runs.join());
  await page.getByRole("button", { name: "Skip next" }).waitFor();
});
