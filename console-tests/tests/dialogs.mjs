import { strict as assert } from "node:assert";

import { test } from "../registry.mjs";

/** The open dialog as a person reads it: title, text, [label, hint] of each field, buttons. */
async function read(dialog) {
  await dialog.waitFor();
  return dialog.evaluate((element) => ({
    title: element.querySelector("h2").textContent,
    text: element.querySelector("p")?.textContent ?? "",
    fields: [...element.querySelectorAll("label")].map((label) => [label.firstChild.textContent, label.querySelector(".hint").textContent]),
    buttons: [...element.querySelectorAll("button")].map((button) => button.textContent),
  }));
}

const NOTE = (hint) => [["Note (optional)", hint]];
const COLLECTION_TEXT = "No job of demo starts until somebody enables the collection, not even by hand.";

/** [page, button, dialog]: everything that asks before it acts on one job, one collection or all jobs. */
const DIALOGS = [
  ["jobs/demo/job-1", "Run now", { title: "Run demo/job-1 now?", text: "It runs once, in addition to its schedule.", fields: NOTE("Why? It is shown on the job."), buttons: ["Cancel", "Run now"] }],
  ["jobs/demo/job-2", "Run it now", { title: "Run demo/job-2 now?", text: "It runs once, in addition to its schedule.", fields: NOTE("Why? It is shown on the job."), buttons: ["Cancel", "Run now"] }],
  ["jobs/demo/job-1", "Disable…", { title: "Disable demo/job-1?", text: "Its schedule starts nothing until somebody enables it. You can still run it by hand.", fields: NOTE("Why? It is shown on the job."), buttons: ["Cancel", "Disable"] }],
  ["jobs/demo/off", "Enable…", { title: "Enable demo/off?", text: "", fields: NOTE("Why? It is shown on the job."), buttons: ["Cancel", "Enable"] }],
  ["jobs/demo/job-1", "Delete…", { title: "Delete demo/job-1?", text: "Its history is deleted too. This cannot be undone.", fields: [], buttons: ["Cancel", "Delete job-1"] }],
  ["jobs/demo/job-1/edit", "Test run…", { title: "Call the target now?", text: "It receives a real request with this definition. Nothing is saved, and nothing is retried.", fields: [], buttons: ["Cancel", "Test run"] }],
  ["collections", "Disable demo", { title: "Disable all 7 jobs of demo?", text: COLLECTION_TEXT, fields: NOTE("Why? It is shown with the collection."), buttons: ["Cancel", "Disable demo"] }],
  ["collections/demo", "Disable…", { title: "Disable all 7 jobs of demo?", text: COLLECTION_TEXT, fields: NOTE("Why? It is shown with the collection."), buttons: ["Cancel", "Disable demo"] }],
  ["collections/demo", "Delete…", { title: "Delete demo and all 7 jobs in it?", text: "Their history is deleted too. This cannot be undone.", fields: [], buttons: ["Cancel", "Delete demo"] }],
  [
    "system",
    "Pause everything…",
    {
      title: "Pause everything?",
      text: "No job of any collection starts until you resume. Occurrences of that time are recorded as skipped.",
      fields: [["Reason", "Shown on every page while it lasts."], ["Until (optional)", "Resumes by itself at this time (Europe/Berlin)."]],
      buttons: ["Cancel", "Pause everything"],
    },
  ],
];

/** Six jobs and a disabled one. */
async function sevenJobs(start) {
  const server = await start();
  for (let number = 1; number <= 6; number += 1) await server.job(`job-${number}`);
  await server.job("off", { state: "Disabled" });
  await server.run("job-1");
  return server;
}

test("every dialog says what it asks, what follows and what its buttons do, and is accessible", async ({ start, open }) => {
  const server = await sevenJobs(start);
  const window = await open(server);
  const { page } = window;
  const dialog = page.getByRole("dialog");
  for (const [path, button, expected] of DIALOGS) {
    await window.go(path);
    await page.getByRole("button", { name: button, exact: true }).click();
    assert.deepEqual(await read(dialog), expected, `${button} of ${path}`);
    await window.checkAccessibility();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await dialog.waitFor({ state: "detached" });
  }
  await server.api("POST", "/api/collections/demo/disable");
  for (const [path, button] of [["collections", "Enable demo"], ["collections/demo", "Enable…"]]) {
    await window.go(path);
    await page.getByRole("button", { name: button, exact: true }).click();
    assert.deepEqual(await read(dialog), { title: "Enable demo?", text: "6 of its jobs are enabled, and run by their schedules again.", fields: NOTE("Why? It is shown with the collection."), buttons: ["Cancel", "Enable demo"] });
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await dialog.waitFor({ state: "detached" });
  }
  await server.api("POST", "/api/pause", { reason: "Migration" });
  await window.go();
  await page.getByRole("button", { name: "Resume" }).click();
  assert.deepEqual(await read(dialog), { title: "Resume all jobs?", text: "Occurrences that the pause skipped are not made up for.", fields: [], buttons: ["Cancel", "Resume"] });
  await window.checkAccessibility();
});

