// The tests of the files that were imported.

export const tests = [];

/** Registers a test. `run` receives {start, open, finally, browser}; see test.mjs. */
export function test(name, run) {
  tests.push({ name, run });
}
