import { strict as assert } from "node:assert";

import { test } from "../registry.mjs";

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
