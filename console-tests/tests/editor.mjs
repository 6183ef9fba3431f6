import { strict as assert } from "node:assert";

import { test } from "../registry.mjs";
import { DESKTOP, PHONE } from "../browser.mjs";
import { eventually } from "../server.mjs";

const JOB = "/api/collections/demo/jobs/nightly";

/** The definition in the JSON field, which is empty until the scripts of the page have run. */
async function definition(page) {
  return JSON.parse(await eventually("a definition in the JSON field", () => page.getByLabel("JSON").inputValue()));
}

/** Waits for a text in the preview. */
async function previewed(page, text) {
  await page.locator("[data-preview]", { hasText: text }).waitFor();
}

/** The error beside a field. */
function errorOf(page, path) {
  return page.locator(`.field[data-path="${path}"] .error[data-shown]`);
}

/** A job with secrets in every place that the form has for an HTTP target. */
function withSecrets(server) {
  return server.job("nightly", {
    recurrence: { frequency: "Week", interval: 2, timeZone: "Europe/Berlin", schedule: { weekDays: ["Monday"], hours: [2], minutes: [30] } },
    startTime: "2027-01-04T00:00:00Z",
    action: {
      request: {
        method: "POST",
        uri: `${server.echo}/200?sig=canary-parameter`,
        headers: { Authorization: "Bearer canary-header", Accept: "*/*" },
        authentication: { type: "Basic", username: "user", password: "canary-password" },
      },
    },
  });
}

test("a job is created by clicking, and does not run at its creation", async ({ start, open }) => {
  const server = await start();
  const window = await open(server);
  const { page } = window;
  await window.go("new-job");
  await previewed(page, "At 09:00 every day, Europe/Berlin");
  window.expect(/400/);
  await page.getByLabel("Collection").fill("demo");
  await page.getByLabel("Name", { exact: true }).fill("my first job!");
  await errorOf(page, "@name").getByText("must begin with a letter").waitFor();
  await page.getByLabel("Name", { exact: true }).fill("nightly");
  await page.getByLabel("URL").first().fill(`${server.echo}/200`);
  await page.getByLabel("Unit").selectOption("Minute");
  await previewed(page, "Every minute, Europe/Berlin");
  await page.getByLabel("Unit").selectOption("Month");
  await page.getByRole("combobox", { name: "On", exact: true }).selectOption("weekdays");
  await page.getByLabel("Which one").selectOption("-1");
  await page.getByLabel("Weekday", { exact: true }).selectOption("Friday");
  await page.getByLabel("At hours").fill("8-10");
  await previewed(page, "last Friday");
  await previewed(page, "Creating the job does not start a run.");
  const runOnce = page.getByLabel("Also run once when the job is created");
  await runOnce.check();
  await previewed(page, "Creating the job starts a run at once.");
  await runOnce.uncheck();
  await previewed(page, "Creating the job does not start a run.");
  assert.deepEqual((await definition(page)).properties.recurrence.schedule, { hours: [8, 9, 10], minutes: [0], monthlyOccurrences: [{ day: "Friday", occurrence: -1 }] });
  await page.getByRole("button", { name: "Create job" }).click();
  await page.waitForURL(`${server.url}/jobs/demo/nightly`);
  const job = await server.api("GET", JOB);
  assert.equal(job.properties.action.type, "Http");
  assert.equal(job.properties.status.executionCount, 0);
  assert.equal((await server.runs("nightly")).filter((run) => run.disposition === "Completed").length, 0);
});

