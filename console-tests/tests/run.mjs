import { strict as assert } from "node:assert";
import { createServer } from "node:http";

import { PHONE } from "../browser.mjs";
import { HOSTILE } from "../data.mjs";
import { test } from "../registry.mjs";
import { eventually } from "../server.mjs";

test("a failed run shows its attempts and its error action as a waterfall, and hostile responses as text", async (tools) => {
  const server = await tools.start();
  const target = createServer((_, response) => response.writeHead(500, { "X-Text": HOSTILE[0], "Content-Type": "text/html" }).end(HOSTILE.join("\n")));
  await new Promise((resolve) => target.listen(0, "127.0.0.1", resolve));
  tools.finally(() => target.close());
  const uri = `http://127.0.0.1:${target.address().port}/`;
  const retryPolicy = { retryType: "Fixed", retryInterval: "PT15S", retryCount: 1 };
  const errorAction = { type: "Http", request: { method: "POST", uri: `${server.echo}/200` } };
  await server.job("fragile", { action: { request: { method: "POST", uri, body: HOSTILE[1] }, retryPolicy, errorAction } });
  await server.api("POST", "/api/collections/demo/jobs/fragile/run");
  const window = await tools.open(server);
  const { page } = window;
  await window.go("jobs/demo/fragile");
  const row = page.locator('[data-live="runs"] [data-row]').first();
  await row.locator("[data-open]").click();
  await page.getByRole("heading", { name: /^Manual run of/ }).waitFor();
  await window.ready();
  // The page is open while the attempts are made.
  await page.locator('[data-live="heading"]', { hasText: /Failed/ }).waitFor({ timeout: 60_000 });
  const chart = page.locator('[data-live="attempts"] svg.chart').first();
  await eventually("three rows", async () => {
    const text = await chart.textContent();
    return /Attempt 1/.test(text) && /Retry 1/.test(text) && /Error action/i.test(text);
  });
  const responses = page.locator('[data-live="responses"] details');
  assert.equal(await responses.count(), 3);
  for (const details of await responses.all()) await details.evaluate((element) => (element.open = true));
  assert.ok((await responses.allInnerTexts()).join("\n").includes(HOSTILE[1]));
  assert.equal(await page.locator("main img, main script, main [onerror], main [onload]").count(), 0);
  assert.ok((await responses.allInnerTexts()).join("\n").includes("500 Internal Server Error from 127.0.0.1"));
  assert.doesNotMatch(await page.title(), /owned/);
  await window.checkAccessibility();
  await page.setViewportSize(PHONE);
  await window.checkWidth();
  const attempts = page.getByRole("region", { name: "Attempts on a time axis" });
  assert.match(await attempts.locator("svg:visible").textContent(), /Attempt 1[^]*Retry 1[^]*Error action/i);
  assert.ok(await attempts.evaluate((element) => element.scrollWidth <= element.clientWidth), "the attempts fit a phone");
});

test("a run shows the request of its own generation after edits, and says that the job was changed", async ({ start, open }) => {
  const server = await start();
  await server.job("report");
  await server.run("report");
  const window = await open(server);
  const { page } = window;
  const changed = page.getByText("The job was changed since");
  const request = page.locator("section", { has: page.getByRole("heading", { name: "Request", exact: true }) });
  const edit = (properties) => server.api("PATCH", "/api/collections/demo/jobs/report", { properties });
  await window.go("jobs/demo/report");
  await page.locator('[data-live="runs"] [data-open]').click();
  await page.getByRole("heading", { name: /^Manual run of/ }).waitFor();
  assert.equal(await changed.count(), 0);
  await edit({ timeout: "PT30S" });
  await page.reload();
  await changed.waitFor();
  assert.match(await changed.innerText(), /to generation 2, but not its action/);
  await edit({ action: { request: { uri: `${server.echo}/201` } } });
  await page.reload();
  await changed.waitFor();
  assert.match(await changed.innerText(), /the request of generation 1, the present one is 3/);
  assert.match(await request.innerText(), /\/200/);
  assert.doesNotMatch(await request.innerText(), /\/201/);
  await window.checkAccessibility();
});

test("a run in flight says for how long it has been running", async (tools) => {
  const server = await tools.start();
  const target = createServer(() => {});
  await new Promise((resolve) => target.listen(0, "127.0.0.1", resolve));
  tools.finally(() => {
    target.close();
    target.closeAllConnections();
  });
  const uri = `http://127.0.0.1:${target.address().port}/`;
  await server.job("slow", { action: { request: { method: "POST", uri } }, timeout: "PT10M" });
  await server.api("POST", "/api/collections/demo/jobs/slow/run");
  const window = await tools.open(server);
  const { page } = window;
  const counts = async (place) => {
    const elapsed = page.locator(place).locator("[data-elapsed]:visible").first();
    const before = await elapsed.textContent();
    assert.match(before, /^\d+ (s|min)/);
    await eventually(`${place} counts`, async () => (await elapsed.textContent()) !== before);
  };
  const row = page.locator('[data-row]', { hasText: "Running" });
  await window.go("runs");
  await row.waitFor();
  assert.equal(await row.locator("td").nth(4).innerText(), "1", "the first attempt");
  await counts("[data-row]");
  await window.go("jobs/demo/slow");
  await row.waitFor();
  assert.equal(await row.locator("td").nth(3).innerText(), "1", "the first attempt");
  await counts("[data-row]");
  await row.locator("[data-open]").click();
  await page.getByRole("heading", { name: /^Manual run of/ }).waitFor();
  assert.match(await page.locator(".headline").innerText(), /^Running\s+for \d+ s/);
  await counts(".headline");
  const chart = page.getByRole("region", { name: "Attempts on a time axis" });
  await counts('[aria-label="Attempts on a time axis"]');
  assert.match(await chart.locator("svg:visible").textContent(), /running for \d+ s[^]*\+10 min[^]*timeout/);
  await window.checkAccessibility();
  await page.setViewportSize(PHONE);
  await window.checkWidth();
});

test("a response that the user opened stays open when the page is updated", async ({ start, open }) => {
  const server = await start();
  await server.job("report");
  await server.run("report");
  const window = await open(server);
  const { page } = window;
  await window.go("jobs/demo/report");
  await page.locator('[data-live="runs"] [data-open]').click();
  await page.getByRole("heading", { name: /^Manual run of/ }).waitFor();
  const response = page.locator('[data-live="responses"] details').first();
  const isOpen = () => response.evaluate((element) => element.open);
  const before = await isOpen();
  await response.locator("summary").click();
  // The run stays as it is: only ages differ.
  await page.waitForResponse((answer) => answer.url() === page.url());
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 300)));
  assert.equal(await isOpen(), !before);
  // Another attempt would replace the region.
  await page.locator('[data-live="responses"]').evaluate((element) => element.append("old"));
  await server.run("report", { runs: 2 });
  await eventually("an update", async () => !(await page.locator('[data-live="responses"]').innerText()).includes("old"));
  assert.equal(await isOpen(), !before);
});
