import { strict as assert } from "node:assert";

import { nextYear, springForward } from "../data.mjs";
import { test } from "../registry.mjs";

test("times are in the zone of the browser or in UTC, and the choice is remembered", async ({ start, open }) => {
  const server = await start();
  await server.job("newyear", { startTime: `${nextYear("01-01")}T00:30:00Z`, recurrence: { frequency: "Year", interval: 1 } });
  for (const [zone, name, local] of [["Europe/Berlin", "Berlin", "01:30"], ["America/New_York", "New York", "19:30"], ["Asia/Kolkata", "Kolkata|Calcutta", "06:00"]]) {
    const window = await open(server, { zone, isFirstVisit: true });
    const { page } = window;
    await window.go("jobs");
    const browserZone = page.getByRole("button", { name: new RegExp(`^(${name})$`) });
    await browserZone.waitFor();
    assert.equal(await browserZone.getAttribute("aria-pressed"), "true");
    const title = () => page.locator("[data-row] time").first().getAttribute("title");
    assert.match(await title(), new RegExp(`${local}.*00:30(:00)? UTC`));
    await page.getByRole("button", { name: "UTC", exact: true }).click();
    await page.locator('[data-zone="utc"][aria-pressed="true"]').waitFor();
    assert.match(await title(), /^[^·]*00:30(:00)? UTC$/);
    await window.go("");
    assert.equal(await page.getByRole("button", { name: "UTC", exact: true }).getAttribute("aria-pressed"), "true");
  }
});

test("the zone of the job is UTC on the page of a job in UTC", async ({ start, open }) => {
  const server = await start();
  await server.job("berlin", { recurrence: { cron: "0 3 * * *", timeZone: "Europe/Berlin" } });
  await server.job("plain", { recurrence: { cron: "0 3 * * *" } });
  const window = await open(server, { zone: "America/New_York" });
  const { page } = window;
  await window.go("jobs/demo/berlin");
  await page.getByRole("button", { name: "Berlin (job)" }).click();
  await page.locator('[data-zone="job"][aria-pressed="true"]').waitFor();
  for (const path of ["jobs/demo/plain", "jobs/demo/plain/edit"]) {
    await window.go(path);
    await page.locator('[data-zone="utc"][aria-pressed="true"]').waitFor();
    assert.equal(await page.locator('[data-zones] [aria-pressed="true"]').count(), 1);
  }
  await window.go("jobs/demo/plain");
  assert.match(await page.locator("main time[title$=UTC]").first().getAttribute("title"), /03:00(:00)? UTC$/);
  await window.go("jobs/demo/berlin");
  await page.locator('[data-zone="job"][aria-pressed="true"]').waitFor();
});

test("the preview of the editor shows times in the zone of the schedule and in UTC, also across DST", async ({ start, open }) => {
  const server = await start();
  // One browser behind UTC, one ahead of it: the times are those of the schedule in both.
  for (const zone of ["America/New_York", "Asia/Kolkata"]) {
    const window = await open(server, { zone });
    window.expect(/400/);
    const { page } = window;
    await window.go("new-job");
    const preview = page.locator("[data-preview]");
    const { before, day } = springForward();
    await page.getByLabel("Name", { exact: true }).fill("previewed");
    await page.getByLabel("Collection").fill("demo");
    await page.getByLabel("URL").first().fill(`${server.echo}/200`);
    await page.getByLabel("Time zone", { exact: true }).fill("Europe/Berlin");
    await page.getByRole("button", { name: "Cron" }).click();
    await page.getByLabel("Cron expression").fill("30 6 * * *");
    await page.getByLabel(/^Start/).fill(`${before}T00:00`);
    await preview.locator("li").first().getByText(`${before} 06:30`).waitFor();
    await preview.getByRole("heading", { name: "Next runs (Europe/Berlin)" }).waitFor();
    const runs = await preview.locator("li time:not([data-relative])").evaluateAll((times) => times.slice(0, 2).map((time) => [time.textContent, time.title, time.dateTime]));
    assert.deepEqual(runs, [
      [`Sat ${before} 06:30`, `Sat ${before} 05:30 UTC`, `${before}T05:30:00Z`],
      [`Sun ${day} 06:30`, `Sun ${day} 04:30 UTC`, `${day}T04:30:00Z`],
    ]);
    // The sentence of a job that runs once has a time.
    await page.getByRole("button", { name: "Once" }).click();
    await page.getByLabel("Start at").fill(`${day}T06:30`);
    const once = preview.locator(".sentence time");
    await once.getByText(`Sun ${day} 06:30`).waitFor();
    assert.equal(await once.getAttribute("title"), `Sun ${day} 04:30 UTC`);
    page.on("dialog", (question) => question.accept());
  }
});

test("a job that runs once in a DST gap runs after it, and a time that occurs twice is explained", async ({ start, open }) => {
  const server = await start();
  const window = await open(server, { zone: "Europe/Berlin" });
  window.expect(/400/);
  const { page } = window;
  const { day } = springForward();
  await window.go("new-job");
  await page.getByLabel("Name", { exact: true }).fill("once");
  await page.getByLabel("Collection").fill("demo");
  await page.getByLabel("URL").first().fill(`${server.echo}/200`);
  await page.getByRole("button", { name: "Once" }).click();
  const start_ = page.getByLabel("Start at");
  await start_.fill(`${day}T02:30`);
  await page.locator("[data-preview] .sentence").getByText(`Sun ${day} 03:30`).waitFor();
  assert.equal(JSON.parse(await page.getByLabel("JSON").inputValue()).properties.startTime, `${day}T03:30:00+02:00`);
  await start_.fill("2027-10-31T02:30");
  await page.getByText("02:30 occurs twice on this day; the first time is meant").waitFor();
  await page.locator("[data-preview] .sentence time[datetime='2027-10-31T00:30:00Z']").waitFor();
  page.on("dialog", (question) => question.accept());
});