test("the dialog of a run asks to run again, and that of the editor warns of a run at once", async ({ start, open }) => {
  const server = await sevenJobs(start);
  const window = await open(server);
  const { page } = window;
  const dialog = page.getByRole("dialog");
  await window.go("jobs/demo/job-1");
  await page.locator('[data-live="runs"] [data-open]').click();
  await page.getByRole("heading", { name: /^Manual run of/ }).waitFor();
  await window.ready();
  await page.getByRole("button", { name: "Run again" }).click();
  assert.deepEqual(await read(dialog), { title: "Run demo/job-1 again now?", text: "It runs once, in addition to its schedule, with its present definition.", fields: NOTE("Why? It is shown on the job."), buttons: ["Cancel", "Run again"] });
  window.expect(/400/);
  await window.go("new-job");
  await page.getByLabel("Name", { exact: true }).fill("once");
  await page.getByLabel("Collection").fill("demo");
  await page.getByLabel("URL").first().fill(`${server.echo}/200`);
  await page.getByRole("button", { name: "Once" }).click();
  await page.getByLabel("Start at").fill("");
  await page.getByText("Creating the job starts a run at once.").waitFor();
  await page.getByRole("button", { name: "Create job" }).click();
  assert.deepEqual(await read(dialog), { title: "Saving starts a run at once", text: "The start time is empty or has passed.", fields: [], buttons: ["Cancel", "Create and run"] });
  await window.checkAccessibility();
  page.on("dialog", (question) => question.accept());
});

test("a dialog about selected jobs names the first five, counts the others, and says what follows", async ({ start, open }) => {
  const server = await sevenJobs(start);
  const window = await open(server);
  const { page } = window;
  const dialog = page.getByRole("dialog");
  const names = "demo/job-1, demo/job-2, demo/job-3, demo/job-4, demo/job-5 and 1 more.";
  await window.go("jobs");
  for (let number = 1; number <= 6; number += 1) await page.getByRole("checkbox", { name: `Select job-${number}` }).check();
  const expected = [
    ["Disable 6 jobs", { title: "Disable 6 jobs?", text: `${names} Their schedules start nothing until somebody enables them.`, fields: NOTE("Why? It is shown on each job."), buttons: ["Cancel", "Disable 6 jobs"] }],
    ["Enable 6 jobs", { title: "Enable 6 jobs?", text: names, fields: NOTE("Why? It is shown on each job."), buttons: ["Cancel", "Enable 6 jobs"] }],
    ["Run 6 jobs", { title: "Run 6 jobs?", text: `${names} Each runs once, in addition to its schedule.`, fields: NOTE("Why? It is shown on each job."), buttons: ["Cancel", "Run 6 jobs"] }],
    ["Delete 6 jobs", { title: "Delete 6 jobs?", text: `${names} Their history is deleted too. This cannot be undone.`, fields: [], buttons: ["Cancel", "Delete 6 jobs"] }],
  ];
  for (const [button, content] of expected) {
    await page.getByRole("button", { name: button }).click();
    assert.deepEqual(await read(dialog), content);
    await window.checkAccessibility();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
  }
  await page.getByRole("checkbox", { name: "Select off" }).check();
  await page.getByRole("button", { name: "Disable 7 jobs" }).click();
  await dialog.getByText("Show all 7 jobs").click();
  const preview = await dialog.locator(".preview").innerText();
  assert.match(preview, /demo\/job-2\s+Enabled, next run in .*[^]*demo\/off\s+Disabled/, "each job with its present state");
  await window.checkAccessibility();
  await page.keyboard.press("Escape");
  await page.getByRole("checkbox", { name: "Select off" }).uncheck();
  for (let number = 2; number <= 6; number += 1) await page.getByRole("checkbox", { name: `Select job-${number}` }).uncheck();
  await page.getByRole("button", { name: "Delete 1 job" }).click();
  assert.equal((await read(dialog)).text, "demo/job-1. Its history is deleted too. This cannot be undone.");
  await page.keyboard.press("Escape");
});
