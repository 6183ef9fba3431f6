import { strict as assert } from "node:assert";

import { test } from "../registry.mjs";

for (const [key, path] of [["o", "/"], ["s", "/system"]]) {
  test(`g ${key} goes to ${path}`, async ({ start, open }) => {
    const server = await start();
    const window = await open(server);
    await window.go(path === "/" ? "system" : "");
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
  for (const path of ["", "collections/demo", "system"]) {
    await window.go(path);
    const seen = new Set();
    for (let step = 0; step < 80; step += 1) {
      await page.keyboard.press("Tab");
      const focused = await page.evaluate(() => {
        const element = document.activeElement;
        if (element === document.body) return null;
        const style = getComputedStyle(element);
        const hasOutline = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
        const box = element.getBoundingClientRect();
        const bars = [...element.querySelectorAll("rect")].some((rect) => getComputedStyle(rect).fill !== "rgba(0, 0, 0, 0)");
        return { html: element.outerHTML.slice(0, 120), isVisible: (hasOutline || (element.closest("svg") && bars)) && box.width > 0 };
      });
      if (!focused || seen.has(focused.html)) break;
      seen.add(focused.html);
      assert.ok(focused.isVisible, `${path}: ${focused.html}`);
    }
    assert.ok(seen.size > 8, `${path}: Tab reaches ${seen.size} elements`);
  }
});
