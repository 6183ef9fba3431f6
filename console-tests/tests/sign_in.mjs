import { strict as assert } from "node:assert";

import { test } from "../registry.mjs";

const ECHO = ["--echo-listen", "127.0.0.1:0", "--egress-allow", "127.0.0.1/32"];

/** A server with authentication, a job, and a token of each role. */
async function secured(create) {
  const server = await create({ options: ECHO });
  const tokens = Object.fromEntries(["owner", "operator", "reader"].map((role) => [role, server.createToken(role)]));
  server.token = tokens.owner;
  await server.resume();
  await server.job("nightly");
  return { server, tokens };
}

async function signIn(window, token, path = "") {
  const { page } = window;
  await page.goto(window.base + path);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: /^Sign in/ }).click();
}

/** The buttons and links of a page that change something. */
async function actions(page) {
  const names = await page.locator("main button, main a.button, .banner button").allInnerTexts();
  return names.map((name) => name.trim()).filter((name) => name && !/^(Jobs|Show|Why|Copy|See|Open|Overview|Filter)/.test(name));
}

test("a user signs in with a token, returns to the page that was asked for, and signs out", async ({ create, open }) => {
  const { server, tokens } = await secured(create);
  const window = await open(server);
  window.expect(/401/);
  const { page } = window;
  await signIn(window, "kal_0123456789abcdef_wrong", "jobs?search=night");
  await page.getByRole("alert").getByText(/./).first().waitFor();
  await window.checkAccessibility();
  await page.getByLabel("Token").fill(tokens.owner);
  await page.getByRole("button", { name: /^Sign in/ }).click();
  await page.waitForURL(/\/jobs\?search=night$/);
  await page.locator("[data-row]", { hasText: "nightly" }).waitFor();
  const stored = await page.evaluate(() => JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }]));
  assert.ok(!stored.includes(tokens.owner.slice(-12)), "no script can read the token");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token").waitFor();
  await page.goto(`${window.base}jobs`);
  await page.getByLabel("Token").waitFor();
});

test("the editor keeps unsaved work when the session has ended, and saves it after a sign-in in another tab", async ({ create, open }) => {
  const { server, tokens } = await secured(create);
  const window = await open(server);
  window.expect(/401/);
  const { page, context } = window;
  await signIn(window, tokens.owner, "jobs/demo/nightly/edit");
  await window.ready();
  const cron = page.getByLabel("Cron expression");
  const message = page.getByText("Your session has ended. Nothing on this page is lost");
  const signInAgain = async () => {
    const [tab] = await Promise.all([context.waitForEvent("page"), page.getByRole("link", { name: "sign in in a new tab" }).click()]);
    await tab.waitForLoadState();
    await tab.getByLabel("Token").fill(tokens.owner);
    await tab.getByRole("button", { name: /^Sign in/ }).click();
    await tab.getByRole("navigation", { name: "Main" }).waitFor();
    await tab.close();
  };
  // The editor has loaded the job.
  await page.locator("[data-preview] .sentence").waitFor();
  await context.clearCookies();
  await cron.fill("45 4 * * *");
  await message.waitFor();
  await window.checkAccessibility();
  // The update of the page by itself does not leave it either.
  const update = page.waitForResponse((response) => /\/sign-in\?to=/.test(response.url()));
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await update;
  await signInAgain();
  await page.bringToFront();
  await page.evaluate(() => globalThis.dispatchEvent(new Event("focus")));
  await message.waitFor({ state: "detached" });
  assert.equal(await cron.inputValue(), "45 4 * * *");
  // The same when the session ends between the preview and the save.
  await context.clearCookies();
  await page.getByRole("button", { name: "Save changes" }).click();
  await message.waitFor();
  assert.match(page.url(), /\/edit$/);
  await signInAgain();
  await page.getByRole("button", { name: "Save changes" }).click();
  await page.waitForURL(/\/jobs\/demo\/nightly$/);
  assert.equal((await server.api("GET", "/api/collections/demo/jobs/nightly")).properties.recurrence.cron, "45 4 * * *");
});

test("roles see only what they may do", async ({ create, open }) => {
  const { server, tokens } = await secured(create);
  const seen = {};
  const keys = {};
  for (const role of ["owner", "operator", "reader"]) {
    const window = await open(server);
    await signIn(window, tokens[role]);
    await window.page.getByRole("navigation", { name: "Main" }).waitFor();
    await window.ready();
    await window.page.keyboard.press("?");
    keys[role] = await window.page.getByRole("dialog", { name: "Keyboard shortcuts" }).locator("kbd").allInnerTexts();
    seen[role] = {};
    for (const path of ["", "jobs", "jobs/demo/nightly", "runs", "collections", "collections/demo", "system"]) {
      await window.go(path);
      seen[role][path] = await actions(window.page);
    }
  }
  assert.deepEqual(Object.values(seen.reader).flat(), []);
  const ofRoles = ["n", "e", "r", "x", "Shift+x"];
  const shown = Object.entries(keys).map(([role, keys]) => [role, ofRoles.filter((key) => keys.includes(key))]);
  assert.deepEqual(Object.fromEntries(shown), { owner: ofRoles, operator: ["r", "x", "Shift+x"], reader: [] });
  assert.ok(seen.owner.jobs.includes("New job"));
  assert.ok(!seen.operator.jobs.includes("New job"));
  assert.ok(seen.operator.collections.includes("Disable…"));
  assert.ok(!seen.operator["jobs/demo/nightly"].some((name) => /^(Edit|Delete)/.test(name)));
  assert.ok(seen.operator["collections/demo"].includes("Disable…"));
});

test("an operator disables a job with a note, everybody sees who did it and why, and the operator enables it", async ({ create, open }) => {
  const { server, tokens } = await secured(create);
  const state = async () => (await server.api("GET", "/api/collections/demo/jobs/nightly")).properties.state;
  const [operator, reader] = [await open(server), await open(server)];
  await signIn(reader, tokens.reader, "jobs/demo/nightly");
  await reader.ready();
  await signIn(operator, tokens.operator, "jobs/demo/nightly");
  const { page } = operator;
  // Buttons work from then on.
  await page.locator('[data-connection][data-state="on"]').waitFor();
  await page.getByRole("button", { name: "Disable…" }).click();
  await page.getByRole("dialog").getByLabel(/Note/).fill("Target moves on Friday");
  await page.getByRole("dialog").getByRole("button", { name: "Disable" }).click();
  await page.locator('[data-live="heading"]', { hasText: "Disabled" }).waitFor();
  assert.equal(await state(), "Disabled");
  for (const window of [operator, reader]) {
    await window.go("jobs/demo/nightly");
    const answer = await window.page.locator('[data-live="answer"]').innerText();
    assert.match(answer, /Target moves on Friday/);
    assert.match(answer, /operator/, "who gave the note");
    await window.go("jobs/demo/nightly?tab=notes");
    assert.match(await window.page.locator("[data-row]").innerText(), /Disabled[^]*Target moves on Friday[^]*operator/);
  }
  await operator.go("system");
  assert.match(await page.locator('[data-live="notes"]').innerText(), /Target moves on Friday\s+Disabled demo\/nightly by operator/);
  await operator.go("jobs/demo/nightly");
  await page.getByRole("button", { name: "Enable…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Enable" }).click();
  await page.locator('[data-live="heading"]', { hasText: "Enabled" }).waitFor();
  assert.equal(await state(), "Enabled");
});
