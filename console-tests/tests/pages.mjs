import { strict as assert } from "node:assert";

import { test } from "../registry.mjs";
import { DESKTOP, PHONE } from "../browser.mjs";
import { each } from "../data.mjs";
import { eventually } from "../server.mjs";

const PAGES = ["", "jobs", "jobs?search=absent", "runs", "collections", "collections/demo", "system"];

/** A store with a job of every kind that pages show. */
async function populated(start) {
  const server = await start();
  await server.job("succeeds", { description: "Succeeds", tags: { team: "billing" } });
  await server.job("fails", { path: "/500", action: { retryPolicy: { retryType: "None" } } });
  await server.job("off", { state: "Disabled" });
  await server.job(`long_${"x".repeat(95)}`);
  await server.run("succeeds");
  await server.run("fails");
  return server;
}

test("every page is accessible, in light and dark, on a desktop and on a phone, and fits the width of a phone", async ({ start, open }) => {
  const server = await populated(start);
  for (const size of [DESKTOP, PHONE]) {
    const window = await open(server, { size });
    for (const path of PAGES) {
      await window.go(path);
      await window.checkAccessibility();
      await window.checkWidth();
    }
  }
});

test("names in tables can be read at every width, and no table is wider than its card", async ({ start, open }) => {
  const server = await start();
  const name = "synchronise-customer-addresses-from-the-warehouse";
  await server.job(name, { collection: "customer-relations", recurrence: { cron: "*/10 7-20 * * Mon-Fri", timeZone: "America/New_York" }, tags: { team: "customer-relations" } });
  await server.job("fails", { path: "/500", action: { retryPolicy: { retryType: "None" } } });
  await server.run(name, { collection: "customer-relations" });
  await server.run("fails");
  const window = await open(server);
  const { page } = window;
  await eventually("both collections", async () => {
    await window.go("collections");
    return (await page.locator("[data-row]").count()) === 2;
  });
  const job = `jobs/customer-relations/${name}`;
  for (const width of [390, 660, 768, 1024, 1280]) {
    await page.setViewportSize({ width, height: 900 });
    for (const path of ["jobs", "runs", "runs?collection=demo&job=fails", "collections", "collections/customer-relations", job, `${job}?tab=ledger`, "jobs/demo/fails?tab=runs", "system"]) {
      await window.go(path);
      await window.checkWidth();
      const narrow = await page.locator(".lead .name").evaluateAll((names) => names.filter((name) => name.textContent.length > 12 && name.getBoundingClientRect().width < 80).map((name) => name.outerHTML));
      assert.deepEqual(narrow, [], `${path} at ${width}`);
      const wide = await page.locator(".card .table").evaluateAll((tables) => tables.filter((table) => table.getBoundingClientRect().right > table.closest(".card").getBoundingClientRect().right).length);
      assert.equal(wide, 0, `${path} at ${width}`);
      const search = await page.getByRole("searchbox").first().boundingBox();
      assert.ok(search.width >= 120, `search on ${path} at ${width}: ${search.width} px`);
    }
  }
  // The rows of a table are selected in cards too, except on a phone.
  await page.setViewportSize({ width: 768, height: 900 });
  await window.go("jobs");
  await page.getByRole("checkbox", { name: "Select all jobs on this page" }).check();
  await page.getByRole("button", { name: "Disable 2 jobs" }).waitFor();
  await window.checkAccessibility();
});

