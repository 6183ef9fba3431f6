// Keeps a page up to date: server-sent events say that something happened, then the page is fetched
// again and the regions with `data-live` are replaced where they differ. Nothing moves while the user
// reads: a list that is scrolled or has a selection waits behind "Show 3 new runs".

import { asLoaded } from "./chart.js";
import { apiUrl, endSession } from "./request.js";

/** Time in which further events are collected. */
const COLLECT = 400;
/** Shortest time between two updates. */
const INTERVAL = 1000;
/** Time after which a page is updated without an event: figures with an age. */
const IDLE = 15000;

/** Marks of runs that have not ended. */
const IN_PROGRESS = "main :is(.mark.run, .run-edge, [data-in-progress])";

let last = 0;
let timer = null;
let source = null;
let failures = 0;
/** New versions of the regions in use, by name: shown when the user asks for them. */
const offered = new Map();

function show(state, text) {
  const element = document.querySelector("[data-connection]");
  if (!element) return;
  element.dataset.state = state;
  element.textContent = text;
  element.title = { on: "Updates arrive as they happen", waiting: "Connecting to the server again", off: "No updates while this page is in the background" }[state];
}

/** Fetches this page as a document. */
function fetchPage() {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("GET", location.href);
    request.responseType = "document";
    request.setRequestHeader("Accept", "text/html");
    request.onload = () => {
      const isSignIn = request.response?.querySelector("[data-sign-in]");
      if (isSignIn) endSession();
      if (!isSignIn && request.status === 200) resolve(request.response);
      else reject(new Error(String(request.status)));
    };
    request.onerror = () => reject(new Error("unreachable"));
    request.send();
  });
}

/** Whether replacing a region would disturb what the user does in it. */
function isInUse(region) {
  if (region.querySelector("input:checked")) return true;
  return region.matches("[data-rows]") && window.scrollY > 120;
}

/** A region without what changes by itself or belongs to the user: ages, selection, the current row, what is open. */
function content(region) {
  const copy = region.cloneNode(true);
  for (const mark of copy.querySelectorAll(".pointed")) asLoaded(mark);
  for (const time of copy.querySelectorAll("time[data-relative], [data-elapsed], [data-server-flag]")) time.textContent = "";
  for (const details of copy.querySelectorAll("details")) details.open = false;
  for (const row of copy.querySelectorAll("[data-row]")) {
    row.removeAttribute("aria-selected");
    row.classList.remove("current");
    if (!row.classList.length) row.removeAttribute("class");
  }
  return copy;
}

/** Whether two elements of different versions of a page do the same. */
function isSame(element, other) {
  const row = (element) => element.closest("[data-row]")?.dataset.resource;
  const action = (element) => [element.tagName, element.getAttribute("href") ?? element.dataset.post ?? element.dataset.delete ?? element.getAttribute("aria-label") ?? element.textContent, row(element)].join();
  return action(element) === action(other);
}

/** The row of another version of a list that shows the same. */
function rowLike(list, row) {
  const href = (row) => row.querySelector("[data-open]")?.getAttribute("href");
  return [...list.querySelectorAll("[data-row]")].find((other) => href(other) === href(row));
}

/** Opens in a new version of a region what the user has open, and closes what the user has closed. */
function keepOpen(region, fresh) {
  const title = (details) => details.querySelector("summary").textContent;
  const before = new Map([...region.querySelectorAll("details")].map((details) => [title(details), details.open]));
  for (const details of fresh.querySelectorAll("details")) details.open = before.get(title(details)) ?? details.open;
}

function replace(region, fresh) {
  const focused = region.contains(document.activeElement) ? document.activeElement : null;
  const focusable = "a, button, input, select, [tabindex]";
  const current = region.querySelector("[data-row].current");
  const adopted = document.adoptNode(fresh);
  keepOpen(region, adopted);
  region.replaceWith(adopted);
  // By its action, not by its position: where "Skip next" was may now be "Delete".
  if (focused) [...adopted.querySelectorAll(focusable)].find((element) => isSame(element, focused))?.focus({ preventScroll: true });
  if (current) rowLike(adopted, current)?.classList.add("current");
  adopted.dispatchEvent(new CustomEvent("live:replaced", { bubbles: true }));
}

