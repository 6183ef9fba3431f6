import { strict as assert } from "node:assert";
import { createServer } from "node:http";

import { HOSTILE } from "../data.mjs";
import { test } from "../registry.mjs";

const PAGES = ["", "jobs", "runs", "collections", "collections/demo", "system"];

test("hostile texts of jobs and responses are shown as text", async (tools) => {
  const server = await tools.start();
  const target = createServer((_, response) => response.writeHead(500, { "X-Text": HOSTILE[0], "Content-Type": "text/html" }).end(HOSTILE.join("\n")));
  await new Promise((resolve) => target.listen(0, "127.0.0.1", resolve));
  tools.finally(() => target.close());
  for (const [index, text] of HOSTILE.entries()) {
    const request = { method: "POST", uri: `http://127.0.0.1:${target.address().port}/`, headers: { "X-Text": text }, body: text };
    await server.job(`hostile-${index}`, { description: text, tags: { [`t${index}`]: text }, action: { request, retryPolicy: { retryType: "None" } } });
    await server.run(`hostile-${index}`);
    await server.api("POST", `/api/collections/demo/jobs/bulk?note=${encodeURIComponent(text)}`, { action: "Disable", names: [`hostile-${index}`] });
  }
  const window = await tools.open(server);
  // The name of no job: the page shows the message of the API, which quotes it.
  window.expect(/400/);
  const { page } = window;
  const jobs = HOSTILE.flatMap((_, index) => [`jobs/demo/hostile-${index}`, `jobs/demo/hostile-${index}?tab=notes`]);
  for (const path of [...PAGES, ...jobs, ...HOSTILE.map((text) => `jobs?search=${encodeURIComponent(text)}`), `runs?collection=demo&job=${encodeURIComponent(HOSTILE[0])}`]) {
    await window.go(path);
    assert.doesNotMatch(await page.title(), /owned/, path);
    assert.equal(await page.locator("main img, main script, main [onerror], main [onload]").count(), 0, path);
    assert.equal(await page.locator('a[href^="javascript:"]').count(), 0, path);
  }
  await window.go(`jobs?search=${encodeURIComponent(HOSTILE[0])}`);
  assert.equal(await page.getByRole("searchbox", { name: "Search", exact: true }).inputValue(), HOSTILE[0]);
});
