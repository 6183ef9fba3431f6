import assert from "node:assert/strict";
import { test } from "node:test";

import { durationText, messageParts } from "../../assets/test-run.js";

test("durations have the unit that fits", () => {
  assert.deepEqual(["PT0.000812S", "PT0.25S", "PT1.25S", "PT1M2S"].map(durationText), ["0.8 ms", "250 ms", "1.3 s", "62.0 s"]);
});

test("a message of the history is split into summary, headers and body", () => {
  const message = "Http Action - Response from host 'a': 'OK' Response Headers: Date: x\r\nA: b\r\n Body: {\"a\":[1]}";
  assert.deepEqual(messageParts(message, 200), { summary: "200 OK from a", headers: "Date: x\r\nA: b", body: '{\n  "a": [\n    1\n  ]\n}' });
  assert.equal(messageParts("Http Action - Response from host 'a': 'ServiceUnavailable' Response Headers:  Body: ", 503).summary, "503 Service Unavailable from a");
  assert.equal(messageParts("Http Action - Response from host 'a': '429' Response Headers:  Body: ", 429).summary, "429 from a");
  assert.equal(messageParts("Http Action - Request to host 'a' failed: x").summary, "Request to a failed: x");
  assert.deepEqual(messageParts("The name did not resolve"), { summary: "The name did not resolve", headers: "", body: "" });
});