test("the charts of the overview fit a phone, with a scale and the same numbers as on a desktop", async ({ start, open }) => {
  const server = await populated(start);
  await server.job("often", { recurrence: { cron: "*/5 * * * *" } });
  const window = await open(server);
  const { page } = window;
  const charts = ["Runs of the last 24 hours", "Runs of the next hour", "Expected runs of the coming week"].map((name) => page.getByRole("region", { name }));
  await eventually("the expected runs", async () => {
    await window.go();
    return charts[1].locator("[data-name] rect").count();
  });
  for (const size of [DESKTOP, PHONE]) {
    await page.setViewportSize(size);
    for (const chart of charts) {
      assert.ok(await chart.evaluate((element) => element.scrollWidth <= element.clientWidth), "it fits");
      assert.equal(await chart.locator(".chart:visible").count(), 1);
      const summaries = await chart.evaluate((element) => [...element.querySelectorAll(".chart")].map((svg) => svg.getAttribute("aria-label")));
      assert.equal(new Set(summaries).size, 1, summaries.join());
    }
    const scale = (await charts[0].locator(".chart:visible text[text-anchor=end]").allTextContents()).map(Number);
    assert.ok(scale[0] === 0 && scale.at(-1) > 0, scale.join());
  }
});

test("the page of a collection lists its jobs and leads to all of them", async ({ start, open }) => {
  const server = await start();
  for (let number = 1; number <= 21; number += 1) await server.job(`job-${number}`);
  await server.job("other", { collection: "other" });
  const window = await open(server);
  const { page } = window;
  await window.go("collections/other");
  assert.deepEqual(await page.locator("[data-row] .name").allInnerTexts(), ["other"]);
  await window.go("collections/demo");
  assert.equal(await page.locator("[data-row]").count(), 20);
  await page.getByRole("link", { name: "Show all jobs" }).click();
  await page.waitForURL(/\/jobs\?collection=demo$/);
  assert.equal(await page.locator("[data-row]").count(), 21);
});

test("a page that does not exist says so and leads back", async ({ start, open }) => {
  const server = await start();
  const window = await open(server);
  window.expect(/404/);
  await window.go("jobs/demo/absent");
  await window.checkAccessibility();
  await window.page.getByRole("link", { name: "Overview" }).last().click();
  await window.page.waitForURL(`${server.url}/`);
});

/** Bytes and URLs of everything that the overview loads. */
async function loadOverview(window) {
  const session = await window.context.newCDPSession(window.page);
  await session.send("Network.enable");
  const loaded = { bytes: 0, urls: [] };
  session.on("Network.responseReceived", ({ response }) => loaded.urls.push(response.url));
  session.on("Network.loadingFinished", ({ encodedDataLength }) => (loaded.bytes += encodedDataLength));
  await window.go();
  return loaded;
}

test("the first page has at most 150 kB and all of it from this server", async ({ start, open }) => {
  const server = await populated(start);
  const window = await open(server);
  const { bytes, urls } = await loadOverview(window);
  assert.ok(urls.length >= 5, `page, style and scripts: ${urls}`);
  assert.ok(bytes > 10_000 && bytes <= 150_000, `${bytes} bytes: ${urls.join(", ")}`);
  assert.deepEqual(urls.filter((url) => !url.startsWith(`${server.url}/`)), []);
});

test("the first page has at most 150 kB also with every-minute jobs in ten collections", async ({ start, open }) => {
  const server = await start();
  await server.api("POST", "/api/pause", { reason: "Only their schedules matter" });
  const collections = Array.from({ length: 10 }, (_, index) => `collection-with-a-long-name-${index}`);
  const schedules = ["* * * * *", "* * * * *", "*/2 * * * *", "*/3 * * * *", "*/7 * * * *", "0 2 * * *"];
  await each(collections.flatMap((collection) => schedules.map((cron, index) => ({ collection, cron, index }))), ({ collection, cron, index }) => server.job(`job-${index}`, { collection, recurrence: { cron } }));
  await server.api("POST", "/api/resume");
  const window = await open(server);
  const lanes = window.page.getByRole("region", { name: "Runs of the next hour" }).locator("[data-name]");
  await eventually("the expected runs", async () => {
    await window.go();
    return (await lanes.count()) === 8;
  });
  const { bytes, urls } = await loadOverview(await open(server));
  assert.ok(bytes > 10_000 && bytes <= 150_000, `${bytes} bytes: ${urls.join(", ")}`);
  const page = await (await fetch(`${server.url}/`)).text();
  assert.ok(page.length <= 60_000, `the page alone has ${page.length} bytes`);
});

