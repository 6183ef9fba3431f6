import { strict as assert } from "node:assert";

import { test } from "../registry.mjs";

test("a pause has its reason on every page until somebody resumes", async ({ start, open }) => {
  const server = await start();
  await server.job("nightly");
  const window = await open(server);
  const { page } = window;
  await window.go("system");
  await page.getByRole("button", { name: "Pause everything…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Pause everything" }).click();
  assert.ok(await dialog.isVisible(), "a reason is required");
  await dialog.getByLabel("Reason").fill("Database <b>migration</b>");
  await dialog.getByRole("button", { name: "Pause everything" }).click();
  const banner = page.locator(".banner");
  await banner.waitFor();
  for (const path of ["", "jobs", "jobs/demo/nightly", "runs", "collections", "collections/demo", "system"]) {
    await window.go(path);
    assert.match(await banner.innerText(), /Everything is paused\.\s+Database <b>migration<\/b>/, path);
  }
  await window.checkAccessibility();
  await banner.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
  await banner.waitFor({ state: "detached" });
  assert.notEqual((await server.api("GET", "/api/pause")).paused, true);
});
