import { strict as assert } from "node:assert";

import { nextYear } from "../data.mjs";
import { test } from "../registry.mjs";

test("times are in the zone of the browser or in UTC, and the choice is remembered", async ({ start, open }) => {
  const server = await start();
  await server.job("newyear", { startTime: `${nextYear("01-01")}T00:30:00Z`, recurrence: { frequency: "Year", interval: 1 } });
  for (const [zone, name, local] of [["Europe/Berlin", "Berlin", "01:30"], ["America/New_York", "New York", "19:30"], ["Asia/Kolkata", "Kolkata|Calcutta", "06:00"]]) {
    const window = await open(server, { zone, isFirstVisit: true });
    const { page } = window;
    await window.go("jobs");
    const browserZone = page.getByRole("button", { name: new RegExp(`^(${name})$`) });
    await browserZone.waitFor();
    assert.equal(await browserZone.getAttribute("aria-pressed"), "true");
    const title = () => page.locator("[data-row] time").first().getAttribute("title");
    assert.match(await title(), new RegExp(`${local}.*00:30(:00)? UTC`));
    await page.getByRole("button", { name: "UTC", exact: true }).click();
    await page.locator('[data-zone="utc"][aria-pressed="true"]').waitFor();
    assert.match(await title(), /^[^·]*00:30(:00)? UTC$/);
    await window.go("");
    assert.equal(await page.getByRole("button", { name: "UTC", exact: true }).getAttribute("aria-pressed"), "true");
  }
});
