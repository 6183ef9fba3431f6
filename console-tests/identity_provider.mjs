// The OpenID Connect provider of services/, where users sign in.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(new URL("../services/node/identity_provider.mjs", import.meta.url));
const CLIENT = "console";

export class IdentityProvider {
  #process;
  #ports;

  static async start() {
    const provider = new IdentityProvider();
    provider.#process = spawn("node", [SCRIPT, JSON.stringify({ [CLIENT]: null })], { stdio: ["ignore", "pipe", "ignore"] });
    const lines = createInterface({ input: provider.#process.stdout })[Symbol.asyncIterator]();
    provider.#ports = JSON.parse((await lines.next()).value);
    provider.url = `http://localhost:${provider.#ports.port}`;
    return provider;
  }

  /** The settings of a server whose users sign in here. */
  get variables() {
    return { KALENDS_OIDC_ISSUER: this.url, KALENDS_OIDC_CLIENT_ID: CLIENT };
  }

  /** Registers the redirect URI of a server. */
  async register(server) {
    await fetch(`http://127.0.0.1:${this.#ports.control}/`, { method: "POST", body: `${server.url}/sign-in/callback` });
  }

  stop() {
    this.#process.kill();
  }
}
