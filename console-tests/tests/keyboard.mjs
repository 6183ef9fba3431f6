import { strict as assert } from "node:assert";

import { test } from "../registry.mjs";
import { eventually } from "../server.mjs";

test("the list of jobs is used with the keyboard alone", async ({ start, open }) => {
  const server = await start();
  for (const name of ["alpha", "beta", "gamma"]) await server.job(name);
  const window = await open(server);
  const { page } = window;
  const { keyboard } = page;
  const current = () => page.locator("[data-row].current .name").innerText();
  await window.go("");
  await keyboard.press("g");
  await keyboard.press("j");
  await page.waitForURL(/\/jobs$/);
  await window.ready();
  await keyboard.press("j");
  assert.equal(await current(), "alpha");
  await keyboard.press("j");
  await keyboard.press("j");
  await keyboard.press("k");
  assert.equal(await current(), "beta");
  await keyboard.press("x");
  assert.ok(await page.getByRole("checkbox", { name: "Select beta" }).isChecked());
  await keyboard.press("x");
  await keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await window.checkAccessibility();
  await keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement.name), "search");
  await keyboard.type("gam");
  await keyboard.press("Enter");
  await page.waitForURL(/search=gam/);
  // The list follows the URL as soon as the server has answered.
  const names = () => page.locator("[data-row] .name").allInnerTexts();
  await eventually("a list of gamma alone", async () => (await names()).join() === "gamma");
});

test("Shift selects all rows from the last selected one, by a click and by a key", async ({ start, open }) => {
  const server = await start();
  for (const name of ["a", "b", "c", "d", "e"]) await server.job(name);
  const window = await open(server);
  const { page } = window;
  const box = (name) => page.getByRole("checkbox", { name: `Select ${name}`, exact: true });
  const selected = () => page.locator("[data-row][aria-selected=true] .name").allInnerTexts();
  await window.go("jobs");
  await box("b").click();
  await box("d").click({ modifiers: ["Shift"] });
  assert.deepEqual(await selected(), ["b", "c", "d"]);
  assert.ok(await page.getByRole("button", { name: "Run 3 jobs" }).isVisible());
  await box("c").click({ modifiers: ["Shift"] });
  assert.deepEqual(await selected(), ["b"], "a range is deselected too");
  await box("a").focus();
  await page.keyboard.press("Escape");
  for (const key of ["j", "x", "j", "j", "j", "Shift+X"]) await page.keyboard.press(key);
  assert.deepEqual(await selected(), ["a", "b", "c", "d"]);
});

test("r runs the job of the current row, e edits it, and n begins a new one on every page", async ({ start, open }) => {
  const server = await start();
  for (const name of ["alpha", "beta"]) await server.job(name);
  const window = await open(server);
  const { page } = window;
  await window.go("jobs");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("r");
  const dialog = page.getByRole("dialog", { name: "Run 1 job?" });
  await dialog.getByText("demo/beta.").waitFor();
  assert.equal(await dialog.getByLabel("Note").inputValue(), "");
  await page.keyboard.press("Enter");
  const runs = async (name) => (await server.runs(name)).filter((run) => run.disposition === "Completed").length;
  await eventually("a run", async () => (await runs("beta")) === 1);
  assert.equal(await runs("alpha"), 0);
  await page.keyboard.press("e");
  await page.waitForURL(/\/jobs\/demo\/beta\/edit$/);
  for (const path of ["", "system"]) {
    await window.go(path);
    await page.keyboard.press("n");
    await page.waitForURL(/\/new-job$/);
  }
});

