import { strict as assert } from "node:assert";

import { test } from "../registry.mjs";
import { eventually } from "../server.mjs";

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

test("the next hour shows that runs do not start while everything is paused, and no runs of a disabled collection", async ({ start, open }) => {
  const server = await start();
  await server.job("often", { collection: "billing", recurrence: { cron: "*/10 * * * *" } });
  await server.job("often", { collection: "webshop", recurrence: { cron: "*/10 * * * *" } });
  const window = await open(server);
  const { page } = window;
  const chart = page.getByRole("region", { name: "Runs of the next hour" });
  const text = async () => {
    await window.go();
    return chart.locator("..").textContent();
  };
  await eventually("both collections", async () => /billing\d\d:.*webshop\d\d:\d\d: 1 run(?! \()/s.test(await text()));
  await server.api("PATCH", "/api/collections/webshop", { properties: { state: "Disabled" } });
  await eventually("only the enabled collection", async () => !/webshop/.test(await text()));
  await server.api("POST", "/api/pause", { reason: "Migration" });
  assert.match(await text(), /paused: these runs do not start until you resume[^]*billing\d\d:\d\d: 1 run \(paused\)/);
  assert.match(await page.locator(".figure", { hasText: "due in the next hour" }).innerText(), /paused/);
  await window.checkAccessibility();
  await server.api("POST", "/api/resume");
  assert.doesNotMatch(await text(), /paused/);
});
