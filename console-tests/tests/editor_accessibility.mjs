import { strict as assert } from "node:assert";

import { PHONE } from "../browser.mjs";
import { HOSTILE } from "../data.mjs";
import { test } from "../registry.mjs";
import { eventually } from "../server.mjs";

const preview = (page) => page.locator("[data-preview]");

test("an edit shows its effect before it is saved, and an error beside its field", async ({ start, open }) => {
  const server = await start();
  await server.job("report", { recurrence: { cron: "30 2 * * *", timeZone: "Europe/Berlin" }, description: "Daily report" });
  const window = await open(server);
  window.expect(/400/);
  const { page } = window;
  await window.go("jobs/demo/report/edit");
  await preview(page).getByText("Saving changes nothing.").waitFor();
  const cron = page.getByLabel("Cron expression");
  assert.equal(await cron.inputValue(), "30 2 * * *");
  await cron.fill("30 25 * * *");
  await cron.blur();
  await page.locator('[data-path="recurrence.cron"] .error').waitFor();
  await window.checkAccessibility();
  await cron.fill("30 4 * * *");
  await preview(page).getByText(/Moves the next run from/).waitFor();
  assert.match(await page.locator("[data-json]").inputValue(), /"cron": "30 4 \* \* \* ?"|30 4 \* \* \*/);
  assert.equal((await server.api("GET", "/api/collections/demo/jobs/report")).properties.recurrence.cron, "30 2 * * *", "not saved yet");
  await page.getByRole("button", { name: "Save changes" }).click();
  await eventually("the edit is saved", async () => (await server.api("GET", "/api/collections/demo/jobs/report")).properties.recurrence.cron === "30 4 * * *");
});

test("the editor shows hostile texts as text and fits a phone", async ({ start, open }) => {
  const server = await start();
  const text = HOSTILE.join(" ");
  await server.job("hostile", { description: text, tags: { a: HOSTILE[0] }, action: { request: { method: "POST", uri: `${server.echo}/200`, headers: { "X-Text": HOSTILE[1] }, body: HOSTILE[2] } } });
  const window = await open(server, { size: PHONE });
  const { page } = window;
  await window.go("jobs/demo/hostile/edit");
  await preview(page).getByText("Saving changes nothing.").waitFor();
  assert.equal(await page.getByLabel("Description").inputValue(), text);
  assert.equal(await page.locator("main img, main script, main [onerror], main [onload]").count(), 0);
  assert.doesNotMatch(await page.title(), /owned/);
  await window.checkWidth();
  await window.checkAccessibility();
});
