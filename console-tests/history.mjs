// Gives a store the history of a day in some minutes: the clock of the server runs at its normal speed and
// jumps from one scheduled time to the next, so that all jobs run at their time and durations are real.

import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { Server } from "./server.mjs";

/** All schedules fire at multiples of ten minutes. */
const STEP = 600;
/** Seconds after the scheduled time at which attempts are due: the first, and retries 15 s after the one before. */
const ATTEMPTS = [0, 15, 30];
/** Seconds before that at which the clock arrives: the server sees the jump and waits for the exact time. */
const LEAD = 1.5;

function clockLibrary() {
  const folders = readdirSync("/usr/lib").map((folder) => `/usr/lib/${folder}/faketime/libfaketimeMT.so.1`);
  const library = folders.find(existsSync);
  if (!library) throw new Error("install the package faketime");
  return library;
}

/**
 * Starts a server `hours` ago, calls `prepare`, and returns the server at the present time, with the history
 * of these hours. `settle` waits until the runs of a step have finished and returns whether a job will retry.
 */
export async function serverWithHistory(hours, prepare, settle) {
  const server = await Server.create();
  const file = join(server.folder, "clock");
  const now = () => Date.now() / 1000;
  /** Sets the clock to a time in seconds. It runs from there. */
  const setClock = (at) => writeFileSync(file, `-${Math.max(0, now() - at).toFixed(1)}`);
  const start = now() - hours * 3600;
  setClock(start);
  server.variables = { LD_PRELOAD: clockLibrary(), FAKETIME_TIMESTAMP_FILE: file, FAKETIME_NO_CACHE: "1", DONT_FAKE_MONOTONIC: "1", TZ: "UTC" };
  await server.resume();
  await prepare(server);
  for (let at = Math.ceil(start / STEP) * STEP; at < now(); at += STEP) {
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
