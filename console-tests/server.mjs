// A server of this build with a temporary store, and requests to its API.

import { execFileSync, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const BINARY = process.env.KALENDS;
const VERSION = "api-version=2026-11-01";

/** Environment without settings of the user's own server. */
function environment(extra) {
  const own = Object.entries(process.env).filter(([name]) => !/^KALENDS|^LD_PRELOAD$/.test(name));
  return { ...Object.fromEntries(own), ...extra };
}

export class Server {
  #process;
  #log = [];
  #exited;

  constructor({ options = [], variables = {}, listen = "127.0.0.1:0" } = {}) {
    this.options = options;
    this.variables = variables;
    /** Command in front of that of the server. */
    this.wrapper = [];
    this.listen = listen;
    this.token = variables.KALENDS_TOKEN;
  }

  /** A server that has not started. */
  static async create(settings) {
    const server = new Server(settings);
    server.folder = await mkdtemp(join(tmpdir(), "kalends-console-"));
    return server;
  }

  static async start(settings) {
    const server = await Server.create(settings);
    await server.resume();
    return server;
  }

  /** Starts the process, at the same address as before if there was one. */
  async resume() {
    const command = [...this.wrapper, BINARY, "serve", "--listen", this.listen, "--store", this.#store(), ...this.options];
    this.#process = spawn(command[0], command.slice(1), { stdio: ["ignore", "ignore", "pipe"], env: environment(this.variables) });
    this.#exited = new Promise((resolve) => this.#process.once("exit", resolve));
    await new Promise((resolve, reject) => {
      this.#process.once("error", reject);
      this.#process.once("exit", (code) => reject(new Error(`the server exited with ${code}:\n${this.#log.join("\n")}`)));
      createInterface({ input: this.#process.stderr }).on("line", (line) => {
        this.#log.push(line);
        this.echo = / starting .* echo="?(http:\/\/[^ "]+)/.exec(line)?.[1] ?? this.echo;
        const url = /listening on (http:\S+)/.exec(line)?.[1];
        if (url) {
          this.url = url.replace(/\/$/, "");
          this.listen = new URL(url).host;
          resolve();
        }
      });
    });
  }

  /** Ends the process; the store stays. */
  async pause(signal = "SIGTERM") {
    if (!this.#process) return;
    if (this.#process.exitCode === null && this.#process.signalCode === null) this.#process.kill(signal);
    await this.#exited;
  }

  async stop() {
    await this.pause("SIGKILL");
    await rm(this.folder, { recursive: true, force: true });
  }

  /** Creates an API token; the first one of a store takes effect at the next start. */
  createToken(role, { scope = "/", name = role } = {}) {
    const options = ["--role", role, "--scope", scope, "--name", name, "--store", this.#store()];
    return execFileSync(BINARY, ["token", "create", ...options], { encoding: "utf8", env: environment({}), stdio: ["ignore", "pipe", "ignore"] }).trim();
  }

  #store() {
    return `sqlite:${this.folder}/kalends.db`;
  }

  /** Sends a request to the API; returns the JSON of the response, and throws unless it is a success. */
  async api(method, path, body, { token = this.token } = {}) {
    const separator = path.includes("?") ? "&" : "?";
    const headers = { ...(token && { Authorization: `Bearer ${token}` }), ...(body && { "Content-Type": "application/json" }) };
    const response = await fetch(`${this.url}${path}${separator}${VERSION}`, { method, headers, body: body && JSON.stringify(body) });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  /** Creates a job. `path`: of the echo target. */
  async job(name, { collection = "demo", path = "/200", action = {}, ...properties } = {}) {
    const request = { method: "GET", uri: `${this.echo}${path}` };
    const definition = { recurrence: { cron: "0 3 * * *" }, ...properties, action: { type: "Http", request, ...action } };
    await this.api("PUT", `/api/collections/${collection}/jobs/${encodeURIComponent(name)}`, { properties: definition });
  }

  /** Runs a job and waits until the run has finished. */
  async run(name, { collection = "demo", runs = 1 } = {}) {
    await this.api("POST", `/api/collections/${collection}/jobs/${encodeURIComponent(name)}/run`);
    await eventually(`${runs} finished runs of ${name}`, async () => (await this.runs(name, { collection })).length >= runs);
  }

  /** The finished occurrences of a job. */
  async runs(name, { collection = "demo" } = {}) {
    const list = await this.api("GET", `/api/collections/${collection}/jobs/${encodeURIComponent(name)}/occurrences`);
    return list.value.filter((run) => run.disposition && run.disposition !== "Claimed");
  }
}

/** Waits until `check` returns something true, and returns that. */
export async function eventually(what, check, seconds = 20) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const result = await check();
    if (result) return result;
    if (Date.now() > end) throw new Error(`not within ${seconds} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
