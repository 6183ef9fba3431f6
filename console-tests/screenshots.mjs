// Pictures of every screen with the jobs of an invented company and a day of history: all of them in
// target/console-tests/screenshots, those that the documentation shows also in docs/images.
//   screenshots.mjs [STORE-FOLDER]    uses a store that an earlier run kept, instead of a new one

import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { DESKTOP, launch, PHONE, Window } from "./browser.mjs";
import { createJobs, HOSTS, startTarget } from "./company.mjs";
import { commandWithHosts, serverWithHistory } from "./history.mjs";
import { Server } from "./server.mjs";

const HOURS = 26;
const PAUSE = { hoursAgo: 19, minutes: 30, reason: "Failover of the database" };
/** Jobs that are running in the pictures. */
const RUNNING = [["data-platform", "warehouse-load"], ["payments", "payout-merchants"]];
const OUTPUT = join(process.env.KALENDS_TEST_OUTPUT, "../screenshots");
const DOCS = new URL("../docs/images/", import.meta.url).pathname;
/** Largest picture of the documentation. */
const BYTES_MAX = 150_000;
/** Heights at which longer pages are cut. */
const HEIGHTS_MAX = { desktop: 1040, phone: 4000 };
const ZONE = "Europe/Berlin";

/** Path of each screen; a function receives the server. */
const SCREENS = {
  overview: "",
  jobs: "jobs",
  "jobs-failing": "jobs?state=Failing",
  job: "jobs/crm-sync/geo-coding",
  "job-nightly": "jobs/data-platform/warehouse-load",
  run: async (server) => {
    const runs = await server.api("GET", "/api/runs?status=Failed&collection=crm-sync&job=geo-coding&limit=1");
    return `jobs/crm-sync/geo-coding/runs/${encodeURIComponent(runs.value[0].scheduledTime)}`;
  },
  editor: "jobs/billing/invoice-export/edit",
  "new-job": "new-job",
  runs: "runs",
  collections: "collections",
  collection: "collections/billing",
  system: "system",
};
/** Pictures of the documentation: name there, and here. */
const DOCUMENTED = {
  "console-overview": "overview-light-desktop",
  "console-jobs-dark": "jobs-dark-desktop",
  "console-job": "job-light-desktop",
  "console-run": "run-light-desktop",
  "console-editor": "editor-light-desktop",
  "console-phone": "overview-light-phone",
};

/** Inter, where the system has no interface font of its own. */
function useInterfaceFont() {
  const file = join(tmpdir(), "kalends-fonts.conf");
  const alias = (name, font) => `<match target="pattern"><test name="family"><string>${name}</string></test><edit name="family" mode="prepend" binding="strong"><string>${font}</string></edit></match>`;
  writeFileSync(file, `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><include ignore_missing="yes">/etc/fonts/fonts.conf</include>${alias("system-ui", "Inter")}${alias("sans-serif", "Inter")}</fontconfig>`);
  process.env.FONTCONFIG_FILE = file;
}

async function prepare() {
  const kept = process.argv[2];
  // The jobs of a kept store call the address that their target had.
  const target = await startTarget(kept && Number(readFileSync(join(kept, "target-port"), "utf8")));
  if (!kept) {
    const server = await serverWithHistory({ hours: HOURS, prepare: (server) => createJobs(server, target.port), settle: target.settle, pause: PAUSE, hosts: HOSTS });
    writeFileSync(join(server.folder, "target-port"), String(target.port));
    return { server, target };
  }
  const server = await Server.create();
  rmSync(server.folder, { recursive: true });
  server.folder = kept;
  server.wrapper = commandWithHosts(HOSTS, kept);
  await server.resume();
  return { server, target };
}

useInterfaceFont();
const { server, target } = await prepare();
console.log(`store: ${server.folder}`);
mkdirSync(OUTPUT, { recursive: true });
mkdirSync(DOCS, { recursive: true });
target.hold(RUNNING.map(([, name]) => name));
for (const [collection, name] of RUNNING) await server.api("POST", `/api/collections/${collection}/jobs/${name}/run`);
const browser = await launch();
const problems = [];
const only = process.argv[3];
for (const [size, name] of [[DESKTOP, "desktop"], [PHONE, "phone"]]) {
  for (const scheme of ["light", "dark"]) {
    const window = await Window.open(browser, server, { size, scheme, zone: ZONE, deviceScaleFactor: 1 });
    for (const [screen, path] of Object.entries(SCREENS)) {
      if (only && screen !== only) continue;
      try {
        await window.go(typeof path === "function" ? await path(server) : path);
        await window.page.waitForTimeout(300);
        await window.checkWidth();
        // With what is fixed at the end of the screen at the end of the picture.
        const length = await window.page.evaluate(() => document.documentElement.scrollHeight);
        await window.page.setViewportSize({ ...size, height: Math.max(size.height, Math.min(length, HEIGHTS_MAX[name])) });
        await window.page.screenshot({ path: join(OUTPUT, `${screen}-${scheme}-${name}.png`) });
        await window.page.setViewportSize(size);
      } catch (error) {
        problems.push(`${screen}: ${error.message}`);
      }
    }
    problems.push(...window.unexpected());
    await window.context.close();
  }
}
await browser.close();
for (const [name, picture] of Object.entries(DOCUMENTED)) {
  const file = join(DOCS, `${name}.png`);
  copyFileSync(join(OUTPUT, `${picture}.png`), file);
  execFileSync("pngquant", ["--force", "--ext", ".png", "--strip", "256", file]);
  if (statSync(file).size > BYTES_MAX) problems.push(`${file} has ${statSync(file).size} bytes`);
}
target.stop();
if (process.env.KEEP) await server.pause();
else await server.stop();
for (const problem of new Set(problems)) console.log(problem);
process.exit(problems.length ? 1 : 0);
