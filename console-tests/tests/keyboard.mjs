import { strict as assert } from "node:assert";

import { test } from "../registry.mjs";

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
  await window.ready();
  assert.deepEqual(await page.locator("[data-row] .name").allInnerTexts(), ["gamma"]);
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