test("arrow keys show the values of a chart", async ({ start, open }) => {
  const server = await start();
  await server.job("often", { recurrence: { cron: "*/5 * * * *" } });
  await server.run("often");
  const window = await open(server);
  const { page } = window;
  const tooltip = page.locator(".tooltip");
  const load = page.getByRole("region", { name: "Expected runs of the coming week" });
  await eventually("the expected runs", async () => {
    await window.go();
    return load.locator("rect:visible").count();
  });
  await load.focus();
  await page.keyboard.press("ArrowRight");
  const first = await tooltip.innerText();
  assert.match(first, /^\w{3} \d\d:00: \d+ runs?( in the rest of this hour)?$/);
  await page.keyboard.press("ArrowDown");
  const below = await tooltip.innerText();
  assert.notEqual(below.slice(0, 3), first.slice(0, 3), "another day");
  await page.keyboard.press("ArrowUp");
  assert.equal(await tooltip.innerText(), first);
  await window.checkAccessibility();
  await page.keyboard.press("Tab");
  await tooltip.waitFor({ state: "detached" });
  const counts = page.getByRole("region", { name: "Runs of the last 24 hours" });
  await counts.locator("a:visible").last().focus();
  assert.match(await tooltip.innerText(), /1 succeeded, 0 failed/);
});

for (const [key, path] of [["o", "/"], ["j", "/jobs"], ["r", "/runs"], ["c", "/collections"], ["s", "/system"]]) {
  test(`g ${key} goes to ${path}`, async ({ start, open }) => {
    const server = await start();
    const window = await open(server);
    await window.go(path === "/jobs" ? "" : "jobs");
    await window.page.keyboard.press("g");
    await window.page.keyboard.press(key);
    await window.page.waitForURL(`${server.url}${path}`);
  });
}

test("the focus is visible on everything that Tab reaches", async ({ start, open }) => {
  const server = await start();
  await server.job("nightly");
  const window = await open(server);
  const { page } = window;
  for (const path of ["", "jobs", "jobs/demo/nightly", "runs", "collections", "collections/demo", "system"]) {
    await window.go(path);
    let reached = 0;
    for (let step = 0; step < 80; step += 1) {
      await page.keyboard.press("Tab");
      const focused = await page.evaluate(() => {
        const element = document.activeElement;
        globalThis.reached ??= new WeakSet();
        if (element === document.body || globalThis.reached.has(element)) return null;
        globalThis.reached.add(element);
        const style = getComputedStyle(element);
        const hasOutline = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
        const box = element.getBoundingClientRect();
        const bars = [...element.querySelectorAll("rect")].some((rect) => getComputedStyle(rect).fill !== "rgba(0, 0, 0, 0)");
        return { html: element.outerHTML.slice(0, 120), isVisible: (hasOutline || (element.closest("svg") && bars)) && box.width > 0 };
      });
      if (!focused) break;
      reached += 1;
      assert.ok(focused.isVisible, `${path}: ${focused.html}`);
    }
    assert.ok(reached > 8, `${path}: Tab reaches ${reached} elements`);
  }
});

test("Enter and Escape leave the search, and keep what was typed", async ({ start, open }) => {
  const server = await start();
  for (const name of ["export", "import", "report"]) await server.job(name);
  const window = await open(server);
  const { page } = window;
  await window.go("jobs");
  const field = page.getByRole("searchbox", { name: "Search", exact: true });
  for (const key of ["Enter", "Escape"]) {
    await page.keyboard.press("/");
    await field.fill("port");
    await eventually("three rows", async () => (await page.locator("[data-row]").count()) === 3);
    await field.fill("report");
    await eventually("one row", async () => (await page.locator("[data-row]").count()) === 1);
    await page.keyboard.press(key);
    await page.keyboard.press("j");
    assert.equal(await field.inputValue(), "report", key);
    assert.equal(await page.locator("[data-row].current .name").innerText(), "report", key);
    assert.equal(new URL(page.url()).searchParams.get("search"), "report", key);
  }
  await page.keyboard.press("Enter");
  await page.waitForURL(`${server.url}/jobs/demo/report`);
});

test("the current row stays the same job when an update puts another job before it", async ({ start, open }) => {
  const server = await start();
  for (const name of ["b", "c"]) await server.job(name);
  const window = await open(server);
  const { page } = window;
  const current = () => page.locator("[data-row].current .name").innerText();
  await window.go("jobs");
  await page.keyboard.press("j");
  assert.equal(await current(), "b");
  await server.job("a");
  await server.run("a");
  await page.locator("[data-row] .name", { hasText: /^a$/ }).waitFor();
  assert.equal(await current(), "b");
});
