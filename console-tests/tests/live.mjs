import { strict as assert } from "node:assert";

import { test } from "../registry.mjs";

/** Fails the test if the page is loaded again. */
async function noReload(page) {
  await page.evaluate(() => (globalThis.stillHere = true));
  return () => page.evaluate(() => globalThis.stillHere === true);
}

test("a page shows that the server is away, reconnects by itself and is current again", async ({ start, open }) => {
  const server = await start();
  await server.job("report");
  const window = await open(server);
  window.expect(/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|ERR_NETWORK|net::ERR_FAILED/);
  const { page } = window;
  await window.go("collections/demo");
  const isSame = await noReload(page);
  const state = page.locator("[data-connection]");
  await server.pause();
  await state.and(page.getByText("Reconnecting")).waitFor();
  await server.resume();
  await server.api("POST", "/api/collections/demo/disable");
  await state.and(page.getByText("Live")).waitFor({ timeout: 40_000 });
  await page.locator(".head", { hasText: "Disabled" }).waitFor();
  assert.ok(await isSame());
});
