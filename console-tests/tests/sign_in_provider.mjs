import { strict as assert } from "node:assert";

import { IdentityProvider } from "../identity_provider.mjs";
import { test } from "../registry.mjs";

/** A server whose users sign in at a provider of another site, and a window that may go there. */
async function setUp({ start, open, finally: atEnd }) {
  const provider = await IdentityProvider.start();
  atEnd(() => provider.stop());
  const server = await start({ variables: provider.variables });
  await provider.register(server);
  const window = await open(server);
  window.expect(new RegExp(`^request to another origin: ${provider.url}/`));
  return { provider, server, window, page: window.page };
}

const button = (page, name) => page.getByRole("button", { name, exact: true });

async function signInAtProvider(page, user) {
  await page.getByRole("link", { name: "Sign in with your organization" }).click();
  await page.getByLabel("User name").fill(user);
  await button(page, "Continue").click();
  await page.getByRole("heading", { name: "Give consent" }).waitFor();
}

test("a user signs in at the identity provider, returns to the page that was asked for, and signs out", async (tools) => {
  const { provider, server, window, page } = await setUp(tools);
  await page.goto(`${window.base}jobs?search=night`);
  await page.getByLabel("Token").waitFor();
  await window.checkAccessibility();
  await window.checkWidth();
  await signInAtProvider(page, "operator");
  assert.ok(page.url().startsWith(provider.url), page.url());
  await button(page, "Continue").click();
  await page.waitForURL(`${server.url}/jobs?search=night`);
  await window.ready();
  await page.getByText("operator@example.org").first().waitFor();
  // Not by URL: Playwright leaves out the secure cookies of http, which Chromium sends to loopback addresses.
  const own = (await window.context.cookies()).filter(({ name }) => name.startsWith("__Host-"));
  assert.deepEqual(own.map(({ name, httpOnly, secure, sameSite }) => [name, httpOnly, secure, sameSite]), [["__Host-kalends", true, true, "Strict"]]);
  await button(page, "Sign out").click();
  await page.getByLabel("Token").waitFor();
  // The session has ended at the server: its cookie is of no use.
  await window.context.addCookies(own);
  await page.goto(`${window.base}jobs`);
  await page.getByLabel("Token").waitFor();
});

test("a sign-in that the user cancels at the identity provider is explained, and can be repeated", async (tools) => {
  const { server, window, page } = await setUp(tools);
  await page.goto(`${window.base}jobs`);
  await signInAtProvider(page, "reader");
  await button(page, "Cancel").click();
  await page.getByText("You or the identity provider declined the sign-in.").waitFor();
  // The message stays: the page does not try whether the user is signed in already.
  await page.waitForLoadState("networkidle");
  assert.equal(await page.getByRole("alert").first().innerText(), "You or the identity provider declined the sign-in.");
  await window.checkAccessibility();
  await page.getByRole("link", { name: "Sign in with your organization" }).click();
  await button(page, "Continue").click();
  await page.waitForURL(`${server.url}/jobs`);
});

test("a server without a provider has no button for one", async ({ create, open }) => {
  const server = await create();
  server.createToken("owner");
  await server.resume();
  const { page } = await open(server);
  await page.goto(`${server.url}/sign-in`);
  await page.getByLabel("Token").waitFor();
  assert.equal(await page.getByRole("link", { name: /organization/ }).count(), 0);
});