test("the theme follows the system until the user chooses, and is remembered", async ({ start, open }) => {
  const server = await start();
  const window = await open(server, { scheme: "dark" });
  await window.go("system");
  const { page } = window;
  const background = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const dark = await background();
  await page.emulateMedia({ colorScheme: "light" });
  const light = await background();
  assert.notEqual(light, dark);
  const theme = page.getByRole("button", { name: "Theme:" });
  assert.equal(await theme.textContent(), "Theme: system");
  await theme.click();
  assert.equal(await background(), dark);
  await window.go("");
  assert.equal(await background(), dark, "remembered");
  assert.equal(await theme.textContent(), "Theme: dark");
  await theme.click();
  assert.equal(await theme.textContent(), "Theme: light");
  await theme.click();
  await window.go("");
  assert.equal(await theme.textContent(), "Theme: system");
  await page.emulateMedia({ colorScheme: "dark" });
  assert.equal(await background(), dark, "that of the system again");
});

test("a collection is disabled with a note, which its page and those of its jobs show", async ({ start, open }) => {
  const server = await start();
  await server.job("nightly");
  const window = await open(server);
  const { page } = window;
  await window.go("collections/demo");
  await page.getByRole("button", { name: "Disable…" }).click();
  await page.getByRole("dialog").getByLabel(/Note/).fill("Quarter close");
  await page.getByRole("dialog").getByRole("button", { name: "Disable demo" }).click();
  await page.locator('[data-live="head"]', { hasText: "Quarter close" }).waitFor();
  await window.go("jobs/demo/nightly");
  assert.match(await page.locator('[data-live="answer"]').innerText(), /its collection is disabled[^]*Quarter close/);
  await window.go("collections/demo");
  await page.getByRole("button", { name: "Enable…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Enable demo" }).click();
  await page.locator('[data-live="head"]', { hasText: "Enabled" }).waitFor();
  assert.doesNotMatch(await page.locator('[data-live="head"]').innerText(), /Quarter close/);
});

/** A name of 100 characters. */
const LONG = (letter) => `${letter.repeat(50)}_${"long-".repeat(9)}${letter.repeat(4)}`;

test("names of 100 characters leave room for each other, and for the zone of the job", async ({ start, open }) => {
  const server = await start();
  const [collection, name] = [LONG("c"), LONG("j")];
  await server.job(name, { collection, recurrence: { cron: "0 3 * * *", timeZone: "America/Argentina/ComodRivadavia" } });
  await server.job("short");
  const window = await open(server);
  const { page } = window;
  const width = (selector) => page.locator(selector).first().evaluate((element) => element.getBoundingClientRect().width);
  await window.go("jobs");
  assert.ok((await width("[data-row] .lead .name")) > 120, "the name of the job is seen");
  assert.ok((await width("[data-filter] select")) <= 240);
  const short = page.locator("[data-row]", { hasText: "short" }).locator(".lead .faint");
  assert.ok(await short.evaluate((element) => element.scrollWidth <= element.clientWidth), "a short collection is not cut");
  for (const size of [{ width: 1024, height: 768 }, PHONE]) {
    await page.setViewportSize(size);
    for (const path of ["jobs", "runs", "collections", `jobs/${collection}/${name}`, `jobs/${collection}/${name}/edit`]) {
      await window.go(path);
      await window.checkWidth();
    }
    const zones = page.locator("[data-zones]");
    assert.ok(await zones.evaluate((element) => element.scrollWidth <= element.clientWidth && element.getBoundingClientRect().right <= innerWidth), "the switch is seen in full");
  }
});

test("tables use the width of the window, other content has lines that can be read", async ({ start, open }) => {
  const server = await populated(start);
  const window = await open(server, { size: { width: 1920, height: 1080 } });
  const width = () => window.page.locator("main").evaluate((element) => element.getBoundingClientRect().width);
  for (const [path, expected] of [["", 1280], ["jobs", 1600], ["runs", 1600], ["jobs/demo/succeeds", 1600], ["jobs/demo/succeeds?tab=definition", 1600], ["system", 1280]]) {
    await window.go(path);
    assert.equal(await width(), expected, path);
  }
});

