// Data of tests.

import { execFileSync } from "node:child_process";

/** Calls `action` for each item, some at a time. */
export async function each(items, action, width = 16) {
  const rest = [...items];
  await Promise.all(Array.from({ length: width }, async () => {
    while (rest.length) await action(rest.shift());
  }));
}

/** Creates jobs `{prefix}-00001` … in collections of a thousand. Disabled jobs are every tenth. */
export async function manyJobs(server, count, { prefix = "job", size = 1000 } = {}) {
  const numbers = Array.from({ length: count }, (_, index) => index + 1);
  await each(numbers, (number) => {
    const collection = `bulk-${String(Math.ceil(number / size)).padStart(3, "0")}`;
    return server.job(`${prefix}-${String(number).padStart(6, "0")}`, { collection, tags: { number: String(number % 100) }, state: number % 10 ? "Enabled" : "Disabled" });
  });
}

/**
 * Copies the only job of a server that is paused, disabled, to `{prefix}-000001` …: 100,000 requests would take minutes.
 * It is in a collection that must not have other jobs.
 */
export function copyJob(server, count, { prefix = "job" } = {}) {
  execFileSync("python3", [new URL("copy_job.py", import.meta.url).pathname, `${server.folder}/kalends.db`, prefix, String(count)]);
}

/** A day of the next year: `2027-03-28` for `03-28`. */
export function nextYear(day) {
  return `${new Date().getUTCFullYear() + 1}-${day}`;
}

/** The last Sunday of March of the next year, on which Berlin has no 02:30, and the day before it: `2027-03-28`. */
export function springForward() {
  const day = new Date(`${nextYear("03-31")}T00:00:00Z`);
  day.setUTCDate(31 - day.getUTCDay());
  const date = (offset) => new Date(day.getTime() + offset * 86_400_000).toISOString().slice(0, 10);
  return { day: date(0), before: date(-1) };
}

/** Texts that become markup or script where they are inserted as HTML. */
export const HOSTILE = [
  `<img src=x onerror="document.title='owned'">`,
  `</script><script>document.title='owned'</script>`,
  `"><svg onload="document.title='owned'">`,
  `{{7*7}}\${7*7}<%= 7*7 %>`,
  `javascript:document.title='owned'`,
];
