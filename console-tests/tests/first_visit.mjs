import { strict as assert } from "node:assert";

import { test } from "../registry.mjs";
import { eventually } from "../server.mjs";

test("the first visit of an empty store offers a job and a demo, and the demo runs within ten seconds", async ({ start, open }) => {
  const server = await start();
  const window = await open(server, { isFirstVisit: true });
  await window.go();
  const { page } = window;
  await page.getByRole("link", { name: "Create a job" }).waitFor();
  assert.ok(await page.locator(".figures").isHidden(), "no numbers and charts of nothing");
  await window.checkAccessibility();
  await page.getByRole("button", { name: "Try it with three demo jobs" }).click();
  const claims = [];
  const created = page.waitForEvent("load").then(async () => {
    for (const end = Date.now() + 4_000; Date.now() < end;) {
      claims.push(await page.locator("main").innerText());
      await page.waitForTimeout(50);
    }
  });
  await page.getByText("No jobs yet").waitFor({ state: "detached" });
  await created;
  assert.deepEqual(claims.filter((text) => /Nothing is due|No runs are expected/.test(text)), [], "jobs are due");
  await page.locator(".figure", { hasText: "failed in 24 hours" }).and(page.locator(":not(:has-text('of 0'))")).waitFor({ timeout: 10_000 });
  await window.checkAccessibility();
});

test("the demo runs on a server with authentication, for callers who may create its collection", async ({ create, open }) => {
  const server = await create({ options: ["--echo-listen", "127.0.0.1:0"] });
  server.token = server.createToken("owner");
  const scope = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/default/providers/Microsoft.Scheduler/jobCollections/billing";
  const limited = server.createToken("contributor", { scope, name: "limited" });
  await server.resume();
  const demo = (page) => page.getByRole("button", { name: "Try it with three demo jobs" });
  const visit = async (token) => {
    const window = await open(server);
    window.expect(/401/);
    await window.page.goto(window.base);
    await window.page.getByLabel("Token").fill(token);
    await window.page.getByRole("button", { name: /^Sign in/ }).click();
    await window.page.getByRole("link", { name: "Create a job" }).waitFor();
    await window.ready();
    return window.page;
  };
  assert.equal(await demo(await visit(limited)).count(), 0, "no demo without the permission");
  const page = await visit(server.token);
  await demo(page).click();
  await page.getByText("No jobs yet").waitFor({ state: "detached" });
  await eventually("a run", async () => (await server.runs("every-minute")).length);
  // Other ports of this machine stay closed.
  const port = (Number(new URL(server.echo).port) % 65535) + 1;
  const action = { type: "Http", request: { method: "GET", uri: `http://127.0.0.1:${port}/` } };
  await assert.rejects(server.api("PUT", "/api/collections/demo/jobs/other", { properties: { recurrence: { cron: "@daily" }, action } }), /400.*must not target 127\.0\.0\.1/);
});
