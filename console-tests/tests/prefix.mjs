import { strict as assert } from "node:assert";
import { createServer, request } from "node:http";

import { test } from "../registry.mjs";
import { eventually } from "../server.mjs";

/** A reverse proxy that serves a server below a path prefix. */
async function proxy(server, prefix) {
  const upstream = new URL(server.url);
  const listener = createServer((incoming, outgoing) => {
    if (!incoming.url.startsWith(`${prefix}/`)) return outgoing.writeHead(404).end();
    const forwarded = request({ host: upstream.hostname, port: upstream.port, method: incoming.method, path: incoming.url.slice(prefix.length), headers: incoming.headers }, (response) => {
      outgoing.writeHead(response.statusCode, response.headers);
      response.pipe(outgoing);
    });
    forwarded.on("error", () => outgoing.destroy());
    outgoing.on("close", () => forwarded.destroy());
    incoming.pipe(forwarded);
  });
  await new Promise((resolve) => listener.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${listener.address().port}${prefix}/`, stop: () => (listener.closeAllConnections(), listener.close()) };
}

test("the console works behind a path prefix", async (tools) => {
  const server = await tools.start();
  await server.job("nightly");
  const front = await proxy(server, "/tools/kalends");
  tools.finally(front.stop);
  const window = await tools.open(server, { base: front.url });
  const { page } = window;
  await window.go();
  for (const name of ["Jobs", "Runs", "Collections", "System", "Overview"]) {
    await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name }).click();
    await page.waitForURL(front.url + (name === "Overview" ? "" : name.toLowerCase()));
    await window.ready();
    assert.ok(await page.evaluate(() => document.styleSheets[0].cssRules.length > 50), "the style sheet");
  }
  await page.keyboard.press("g");
  await page.keyboard.press("c");
  await page.waitForURL(`${front.url}collections`);
  await window.ready();
  await page.getByRole("link", { name: "demo" }).click();
  await page.waitForURL(`${front.url}collections/demo`);
  await window.go("jobs");
  await page.getByRole("checkbox", { name: "Select nightly" }).check();
  await page.getByRole("button", { name: "Disable 1 job" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Disable 1 job" }).click();
  await eventually("the job is disabled", async () => (await server.api("GET", "/api/collections/demo/jobs/nightly")).properties.state === "Disabled");
});