/** `Show 3 new runs`, by the rows that the page does not show yet. */
function offerText() {
  const hrefs = (list) => [...list.querySelectorAll("[data-row] [data-open]")].map((link) => link.getAttribute("href"));
  for (const [name, fresh] of offered) {
    const { rows: noun } = fresh.dataset;
    const shown = new Set(hrefs(regionOf(name)));
    const count = hrefs(fresh).filter((href) => !shown.has(href)).length;
    if (noun && count) return `Show ${count} new ${noun}${count === 1 ? "" : "s"}`;
  }
  return "Show what is new";
}

function regionOf(name) {
  return document.querySelector(`[data-live="${name}"]`);
}

/** Shows the button for what is offered, or removes it if there is nothing. */
function showOffer() {
  const shown = document.querySelector("[data-show-new]");
  if (!offered.size) return shown?.remove();
  const button = shown ?? document.createElement("button");
  button.textContent = offerText();
  if (shown) return;
  button.type = "button";
  button.className = "show-new";
  button.dataset.showNew = "";
  button.onclick = () => {
    window.scrollTo({ top: 0 });
    for (const [name, fresh] of offered) replace(regionOf(name), fresh);
    offered.clear();
    showOffer();
  };
  document.querySelector("main").prepend(button);
}

/** Updates the page now. */
export async function refresh() {
  last = Date.now();
  let page;
  try {
    page = await fetchPage();
  } catch {
    return;
  }
  // An older offer would bring back what this page replaces.
  offered.clear();
  for (const region of document.querySelectorAll("[data-live]")) {
    const fresh = page.querySelector(`[data-live="${region.dataset.live}"]`);
    if (!fresh || content(fresh).isEqualNode(content(region))) continue;
    if (isInUse(region)) offered.set(region.dataset.live, fresh);
    else replace(region, fresh);
  }
  showOffer();
  awaitCalculation();
}

/** Updates the page again soon while the server calculates what it shows. */
function awaitCalculation() {
  if (!document.hidden && document.querySelector("[data-calculating]")) soon();
}

function soon() {
  if (timer) return;
  timer = setTimeout(() => {
    timer = null;
    refresh();
  }, Math.max(COLLECT, INTERVAL - (Date.now() - last)));
}

function connect() {
  if (source || document.hidden) return;
  const url = apiUrl("/events");
  const main = document.querySelector("main");
  for (const name of ["subscription", "resourceGroup", "collection", "job"]) {
    const value = document.querySelector("[data-events]")?.dataset[name];
    if (value) url.searchParams.set(name, value);
  }
  source = new EventSource(url);
  source.onopen = () => {
    // Runs that the page shows in progress may have ended before the stream was open.
    if (failures > 0 || document.querySelector(IN_PROGRESS)) soon();
    failures = 0;
    show("on", "Live");
  };
  for (const name of ["started", "attempt", "postponed", "occurrence", "gap"]) {
    source.addEventListener(name, (event) => {
      main.dispatchEvent(new CustomEvent(`live:${name}`, { detail: event.data }));
      soon();
    });
  }
  source.onerror = () => {
    failures += 1;
    show("waiting", "Reconnecting");
    // The browser gives up after an answer that is not a stream, such as 503.
    if (source.readyState === EventSource.CLOSED) {
      source = null;
      setTimeout(connect, Math.min(30000, 1000 * 2 ** Math.min(failures, 5)));
    }
  };
}

function disconnect() {
  source?.close();
  source = null;
  show("off", "Paused");
}

export function start() {
  connect();
  // A prefetched page shows the state of then.
  if (performance.getEntriesByType("navigation")[0]?.deliveryType === "navigational-prefetch") refresh();
  awaitCalculation();
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return disconnect();
    show("waiting", "Connecting");
    connect();
    soon();
  });
  setInterval(() => {
    if (!document.hidden && Date.now() - last > IDLE) refresh();
  }, 5000);
}