test("the numbers of the overview lead to what they count, and its list to all of its entries", async ({ start, open }) => {
  const server = await start();
  const names = Array.from({ length: 10 }, (_, index) => `failing-${index}`);
  for (const name of names) await server.job(name, { path: "/500", action: { retryPolicy: { retryType: "None" } }, recurrence: { cron: "*/10 * * * *" } });
  for (let runs = 1; runs <= 3; runs += 1) await Promise.all(names.map((name) => server.run(name, { runs })));
  const window = await open(server);
  const { page } = window;
  await eventually("ten entries", async () => {
    await window.go();
    return page.getByRole("link", { name: "Show 2 more" }).count();
  });
  assert.equal(await page.locator(".attention li").count(), 8);
  await page.getByRole("link", { name: "Show 2 more" }).click();
  await page.waitForURL(/attention=all/);
  assert.equal(await page.locator(".attention li").count(), 10);
  await page.locator(".figure", { hasText: "due in the next hour" }).click();
  await page.waitForURL(/#next-hour$/);
  await page.locator(".figure", { hasText: "failed in 24 hours" }).click();
  await page.waitForURL(/\/runs\?status=Failed&from=/);
  assert.equal(await page.locator("[data-row]").count(), 30);
  assert.match(await page.locator(".head").innerText(), /from \w{3} \d{4}-\d\d-\d\d/);
});

test("the overview leads to the last failed run of a job itself", async ({ start, open }) => {
  const server = await start();
  await server.job("failing", { path: "/500", action: { retryPolicy: { retryType: "None" } } });
  for (let runs = 1; runs <= 3; runs += 1) await server.run("failing", { runs });
  const window = await open(server);
  const { page } = window;
  const link = page.getByRole("link", { name: "See the last failure" });
  await eventually("the entry", async () => {
    await window.go();
    return link.count();
  });
  await link.click();
  await page.getByRole("heading", { name: /^Manual run of/ }).waitFor();
  assert.match(await page.locator('[data-live="heading"]').innerText(), /Failed/);
  assert.match(await page.locator("main").innerText(), /x-ms-scheduler-region: \S+\n[^]*x-ms-client-request-id: \[new in each attempt\]/);
});

test("runs are limited to a collection, a job and a time span by fields, and the URL keeps them", async ({ start, open }) => {
  const server = await start();
  for (const collection of ["billing", "demo"]) {
    await server.job("export", { collection });
    await server.run("export", { collection });
  }
  for (const size of [DESKTOP, PHONE]) {
    const window = await open(server, { size });
    const { page } = window;
    const names = async () => (await page.locator("[data-row] .lead").allTextContents()).map((text) => text.trim());
    await eventually("both collections", async () => {
      await window.go("runs");
      return (await page.getByLabel("Collection").locator("option").count()) === 3;
    });
    assert.equal((await names()).length, 2);
    await page.getByLabel("Collection").selectOption("billing");
    await page.getByRole("button", { name: "Filter" }).click();
    await page.waitForURL(/collection=billing/);
    assert.deepEqual(await names(), ["billing/export"]);
    await window.checkWidth();
    // An hour from now, as the clock in Berlin shows it.
    const hour = new Date(Date.now() + 3_600_000).toLocaleString("sv-SE", { timeZone: "Europe/Berlin" }).replace(" ", "T");
    await page.getByLabel("to", { exact: true }).fill(hour);
    await page.getByRole("button", { name: "Filter" }).click();
    await page.waitForURL(/to=2/);
    assert.deepEqual(await names(), ["billing/export"]);
    assert.equal(await page.getByLabel("to", { exact: true }).inputValue(), hour);
    await page.getByLabel("From").fill(hour);
    await page.getByRole("button", { name: "Filter" }).click();
    await page.waitForURL(/from=2/);
    assert.deepEqual(await names(), []);
    await page.getByRole("link", { name: "Show all" }).click();
    await page.waitForURL(/\/runs$/);
    assert.equal((await names()).length, 2);
  }
});

test("the list of collections shows plans and tags", async ({ start, open }) => {
  const server = await start();
  await server.job("export", { collection: "billing" });
  await server.api("PATCH", "/api/collections/billing", { tags: { team: "finance" } });
  const window = await open(server, { size: PHONE });
  const { page } = window;
  await eventually("the collection", async () => {
    await window.go("collections");
    return page.locator("[data-row]").count();
  });
  const row = await page.locator("[data-row]").innerText();
  assert.match(row, /\w+ · team=finance/);
  assert.match(row, /\b1 job\b/);
  await window.checkWidth();
});

test("lists of runs show by what they are sorted, also on a phone", async ({ start, open }) => {
  const server = await start();
  await server.job("slow", { path: "/200?delay=PT2S" });
  await server.job("quick");
  // Scheduled first, finished last.
  await server.api("POST", "/api/collections/demo/jobs/slow/run");
  await server.run("quick");
  await server.run("slow", { runs: 2 });
  for (const size of [DESKTOP, PHONE]) {
    const window = await open(server, { size });
    const { page } = window;
    await window.go("runs");
    assert.deepEqual((await page.locator("[data-row] .name").allInnerTexts()).slice(0, 1), ["slow"]);
    assert.ok(await page.locator("[data-row] td", { hasText: /(ago|now)$/ }).first().isVisible(), "the time that the list is sorted by");
    if (size === DESKTOP) assert.equal(await page.locator("th[aria-sort=descending]").textContent(), "Finished");
    await window.go("runs?collection=demo&job=slow");
    assert.equal(await page.locator("th[aria-sort=descending]").textContent(), "Scheduled");
  }
});

test("plan, quota and tags of a collection are changed, with the errors of the API beside their fields", async ({ create, open }) => {
  const server = await create({ options: ["--echo-listen", "127.0.0.1:0"] });
  server.token = server.createToken("owner");
  const reader = server.createToken("operator", { name: "operator" });
  await server.resume();
  for (const name of ["one", "two"]) await server.job(name, { collection: "billing" });
  await server.api("PATCH", "/api/collections/billing", { tags: { team: "finance", old: "yes" } });
  const signedIn = async (token, size) => {
    const window = await open(server, { size });
    window.expect(/401|400|409/);
    await window.page.goto(`${window.base}collections/billing`);
    await window.page.getByLabel("Token").fill(token);
    await window.page.getByRole("button", { name: /^Sign in/ }).click();
    await window.page.getByRole("heading", { name: "billing", exact: true }).waitFor();
    await window.ready();
    return window;
  };
  const window = await signedIn(server.token, DESKTOP);
  const { page } = window;
  const edit = page.getByRole("button", { name: "Edit…" });
  await edit.click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Jobs at most").fill("1");
  await window.checkAccessibility();
  const save = dialog.getByRole("button", { name: "Save changes" });
  await save.click();
  await dialog.locator('[data-path="quota.maxJobCount"] .error', { hasText: "Must be at least 2, the number of its jobs" }).waitFor();
  await window.checkAccessibility();
  await dialog.getByLabel("Jobs at most").fill("many");
  await save.click();
  await dialog.locator('[data-path="quota.maxJobCount"] .error', { hasText: 'found "many"' }).waitFor();
  await dialog.getByLabel("Jobs at most").fill("20");
  await dialog.getByLabel("A job at most once every").fill("5");
  await dialog.getByLabel("Plan").selectOption("P10Premium");
  await dialog.getByLabel("Tags").fill("team=billing\ncost centre=42");
  await save.click();
  await page.getByText("Saved billing").waitFor();
  const collection = await server.api("GET", "/api/collections/billing");
  assert.deepEqual(collection.tags, { team: "billing", "cost centre": "42" });
  assert.equal(collection.properties.sku.name, "P10Premium");
  assert.deepEqual(collection.properties.quota, { maxJobCount: 20, maxRecurrence: { frequency: "Minute", interval: 5 } });
  await page.locator('[data-live="facts"]', { hasText: "a job at most once every 5 minutes" }).waitFor();
  // An empty field removes its part of the quota.
  await edit.click();
  assert.equal(await dialog.getByLabel("Jobs at most").inputValue(), "20");
  await dialog.getByLabel("A job at most once every").fill("");
  await save.click();
  await eventually("the quota", async () => !("maxRecurrence" in (await server.api("GET", "/api/collections/billing")).properties.quota));
  const phone = await signedIn(reader, PHONE);
  assert.equal(await phone.page.getByRole("button", { name: "Edit…" }).count(), 0);
});

test("values of charts appear with the pointer at once, and with a tap", async ({ start, open }) => {
  const server = await start();
  await server.job("often", { recurrence: { cron: "*/5 * * * *" } });
  await server.run("often");
  const regions = (page) => ["Expected runs of the coming week", "Runs of the last 24 hours"].map((name) => page.getByRole("region", { name }));
  const window = await open(server);
  const { page } = window;
  await eventually("the expected runs", async () => {
    await window.go();
    return page.getByRole("region", { name: "Expected runs of the coming week" }).locator(".cells rect").count();
  });
  const tooltip = page.locator(".tooltip");
  const cell = regions(page)[0].locator(".cells rect").nth(40);
  const value = await cell.locator("title").textContent();
  await cell.hover();
  assert.equal(await tooltip.textContent(), value);
  assert.equal(await page.locator(".pointed > title").count(), 0, "no second tooltip of the browser");
  await page.mouse.move(0, 0);
  await tooltip.waitFor({ state: "detached" });
  assert.equal(await cell.locator("title").textContent(), value);
  const phone = await open(server, { size: PHONE });
  await phone.go();
  const small = regions(phone.page);
  await small[0].locator(".cells rect").nth(40).tap();
  assert.equal(await phone.page.locator(".tooltip").textContent(), value);
  // The first tap on a link shows its value, the second one follows it.
  const bar = small[1].locator(".bars a:has(rect + rect)").last();
  const runs = await bar.locator("title").textContent();
  await bar.tap();
  assert.equal(await phone.page.locator(".tooltip").textContent(), runs);
  assert.equal(new URL(phone.page.url()).pathname, "/");
  await bar.tap();
  await phone.page.waitForURL(/\/runs\?from=/);
});

test("older runs lead back to the newest ones, and runs of one job are found by its collection and name", async ({ start, open }) => {
  const server = await start();
  await server.job("often");
  const numbers = Array.from({ length: 60 }, (_, index) => index + 1);
  for (const _ of numbers) await server.api("POST", "/api/collections/demo/jobs/often/run");
  await eventually("all runs", async () => (await server.api("GET", "/api/runs?status=Succeeded&limit=100")).value.length >= 60);
  const window = await open(server);
  const { page } = window;
  await eventually("the collection", async () => {
    await window.go("runs");
    return (await page.getByLabel("Collection").locator("option").count()) === 2;
  });
  const first = await page.locator("[data-row] [data-open]").first().getAttribute("href");
  assert.equal(await page.getByRole("link", { name: "Newest runs" }).count(), 0);
  await page.getByRole("link", { name: "Older runs" }).click();
  await page.waitForURL(/\/runs\?cursor=/);
  await page.getByRole("link", { name: "Newest runs" }).click();
  await page.waitForURL(/\/runs$/);
  assert.equal(await page.locator("[data-row] [data-open]").first().getAttribute("href"), first);
  const job = page.getByRole("textbox", { name: "Job", exact: true });
  assert.ok(await job.isDisabled());
  assert.equal(await job.getAttribute("placeholder"), "Job of a collection");
  await page.getByLabel("Collection").selectOption("demo");
  await job.fill("often");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.waitForURL(/collection=demo&job=often/);
  await page.getByRole("link", { name: "Older runs" }).click();
  await page.waitForURL(/cursor=/);
  assert.equal(new URL(page.url()).searchParams.get("job"), "often");
});
