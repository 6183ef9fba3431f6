// Gives a store the history of a day in some minutes: the clock of the server runs at its normal speed and
// jumps from one scheduled time to the next, so that all jobs run at their time and durations are real.

import { existsSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { Server } from "./server.mjs";

/** All schedules fire at multiples of ten minutes. */
const STEP = 600;
/** Seconds after the scheduled time at which attempts are due: the first, and retries 15 s after the one before. */
const ATTEMPTS = [0, 15, 30];
/** Seconds before that at which the clock arrives: the server sees the jump and waits for the exact time. */
const LEAD = 1.5;

function library(file, name) {
  const found = readdirSync("/usr/lib").map((folder) => `/usr/lib/${folder}/${file}`).find(existsSync);
  if (!found) throw new Error(`install the package ${name}`);
  return found;
}

/**
 * Command in front of a server that resolves names of hosts to this machine: it has a file system of its own with
 * another /etc/hosts.
 */
export function commandWithHosts(hosts, folder) {
  const file = join(folder, "hosts");
  writeFileSync(file, ["localhost", ...hosts].map((host) => `127.0.0.1 ${host}\n`).join(""));
  return ["unshare", "--map-root-user", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', file];
}

/**
 * Starts a server `hours` ago, calls `prepare`, and returns the server at the present time, with the history
 * of these hours. `settle` waits until the runs of a step have finished and returns whether a job will retry. `pause`
 * is a time in which everything is paused: hours before the present, minutes, and the reason. `hosts` are names of
 * this machine.
 */
export async function serverWithHistory({ hours, prepare, settle, pause, hosts }) {
  const server = await Server.create();
  server.wrapper = commandWithHosts(hosts, server.folder);
  const file = join(server.folder, "clock");
  const now = () => Date.now() / 1000;
  /** Sets the clock to a time in seconds. It runs from there. Renamed, because the server may read the file meanwhile. */
  const setClock = (at) => {
    writeFileSync(`${file}.new`, `-${Math.max(0, now() - at).toFixed(1)}`);
    renameSync(`${file}.new`, file);
  };
  const start = now() - hours * 3600;
  setClock(start);
  const clock = library("faketime/libfaketimeMT.so.1", "faketime");
  server.variables = { LD_PRELOAD: clock, FAKETIME_TIMESTAMP_FILE: file, FAKETIME_NO_CACHE: "1", DONT_FAKE_MONOTONIC: "1", TZ: "UTC" };
  await server.resume();
  await prepare(server);
  const paused = now() - pause.hoursAgo * 3600;
  for (let at = Math.ceil(start / STEP) * STEP; at < now(); at += STEP) {
    const isStepOf = (time) => at >= time && at < time + STEP;
    if (isStepOf(paused)) await server.api("POST", "/api/pause", { reason: pause.reason });
    if (isStepOf(paused + pause.minutes * 60)) await server.api("POST", "/api/resume");
    for (const delay of ATTEMPTS) {
      if (at + delay > now()) break;
      setClock(at + delay - LEAD);
      if (!(await settle())) break;
    }
  }
  await server.pause();
  server.variables = {};
  await server.resume();
  return server;
}
