import assert from "node:assert/strict";
import { test } from "node:test";

import { relative } from "../../assets/time.js";

test("a time of the present second is now, whatever its fraction", () => {
  const second = Date.parse("2026-11-17T20:00:05Z");
  assert.equal(relative(second + 900, second + 950), "now");
  assert.equal(relative(second + 999, second + 1000), "1 s ago");
  assert.equal(relative(second + 60_000, second + 500), "in 1 min");
});
