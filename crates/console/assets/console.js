// The console: what every page needs.

import * as chart from "./chart.js";
import * as copy from "./copy.js";
import { ask } from "./dialog.js";
import * as jobs from "./jobs.js";
import * as keyboard from "./keyboard.js";
import * as live from "./live.js";
import { ApiError, attempt, send, tell, tellNext, tellWaiting } from "./request.js";
import * as signIn from "./sign-in.js";
import { elapsed, relative, wallTime } from "./time.js";

const root = document.documentElement.dataset.root;

function setCookie(name, value) {
  const secure = location.protocol === "https:" ? "; Secure" : "";
  const path = new URL(root, location.href).pathname;
  document.cookie = `${name}=${encodeURIComponent(value)}; Path=${path}; Max-Age=31536000; SameSite=Strict${secure}`;
}

function cookie(name) {
  const pair = document.cookie.split("; ").find((pair) => pair.startsWith(`${name}=`));
  return pair && decodeURIComponent(pair.slice(name.length + 1));
}

/** Tells the server the time zone of the browser, and shows the page in it. */
function watchZone() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && cookie("kalends-browser-zone") !== zone) {
    setCookie("kalends-browser-zone", zone);
    if (document.querySelector("time, svg")) location.reload();
  }
  document.querySelector("[data-zones]")?.addEventListener("click", (event) => {
    const button = event.target.closest("[data-zone]");
    if (!button) return;
    setCookie("kalends-zone", button.dataset.zone);
    location.reload();
  });
}

function watchTheme() {
  const button = document.querySelector("[data-theme-switch]");
  button?.addEventListener("click", () => {
    const html = document.documentElement;
    // The first click always changes what is seen.
    const themes = matchMedia("(prefers-color-scheme: dark)").matches ? ["system", "light", "dark"] : ["system", "dark", "light"];
    const theme = themes[(themes.indexOf(html.dataset.theme ?? "system") + 1) % themes.length];
    if (theme === "system") delete html.dataset.theme;
    else html.dataset.theme = theme;
    button.querySelector("span").textContent = theme;
    setCookie("kalends-theme", theme);
  });
}

function tick() {
  const write = (element, text) => element.textContent !== text && (element.textContent = text);
  for (const time of document.querySelectorAll("time[data-relative]")) write(time, relative(Date.parse(time.dateTime)));
  for (const time of document.querySelectorAll("[data-elapsed]")) write(time, elapsed(Date.parse(time.dataset.elapsed)));
}

/** A button with `data-post` (or `data-delete`, `data-patch`) sends a request when it is clicked. */
async function act(button) {
  const { post, patch, confirm, text, done, note, then } = button.dataset;
  const [method, path] = post ? ["POST", post] : patch ? ["PATCH", patch] : ["DELETE", button.dataset.delete];
  let answer = {};
  if (confirm || note !== undefined) {
    const fields = note === undefined ? [] : [{ name: "note", label: "Note (optional)", hint: note || "Why? It is shown on the job." }];
    answer = await ask({ title: confirm || button.textContent.replace("…", "?"), text, fields, confirm: button.dataset.confirmButton || button.textContent.replace("…", ""), danger: button.classList.contains("danger") });
    if (!answer) return;
  }
  const body = button.dataset.body ? JSON.parse(button.dataset.body) : undefined;
  const succeeded = await attempt(async () => {
    const result = await send(method, path, { body, parameters: { note: answer.note } });
    // A bulk operation returns 200 also if it refuses a job.
    const refused = body?.names && result.value.find((job) => job.result === "Refused");
    if (refused) throw new ApiError(409, refused.error);
  });
  if (!succeeded) return;
  if (then) {
    if (done) tellNext(done);
    // The page of what was deleted is gone.
    return method === "DELETE" ? location.replace(then) : location.assign(then);
  }
  tell(done || "Done");
  await live.refresh();
}

async function pauseEverything() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const answer = await ask({
    title: "Pause everything?",
    text: "No job of any collection starts until you resume. Occurrences of that time are recorded as skipped.",
    fields: [
      { name: "reason", label: "Reason", required: true, hint: "Shown on every page while it lasts." },
      { name: "until", label: "Until (optional)", type: "datetime-local", min: wallTime(Date.now() + 60000, zone).slice(0, 16), hint: `Resumes by itself at this time (${zone.replaceAll("_", " ")}).` },
    ],
    confirm: "Pause everything",
    danger: true,
  });
  if (!answer) return;
  const body = { reason: answer.reason };
  if (answer.until) body.until = new Date(answer.until).toISOString();
  if (await attempt(() => send("POST", "/api/pause", { body }))) location.reload();
}

/** Completes commands of the client for a server at another address than its default. */
function showServerFlag() {
  const server = new URL(document.documentElement.dataset.root, location.href).href.replace(/\/$/, "");
  const text = server === "http://127.0.0.1:8080" ? "" : ` --server ${server}`;
  for (const flag of document.querySelectorAll("[data-server-flag]")) flag.textContent = text;
}

/** Three jobs that show a success, a slow run and a failure with retry and error action. */
async function createDemo(button) {
  const echo = button.dataset.echo;
  const action = (path) => ({ type: "Http", request: { method: "GET", uri: `${echo}${path}` } });
  const cron = { cron: "* * * * *" };
  const demo = {
    "every-minute": { description: "Succeeds every minute", recurrence: cron, action: action("/200") },
    "slow": { description: "Takes four seconds", recurrence: { cron: "*/2 * * * *" }, action: action("/200?delay=PT4S") },
    "failing": {
      description: "Fails, retries once, and calls its error action",
      recurrence: cron,
      action: { ...action("/500"), retryPolicy: { retryType: "Fixed", retryInterval: "PT15S", retryCount: 1 }, errorAction: action("/200") },
    },
  };
  button.disabled = true;
  const succeeded = await attempt(async () => {
    for (const [name, properties] of Object.entries(demo)) {
      const job = `/api/collections/demo/jobs/${name}`;
      await send("PUT", job, { body: { properties } });
      await send("POST", `${job}/run`);
    }
  });
  button.disabled = false;
  if (succeeded) location.reload();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.matches("[data-post], [data-delete], [data-patch]")) act(button);
  else if (button.matches("[data-pause]")) pauseEverything();
  else if (button.matches("[data-demo]")) createDemo(button);
  else if (button.matches("[data-sign-out]")) signIn.signOut();
});

/** The name of a job selects runs together with its collection only. */
document.addEventListener("change", (event) => {
  const job = event.target.matches("select[name=collection]") && event.target.form?.querySelector("[data-needs-collection]");
  if (!job) return;
  job.disabled = !event.target.value;
  job.placeholder = job.disabled ? "Job of a collection" : "All jobs";
});

watchZone();
watchTheme();
keyboard.start();
jobs.start();
chart.start();
copy.start();
signIn.start();
if (document.querySelector("[data-connection]")) live.start();
tellWaiting();
showServerFlag();
document.addEventListener("live:replaced", showServerFlag);
tick();
setInterval(tick, 1000);
