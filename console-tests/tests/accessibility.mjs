import { strict as assert } from "node:assert";

import { DESKTOP, PHONE } from "../browser.mjs";
import { test } from "../registry.mjs";

// Pages, tabs and dialogs with content have their checks beside what they do; here are the states in between.

const PAGES = ["", "jobs", "runs", "collections", "system", "new-job"];
const ECHO = ["--echo-listen", "127.0.0.1:0", "--egress-allow", "127.0.0.1/32"];

async function check(window) {
  await window.checkAccessibility();
  await window.checkWidth();
}

test("the sign-in page is accessible before and after a wrong token", async ({ create, open }) => {
  const server = await create({ options: ECHO });
  server.token = server.createToken("owner");
  await server.resume();
  for (const size of [DESKTOP, PHONE]) {
    const window = await open(server, { size });
    window.expect(/401/);
    const { page } = window;
    await page.goto(`${window.base}jobs`);
    await page.getByLabel("Token").waitFor();
    await check(window);
    await page.getByLabel("Token").fill("wrong");
    await page.getByRole("button", { name: /^Sign in/ }).click();
    await page.getByRole("alert").getByText(/./).first().waitFor();
    await check(window);
  }
});

test("every page of an empty store is accessible", async ({ start, open }) => {
  const server = await start();
  for (const size of [DESKTOP, PHONE]) {
    const window = await open(server, { size });
    for (const path of PAGES) {
      await window.go(path);
      await check(window);
    }
  }
});

test("every kind of schedule, target and authentication of the editor is accessible", async ({ start, open }) => {
  const server = await start();
  for (const size of [DESKTOP, PHONE]) {
    const window = await open(server, { size });
    window.expect(/400/);
    const { page } = window;
    await window.go("new-job");
    await page.locator("[data-preview]", { hasText: "Next runs" }).waitFor();
    for (const kind of ["Once", "Cron", "Repeat"]) {
      await page.getByRole("button", { name: kind, exact: true }).click();
      await check(window);
    }
    for (const unit of ["Week", "Month", "Year"]) {
      await page.getByLabel("Unit").selectOption(unit);
      await check(window);
    }
    for (const pattern of ["days", "weekdays"]) {
      await page.getByRole("combobox", { name: "On", exact: true }).selectOption(pattern);
      await check(window);
    }
    await page.locator("details:not(.picker)").evaluateAll((all) => all.forEach((details) => (details.open = true)));
    await page.getByLabel("Call another target when all attempts have failed").check();
    for (const type of ["Basic", "ClientCertificate", "ActiveDirectoryOAuth"]) {
      await page.getByLabel("Authentication").first().selectOption(type);
      await check(window);
    }
    for (const target of ["Storage queue", "Service Bus queue", "Service Bus topic"]) {
      for (const button of await page.getByRole("button", { name: target, exact: true }).all()) await button.click();
      await check(window);
    }
    await page.getByLabel("JSON").fill("{");
    await page.getByText("Not JSON").waitFor();
    await check(window);
    page.on("dialog", (dialog) => dialog.accept());
  }
});

test("the editor is accessible with the result of a test run, a conflict and errors", async ({ start, open }) => {
  const server = await start();
  await server.job("nightly", { path: "/503", tags: { team: "billing" }, description: "Nightly export" });
  const window = await open(server);
  window.expect(/400|412/);
  const { page } = window;
  await window.go("jobs/demo/nightly/edit");
  await page.getByRole("button", { name: "Test run…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Test run" }).click();
  await page.locator("[data-test-result]").getByText("Failed").waitFor();
  await check(window);
  await page.getByLabel("Cron expression").fill("99 * * * *");
  await page.locator('[data-path="recurrence.cron"] .error').waitFor();
  await check(window);
  await page.getByLabel("Cron expression").fill("9 4 * * *");
  await server.api("PATCH", "/api/collections/demo/jobs/nightly", { properties: { jitter: "PT7S" } });
  await page.getByRole("button", { name: "Save changes" }).click();
  await page.getByText("This job was changed since you opened it").waitFor();
  await check(window);
  page.on("dialog", (dialog) => dialog.accept());
});

test("runs that succeeded, fail and are in flight, and disabled and finished jobs, have accessible pages", async ({ start, open }) => {
  const server = await start();
  const once = { recurrence: undefined, startTime: new Date(Date.now() - 60_000).toISOString() };
  await server.job("fails", { path: "/500", action: { retryPolicy: { retryType: "None" } } });
  await server.job("slow", { path: "/200?delay=PT50S" });
  await server.job("finished", once);
  await server.job("report", { description: "Daily report" });
  await server.api("PATCH", "/api/collections/demo/jobs/report?note=Not%20needed", { properties: { state: "Disabled" } });
  await server.run("fails");
  await server.run("report");
  await server.api("POST", "/api/collections/demo/jobs/slow/run");
  for (const size of [DESKTOP, PHONE]) {
    const window = await open(server, { size });
    const { page } = window;
    for (const name of ["report", "fails", "slow", "finished"]) {
      await window.go(`jobs/demo/${name}`);
      await check(window);
      await page.locator('[data-live="runs"] [data-open]').first().click();
      await page.getByRole("heading", { name: /[Rr]un of/ }).waitFor();
      await window.ready();
      await check(window);
    }
  }
});

test("shortcuts, messages and the banner of a pause are accessible on every page", async ({ start, open }) => {
  const server = await start();
  await server.job("nightly");
  for (const size of [DESKTOP, PHONE]) {
    const window = await open(server, { size });
    const { page } = window;
    await window.go("jobs/demo/nightly");
    await page.getByRole("button", { name: "Run now" }).first().click();
    await page.getByRole("dialog").getByRole("button", { name: "Run now" }).click();
    await page.getByText("Started a run").waitFor();
    await check(window);
    await page.keyboard.press("?");
    await page.getByRole("dialog").waitFor();
    await check(window);
  }
  await server.api("POST", "/api/pause", { reason: "Migration of the database to another data centre, planned for the whole night" });
  for (const size of [DESKTOP, PHONE]) {
    const window = await open(server, { size });
    for (const path of [...PAGES, "collections/demo", "jobs/demo/nightly", "jobs/demo/nightly/edit"]) {
      await window.go(path);
      assert.ok(await window.page.locator(".banner").isVisible(), path);
      await check(window);
    }
  }
});