test("hours, minutes, days and cron fields are chosen by clicking", async ({ start, open }) => {
  const server = await start();
  await server.job("nightly");
  const window = await open(server);
  const { page } = window;
  const schedule = async () => (await definition(page)).properties.recurrence;
  const choose = (group, name) => page.getByRole("group", { name: group, exact: true }).getByText(name, { exact: true }).click();
  await window.go("jobs/demo/nightly/edit");
  await page.getByText("Choose minutes, hours and days").click();
  await window.checkAccessibility();
  assert.ok(await page.getByRole("group", { name: "Hours", exact: true }).getByLabel("3", { exact: true }).isChecked(), "0 3 * * *");
  await choose("Hours", "15");
  await choose("Minutes", "0");
  await choose("Minutes", "30");
  await choose("Days of the month", "last");
  await choose("Months", "Feb");
  assert.deepEqual(await schedule(), { cron: "30 3,15 L Feb *" });
  await choose("Days of the month", "last");
  await page.getByLabel("Which weekday of the month").selectOption("first");
  await choose("Weekdays", "Mon");
  assert.deepEqual(await schedule(), { cron: "30 3,15 * Feb Mon#1" });
  await previewed(page, "first Monday");
  await page.getByLabel("Cron expression").fill("0 9 * * Mon-Fri");
  assert.ok(!(await page.getByRole("group", { name: "Weekdays" }).getByRole("checkbox", { name: "Mon" }).isChecked()), "every Monday is not the first one");
  await page.getByLabel("Which weekday of the month").selectOption("every");
  assert.ok(await page.getByRole("group", { name: "Weekdays" }).getByRole("checkbox", { name: "Mon" }).isChecked());
  await page.getByRole("button", { name: "Repeat" }).click();
  await page.getByLabel("Unit").selectOption("Month");
  await page.getByRole("combobox", { name: "On", exact: true }).selectOption("days");
  await page.getByText("Choose days of the month").click();
  await choose("Days of the month", "15");
  await choose("Counted from the end of the month", "-1");
  await page.getByText("Choose hours and minutes").click();
  await choose("Hours", "17");
  await choose("Minutes", "45");
  await window.checkAccessibility();
  assert.deepEqual((await schedule()).schedule, { hours: [9, 17], minutes: [0, 45], monthDays: [1, 15, -1] });
  assert.equal(await page.getByLabel("At hours").inputValue(), "9, 17");
  page.on("dialog", (question) => question.accept());
});

test("form and JSON of the editor stay in step, and members that the form does not know are kept", async ({ start, open }) => {
  const server = await start();
  await withSecrets(server);
  const window = await open(server);
  window.expect(/400/);
  const { page } = window;
  await window.go("jobs/demo/nightly/edit");
  await previewed(page, "Saving changes nothing.");
  const before = await definition(page);
  await page.getByLabel("JSON").fill(JSON.stringify({ properties: { ...before.properties, madeUp: 1, recurrence: { cron: "15 4 * * *", timeZone: "Europe/Berlin" } } }));
  assert.equal(await page.getByLabel("Cron expression").inputValue(), "15 4 * * *");
  await previewed(page, "properties.madeUp is unknown");
  await page.getByLabel("Cron expression").fill("15 5 * * *");
  const after = await definition(page);
  assert.equal(after.properties.madeUp, 1);
  assert.equal(after.properties.recurrence.cron, "15 5 * * *");
  await page.getByLabel("JSON").fill("{");
  await page.getByText("Not JSON").waitFor();
  assert.ok(await page.getByLabel("Cron expression").isDisabled());
  await page.getByLabel("JSON").fill(JSON.stringify(before));
  assert.ok(await page.getByLabel("Cron expression").isHidden());
  assert.equal(await page.getByLabel("At hours").inputValue(), "2");
});

