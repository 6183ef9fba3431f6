// Headless Chromium. A page that reports an error, breaks its content security policy, requests another
// origin or has an accessibility violation fails its test.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

// Packages are outside this folder, in NODE_PATH, which `import` ignores.
const require = createRequire(import.meta.url);
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const DESKTOP = { width: 1440, height: 900 };
export const PHONE = { width: 390, height: 844 };

export function launch() {
  return chromium.launch({ executablePath: process.env.CHROMIUM });
}

/** A window of a user of its own: cookies and preferences are not shared. */
export class Window {
  /** What went wrong in the pages of this window. */
  problems = [];
  /** Every response: {url, bytes}. */
  responses = [];
  /** Problems that the test expects: those whose text matches. */
  #expected = [];

  static async open(browser, server, { zone = "Europe/Berlin", size = DESKTOP, scheme = "light", base = `${server.url}/`, isFirstVisit = false, ...options } = {}) {
    const window = new Window();
    window.base = base;
    window.context = await browser.newContext({ viewport: size, timezoneId: zone, colorScheme: scheme, locale: "en-GB", isMobile: size === PHONE, hasTouch: size === PHONE, ...options });
    window.context.setDefaultTimeout(15_000);
    // On the first visit, a page tells the server the zone of the browser and reloads itself.
    const path = new URL(base).pathname;
    if (!isFirstVisit) await window.context.addCookies([{ name: "kalends-browser-zone", value: encodeURIComponent(zone), domain: new URL(base).hostname, path }]);
    await window.context.addInitScript(() => {
      addEventListener("securitypolicyviolation", (event) => console.error(`CSP violation: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
    });
    window.page = await window.context.newPage();
    window.#watch(window.page);
    return window;
  }

  #watch(page) {
    const report = (text) => this.problems.push(`${text} (on ${page.url()})`);
    page.on("pageerror", (error) => report(`exception: ${error.stack ?? error}`));
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") report(`console: ${message.text()}`);
    });
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.protocol !== "data:" && url.origin !== new URL(this.base).origin) report(`request to another origin: ${url}`);
    });
    page.on("requestfailed", (request) => {
      // Navigation aborts requests in flight, such as the stream of events.
      if (request.failure()?.errorText !== "net::ERR_ABORTED") report(`failed request: ${request.url()}: ${request.failure()?.errorText}`);
    });
    page.on("response", (response) => {
      if (response.status() >= 400) report(`response ${response.status()}: ${response.url()}`);
    });
  }

  /** Problems whose text matches `pattern` do not fail the test. */
  expect(pattern) {
    this.#expected.push(pattern);
  }

  /** The problems that the test does not expect. */
  unexpected() {
    return this.problems.filter((problem) => !this.#expected.some((pattern) => pattern.test(problem)));
  }

  /** Goes to a page of the console and waits until its scripts have started. */
  async go(path = "") {
    await this.page.goto(this.base + path);
    await this.ready();
  }

  /** Waits until the page receives events. */
  async ready() {
    await this.page.locator('[data-connection][data-state="on"], body:not(:has([data-connection]))').first().waitFor();
  }

  /** Fails if axe-core finds a violation of WCAG 2.2 AA, in light or dark. */
  async checkAccessibility() {
    // A scrolled page has controls that its header covers in part.
    await this.page.evaluate(() => window.scrollTo(0, 0));
    for (const scheme of ["light", "dark"]) {
      await this.page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
      await this.page.evaluate(AXE);
      const violations = await this.page.evaluate(async () => {
        const result = await axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], resultTypes: ["violations"] });
        if (result.passes.length < 10) throw new Error(`axe-core checked ${result.passes.length} rules only`);
        return result.violations.map((violation) => `${violation.id}: ${violation.help}\n${violation.nodes.map((node) => `    ${node.html.slice(0, 200)}\n      ${node.any.concat(node.all, node.none).map((check) => check.message).join("; ")}`).join("\n")}`);
      });
      for (const violation of violations) this.problems.push(`accessibility, ${scheme}, ${this.page.url()}: ${violation}`);
    }
    await this.page.emulateMedia({ colorScheme: null, reducedMotion: null });
  }

  /** Fails if the body scrolls sideways. */
  async checkWidth() {
    const wide = await this.page.evaluate(() => {
      const width = document.documentElement.clientWidth;
      if (document.scrollingElement.scrollWidth <= width) return [];
      const beyond = [...document.querySelectorAll("body *")].filter((element) => element.getBoundingClientRect().right > width + 1 && !element.closest(".scroll, pre, .tabs, .nav, svg"));
      return [`${document.scrollingElement.scrollWidth} px > ${width} px`, ...beyond.slice(0, 5).map((element) => element.outerHTML.slice(0, 160))];
    });
    if (wide.length) this.problems.push(`scrolls sideways, ${this.page.url()}: ${wide.join("\n    ")}`);
  }
}
