// An OpenID Connect provider where users sign in: the certified package oidc-provider.
//
//   node identity_provider.mjs CLIENTS
//
// CLIENTS is JSON: {"client": "secret"}, or null for a public client. Every user name is accepted, with
// the roles that it consists of: "reader" has the role Kalends.Reader, "nobody" has none. The first line
// of output contains its ports. POST to the control port registers the redirect URI in its body for all
// clients. The issuer is http://localhost:PORT, another site than 127.0.0.1.

import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// Packages are in NODE_PATH, which `import` ignores.
const require = createRequire(import.meta.url);
const { default: Provider } = await import(pathToFileURL(require.resolve("oidc-provider")));

const ROLES = { reader: "Kalends.Reader", operator: "Kalends.Operator", contributor: "Kalends.Contributor", owner: "Kalends.Owner" };
const clients = Object.entries(JSON.parse(process.argv[2])).map(([id, secret]) => ({
  client_id: id,
  ...(secret === null ? { token_endpoint_auth_method: "none" } : { client_secret: secret }),
  redirect_uris: ["http://127.0.0.1/sign-in/callback"],
  grant_types: ["authorization_code"],
  response_types: ["code"],
}));
const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });

const server = createServer((request, response) => handle(request, response));
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const issuer = `http://localhost:${server.address().port}`;

const provider = new Provider(issuer, {
  clients,
  jwks: { keys: [{ ...privateKey.export({ format: "jwk" }), kid: "key", use: "sig", alg: "RS256" }] },
  cookies: { keys: ["a key of this test"] },
  pkce: { required: () => true },
  claims: { openid: ["sub"], profile: ["preferred_username", "roles"], email: ["email"] },
  // Claims of scopes are in the ID token, as those of Azure AD are.
  conformIdTokenClaims: false,
  findAccount: (_, name) => ({
    accountId: name,
    claims: () => ({ sub: name, preferred_username: `${name}@example.org`, roles: ROLES[name] ? [ROLES[name]] : [] }),
  }),
  features: { devInteractions: { enabled: false } },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
});

// The package compares a redirect URI with those of its client, character by character; so does this.
const registered = new Set();
provider.Client.prototype.redirectUriAllowed = (uri) => registered.has(uri);

const page = (title, content) => `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>${title}</title><link rel="icon" href="data:,"></head><body><main><h1>${title}</h1><form method="post">${content}<button name="answer" value="continue">Continue</button> <button name="answer" value="cancel">Cancel</button></form></main></body></html>`;

async function interact(request, response) {
  const { prompt, params, session } = await provider.interactionDetails(request, response);
  if (request.method !== "POST") {
    response.setHeader("Content-Type", "text/html");
    const content = prompt.name === "login" ? '<label>User name <input name="user"></label>' : "<p>Kalends asks for your name and roles.</p>";
    return response.end(page(prompt.name === "login" ? "Sign in at the test provider" : "Give consent", content));
  }
  const form = new URLSearchParams(await body(request));
  if (form.get("answer") !== "continue") {
    const refusal = { error: "access_denied", error_description: "<b>The user refused</b>" };
    return provider.interactionFinished(request, response, refusal);
  }
  if (prompt.name === "login") return provider.interactionFinished(request, response, { login: { accountId: form.get("user") } });
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope(params.scope);
  return provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } });
}

async function body(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString();
}

const rest = provider.callback();
function handle(request, response) {
  if (!request.url.startsWith("/interaction/")) return rest(request, response);
  return interact(request, response).catch((error) => {
    response.statusCode = 500;
    response.end(String(error));
  });
}

const control = createServer(async (request, response) => {
  registered.add(await body(request));
  response.end("{}");
});
control.listen(0, "127.0.0.1", () => console.log(JSON.stringify({ port: server.address().port, control: control.address().port })));
