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
  assert.match(await text(), /paused: recurring jobs skip these runs unless you resume before; one-time jobs run afterwards[^]*billing\d\d:\d\d: 1 run \(paused\)/);
  assert.match(await page.locator(".figure", { hasText: "due in the next hour" }).innerText(), /paused/);
  await window.checkAccessibility();
  await server.api("POST", "/api/resume");
  assert.doesNotMatch(await text(), /paused/);
});

test("nothing offers to start a run while everything is paused", async ({ start, open }) => {
  const server = await start();
  await server.job("nightly");
  await server.run("nightly");
  const [{ scheduledTime }] = await server.runs("nightly");
  const window = await open(server);
  const { page } = window;
  const offers = async () => {
    let count = 0;
    for (const path of ["jobs/demo/nightly", `jobs/demo/nightly/runs/${encodeURIComponent(scheduledTime)}`, "jobs", "new-job"]) {
      await window.go(path);
      if (path === "jobs") await page.getByRole("checkbox", { name: "Select nightly" }).check();
      count += await page.getByRole("button", { name: /^(Run|Test run)/ }).count() + await page.getByLabel("Also run once when the job is created").count();
    }
    return count;
  };
  assert.equal(await offers(), 5);
  await server.api("POST", "/api/pause", { reason: "Migration." });
  assert.equal(await offers(), 0);
  await window.go("jobs/demo/nightly");
  await page.getByText("It does not run: everything is paused").waitFor();
  await assert.rejects(server.api("POST", "/api/collections/demo/jobs/nightly/run"), /409.*All jobs are paused since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ: Migration; end the pause first/);
});