test("errors of the API appear beside their fields, and a failed save loses nothing", async ({ start, open }) => {
  const server = await start();
  await withSecrets(server);
  const window = await open(server);
  window.expect(/400/);
  const { page } = window;
  await window.go("jobs/demo/nightly/edit");
  await page.getByLabel("At minutes").fill("75");
  await errorOf(page, "recurrence.schedule.minutes").getByText("Must be between 0 and 59 (found 75)", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Save changes" }).click();
  await errorOf(page, "recurrence.schedule.minutes").waitFor();
  assert.equal(await page.getByLabel("At minutes").inputValue(), "75");
  await page.getByLabel("At minutes").fill("45");
  await previewed(page, "Moves the next run");
  assert.equal(await errorOf(page, "recurrence.schedule.minutes").count(), 0);
  await page.getByRole("button", { name: "Save changes" }).click();
  await page.waitForURL(`${server.url}/jobs/demo/nightly`);
  assert.deepEqual((await server.api("GET", JOB)).properties.recurrence.schedule.minutes, [45]);
});

test("the editor shows no secret, keeps stored ones, and never sends them to another host", async ({ start, open }) => {
  const server = await start();
  await withSecrets(server);
  const window = await open(server);
  window.expect(/400/);
  const { page } = window;
  await window.go("jobs/demo/nightly/edit");
  await previewed(page, "Saving changes nothing.");
  const shown = await page.evaluate(() => [document.body.innerText, ...[...document.querySelectorAll("input, textarea")].map((field) => field.value)].join("\n"));
  assert.ok(!shown.includes("canary"), shown);
  assert.equal(await page.getByLabel("Password").first().getAttribute("placeholder"), "stored; leave empty to keep");
  const url = page.getByLabel("URL").first();
  const own = await url.inputValue();
  await url.fill("http://127.0.0.2:9999/");
  await errorOf(page, "action.request.authentication.password").getByText("is stored for another recipient").waitFor();
  await url.fill(own);
  await page.getByLabel("Password").first().fill("canary-typed");
  assert.equal((await definition(page)).properties.action.request.authentication.password, "${entered}");
  await previewed(page, "Changes");
  await page.getByRole("button", { name: "Save changes" }).click();
  await page.waitForURL(`${server.url}/jobs/demo/nightly`);
});

test("a job that somebody else changed is merged with what was typed", async ({ start, open }) => {
  const server = await start();
  await withSecrets(server);
  const window = await open(server);
  window.expect(/412/);
  const { page } = window;
  await window.go("jobs/demo/nightly/edit");
  await page.getByLabel("At hours").fill("5");
  await previewed(page, "At 05:30");
  await server.api("PATCH", JOB, { properties: { jitter: "PT7S" } });
  await page.getByRole("button", { name: "Save changes" }).click();
  await page.getByText("This job was changed since you opened it").waitFor();
  await page.getByRole("button", { name: "Load the new version and keep my changes" }).click();
  await eventually("the merged definition", async () => (await definition(page)).properties.jitter === "PT7S");
  assert.deepEqual((await definition(page)).properties.recurrence.schedule.hours, [5]);
  await page.getByRole("button", { name: "Save changes" }).click();
  await page.waitForURL(`${server.url}/jobs/demo/nightly`);
  const { properties } = await server.api("GET", JOB);
  assert.equal(properties.jitter, "PT7S");
  assert.deepEqual(properties.recurrence.schedule.hours, [5]);
});

test("leaving the editor with unsaved changes asks", async ({ start, open }) => {
  const server = await start();
  await withSecrets(server);
  const window = await open(server);
  const { page } = window;
  await window.go("jobs/demo/nightly/edit");
  await page.getByLabel("At hours").fill("6");
  const asked = new Promise((resolve) => page.once("dialog", (dialog) => dialog.dismiss().then(() => resolve(dialog.type()))));
  await page.getByRole("link", { name: "Cancel" }).click({ noWaitAfter: true });
  assert.equal(await asked, "beforeunload");
  assert.equal(await page.getByLabel("At hours").inputValue(), "6");
  page.on("dialog", (dialog) => dialog.accept());
});

test("a test run shows the response of the target and saves nothing", async ({ start, open }) => {
  const server = await start();
  await withSecrets(server);
  const window = await open(server);
  const { page } = window;
  await window.go("jobs/demo/nightly/edit");
  await previewed(page, "Saving changes nothing.");
  await page.getByRole("button", { name: "Test run…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Test run" }).click();
  const result = page.locator("[data-test-result]");
  await result.getByText("Succeeded").waitFor();
  assert.ok(!(await result.innerText()).includes("canary"), await result.innerText());
  assert.ok(await result.evaluate((card) => card.getBoundingClientRect().top >= 0 && card.getBoundingClientRect().bottom <= innerHeight), "all of it is in sight");
  assert.match(await result.locator("pre").first().innerText(), /^\{\n  "/, "JSON with line breaks");
  assert.ok(await result.locator("pre").evaluateAll((blocks) => blocks.every((block) => block.scrollWidth <= block.clientWidth)), "long lines are wrapped");
  assert.equal((await server.api("GET", JOB)).properties.status.executionCount, 0);
});

test("the editor is accessible and fits the width of a phone", async ({ start, open }) => {
  const server = await start();
  await withSecrets(server);
  for (const size of [DESKTOP, PHONE]) {
    const window = await open(server, { size });
    for (const path of ["new-job", "jobs/demo/nightly/edit"]) {
      await window.go(path);
      await previewed(window.page, "Next runs");
      await window.page.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
      await window.checkAccessibility();
      await window.checkWidth();
    }
  }
});

test("preview and JSON of the editor stay in sight and in their cards while the form scrolls", async ({ start, open }) => {
  const server = await start();
  await server.job(`nightly_${"x".repeat(92)}`, { description: "x ".repeat(200), recurrence: { frequency: "Day", interval: 1, schedule: { hours: [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22], minutes: [0, 5, 10, 15, 20, 25, 30] } } });
  for (const size of [DESKTOP, { width: 1024, height: 768 }]) {
    const window = await open(server, { size });
    const { page } = window;
    await window.go(`jobs/demo/nightly_${"x".repeat(92)}/edit`);
    await previewed(page, "At minutes 0, 5, 10");
    for (const y of [0, 300, 10_000]) {
      await page.evaluate((y) => window.scrollTo(0, y), y);
      const [head, preview, json, card] = await page.evaluate(() => [".editor > .head", "[data-preview]", "[data-json]", ".editor-side > .card:last-child"].map((selector) => document.querySelector(selector).getBoundingClientRect().toJSON()));
      assert.ok(preview.top >= head.bottom, `${preview.top} is not below ${head.bottom}`);
      assert.ok(json.bottom < card.bottom, `${json.bottom} is beyond ${card.bottom}`);
    }
  }
});

test("form and JSON of the editor are side by side, with room for the JSON of a job", async ({ start, open }) => {
  const server = await start();
  await withSecrets(server);
  const window = await open(server);
  const { page } = window;
  for (const path of ["new-job", "jobs/demo/nightly/edit"]) {
    await window.go(path);
    await page.locator("[data-preview] li").first().waitFor();
    const { lines, top } = await page.getByLabel("JSON").evaluate((field) => ({ lines: field.clientHeight / parseFloat(getComputedStyle(field).lineHeight), top: field.getBoundingClientRect().top }));
    assert.ok(lines >= 24 && top < 300, `${path}: ${lines} lines at ${top} px`);
  }
});

test("another weekday of the month is one that the schedule does not have", async ({ start, open }) => {
  const server = await start();
  const window = await open(server);
  const { page } = window;
  window.expect(/400/);
  await window.go("new-job");
  await page.getByLabel("Unit").selectOption("Month");
  await page.getByRole("combobox", { name: "On", exact: true }).selectOption("weekdays");
  await page.getByRole("button", { name: "Add a weekday" }).click();
  await previewed(page, "the first Monday and the first Tuesday");
  page.on("dialog", (question) => question.accept());
});

test("a preview is renewed when its first run has passed, and a job that runs once is proposed for the next full hour", async ({ start, open }) => {
  const server = await start();
  const window = await open(server);
  const { page } = window;
  await window.go("new-job");
  await page.getByRole("button", { name: "Once" }).click();
  assert.match(await page.getByLabel("Start at").inputValue(), /T\d\d:00$/);
  const properties = { startTime: new Date(Date.now() + 4000).toISOString(), action: { type: "Http", request: { method: "GET", uri: `${server.echo}/200` } } };
  await page.getByLabel("JSON").fill(JSON.stringify({ properties }));
  await previewed(page, "Creating the job does not start a run.");
  await previewed(page, "Creating the job starts a run at once.");
});

test("a save before the preview has changed asks for what it saves", async ({ start, open }) => {
  const server = await start();
  const window = await open(server);
  const { page } = window;
  await window.go("new-job");
  await page.getByRole("button", { name: "Once" }).click();
  await page.getByLabel("Collection").fill("demo");
  await page.getByLabel("Name", { exact: true }).fill("once");
  await page.getByLabel("URL").first().fill(`${server.echo}/200`);
  await previewed(page, "Creating the job does not start a run.");
  // Slow previews; a second save would abort the first one's.
  await page.route(/\/preview/, (route) => setTimeout(() => route.continue(), 500));
  await page.getByLabel("Start at").fill("2026-01-01T00:00");
  await page.keyboard.press("Control+s");
  await page.keyboard.press("Control+s");
  const dialog = page.getByRole("dialog", { name: "Saving starts a run at once" });
  await dialog.waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  assert.equal((await server.api("GET", "/api/jobs")).value.length, 0);
  // A preview that fails says nothing about the run.
  await page.unroute(/\/preview/);
  await page.route(/\/preview/, (route) => route.fulfill({ status: 503, json: { error: { code: "StoreUnavailable", message: "Away" } } }));
  window.expect(/503/);
  await page.getByLabel("Start at").fill("2026-01-02T00:00");
  await page.keyboard.press("Control+s");
  await page.getByText("Nothing was saved").waitFor();
  assert.equal((await server.api("GET", "/api/jobs")).value.length, 0);
});

test("a time zone that does not exist is an error also for a job that runs once", async ({ start, open }) => {
  const server = await start();
  const window = await open(server);
  const { page } = window;
  await window.go("new-job");
  await page.getByLabel("Collection").fill("demo");
  await page.getByLabel("Name", { exact: true }).fill("once");
  await page.getByLabel("URL").first().fill(`${server.echo}/200`);
  await page.getByRole("button", { name: "Once" }).click();
  const zone = page.getByRole("combobox", { name: "Time zone" });
  await zone.fill("America/New_Yrok");
  await errorOf(page, "recurrence.timeZone").getByText("There is no such time zone").waitFor();
  await zone.press("Tab");
  assert.equal(await zone.inputValue(), "America/New_Yrok");
  await page.getByRole("button", { name: "Create job" }).click();
  assert.ok(page.url().endsWith("/new-job"), "nothing is saved");
  await zone.fill("America/New_York");
  await eventually("no error", async () => (await errorOf(page, "recurrence.timeZone").count()) === 0);
});

test("the schedule is previewed while name and URL are wrong, and wrong JSON of a new job has its errors", async ({ start, open }) => {
  const server = await start();
  const window = await open(server);
  const { page } = window;
  window.expect(/400/);
  await window.go("new-job");
  await page.getByLabel("Name", { exact: true }).fill("my job!");
  await page.getByLabel("URL").first().fill("example");
  await page.getByLabel("Unit").selectOption("Minute");
  await previewed(page, "Every minute, Europe/Berlin");
  await errorOf(page, "@name").waitFor();
  await errorOf(page, "action.request.uri").waitFor();
  const json = page.getByLabel("JSON");
  const definition = JSON.parse(await json.inputValue());
  definition.properties.recurrence = { frequency: "Day", interval: "x", schedule: { hours: [25] } };
  await json.fill(JSON.stringify(definition));
  await errorOf(page, "recurrence.interval").waitFor();
});

test("an unknown time zone is an error of its field, and the preview shows the messages of the API", async ({ start, open }) => {
  const server = await start();
  await server.job("nightly");
  const window = await open(server);
  window.expect(/400/);
  const { page } = window;
  page.on("dialog", (dialog) => dialog.accept());
  for (const path of ["new-job", "jobs/demo/nightly/edit"]) {
    await window.go(path);
    const zone = page.getByRole("combobox", { name: "Time zone" });
    await zone.fill("Mars/Base");
    await zone.press("Tab");
    await errorOf(page, "recurrence.timeZone").getByText("Must be an IANA time zone name").waitFor();
    assert.equal(await zone.getAttribute("aria-invalid"), "true");
    await previewed(page, 'recurrence.timeZone must be an IANA time zone name such as Europe/Berlin or UTC (found "Mars/Base")');
    await window.checkAccessibility();
    await zone.fill("Europe/Paris");
    await eventually("no error", async () => (await errorOf(page, "recurrence.timeZone").count()) === 0);
    assert.equal(await zone.getAttribute("aria-invalid"), null);
  }
});

test("creating a job from an empty form marks all fields that are missing", async ({ start, open }) => {
  const server = await start();
  const window = await open(server);
  window.expect(/400/);
  const { page } = window;
  await window.go("new-job");
  await previewed(page, "Next runs");
  await page.getByRole("button", { name: "Create job" }).click();
  for (const path of ["@name", "@collection", "action.request.uri"]) await errorOf(page, path).waitFor();
  assert.ok(await page.getByLabel("Name", { exact: true }).evaluate((field) => field === document.activeElement));
  await previewed(page, "Next runs");
  await page.getByLabel("Name", { exact: true }).fill("first");
  await eventually("the name is no error", async () => (await errorOf(page, "@name").count()) === 0);
  for (const path of ["@collection", "action.request.uri"]) await errorOf(page, path).waitFor();
  await page.getByLabel("Collection").fill("demo");
  await page.getByLabel("URL").first().fill(`${server.echo}/200`);
  await previewed(page, "Creating the job does not start a run.");
  await page.getByRole("button", { name: "Create job" }).click();
  await page.waitForURL(/jobs\/demo\/first$/);
});

test("a job is duplicated without its name and secrets, and the copy does not run at its creation", async ({ start, open }) => {
  const server = await start();
  await withSecrets(server);
  await server.job("finished", { recurrence: undefined, startTime: new Date(Date.now() - 60_000).toISOString() });
  const window = await open(server);
  window.expect(/400/);
  const { page } = window;
  await window.go("jobs/demo/nightly");
  await page.getByRole("link", { name: "Duplicate" }).click();
  await page.getByText("A copy of demo/nightly").waitFor();
  await eventually("the definition", async () => (await definition(page)).properties.recurrence?.interval === 2);
  const { properties } = await definition(page);
  assert.deepEqual(properties.recurrence.schedule, { weekDays: ["Monday"], hours: [2], minutes: [30] });
  assert.doesNotMatch(JSON.stringify(properties), /canary|stored/);
  assert.equal(properties.action.request.headers.Accept, "*/*");
  assert.equal(await page.getByLabel("Collection").inputValue(), "demo");
  const name = page.getByLabel("Name", { exact: true });
  assert.equal(await name.inputValue(), "");
  await window.checkAccessibility();
  await name.fill("copy");
  await page.getByLabel("Password", { exact: true }).first().fill("new-password");
  await page.getByLabel("URL").first().fill(`${server.echo}/200`);
  await page.locator("[data-entries$=headers] input[type=password]").first().fill("Bearer new");
  await previewed(page, "Creating the job does not start a run.");
  await page.getByRole("button", { name: "Create job" }).click();
  await page.waitForURL(/jobs\/demo\/copy$/);
  const copy = (await server.api("GET", "/api/collections/demo/jobs/copy")).properties;
  assert.equal(copy.recurrence.interval, 2);
  assert.equal(copy.status.executionCount, 0);
  // The time of a job that has run has passed: the copy proposes another.
  await window.go("new-job?from=demo%2Ffinished");
  await previewed(page, "Creating the job does not start a run.");
  window.expect(/404/);
  await window.go("new-job?from=demo%2Fabsent");
  assert.match(await page.locator("main").innerText(), /Not found/);
});
