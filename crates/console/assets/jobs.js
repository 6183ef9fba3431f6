// The list of jobs: search while typing, selection, and actions on the selected jobs.

import { ask } from "./dialog.js";
import { refresh } from "./live.js";
import { attempt, send, tell } from "./request.js";
import { relative } from "./time.js";

/** Jobs of one request of a bulk operation. */
const NAMES_MAX = 1000;
/** Jobs that a selection of all that match has at most. */
const MATCHING_MAX = 1000;
/** Jobs of one page of the API. */
const PAGE = 100;
/** What happens, in the dialog that asks. */
const EFFECTS = {
  Run: { one: "It runs once, in addition to its schedule.", many: "Each runs once, in addition to its schedule." },
  Disable: { one: "Its schedule starts nothing until somebody enables it.", many: "Their schedules start nothing until somebody enables them." },
  Delete: { one: "Its history is deleted too. This cannot be undone.", many: "Their history is deleted too. This cannot be undone." },
};
const DONE = { Run: "Started", Enable: "Enabled", Disable: "Disabled", Delete: "Deleted" };

/** The jobs that match the filter, once the user has selected all of them: {resource, state, next}. */
let matching = null;

function selected() {
  return matching?.map(({ resource }) => resource) ?? selectedRows();
}

function selectedRows() {
  return [...document.querySelectorAll("[data-select]:checked")].map((box) => box.closest("[data-row]").dataset.resource);
}

function jobs(count) {
  return count === 1 ? "1 job" : `${count.toLocaleString("en")} jobs`;
}

function showSelection() {
  const bar = document.querySelector("[data-selection]");
  if (!bar) return;
  const boxes = document.querySelectorAll("[data-select]");
  const rows = selectedRows().length;
  if (rows < boxes.length || boxes.length === 0) matching = null;
  const count = selected().length;
  bar.hidden = count === 0;
  for (const button of bar.querySelectorAll("[data-bulk]")) button.textContent = `${button.dataset.bulk} ${jobs(count)}`;
  for (const row of document.querySelectorAll("[data-row]")) {
    const box = row.querySelector("[data-select]");
    if (box?.checked) row.setAttribute("aria-selected", "true");
    else row.removeAttribute("aria-selected");
  }
  const all = document.querySelector("[data-select-all]");
  if (all) {
    all.checked = rows > 0 && rows === boxes.length;
    all.indeterminate = rows > 0 && rows < boxes.length;
  }
  const offer = document.querySelector("[data-matching-offer]");
  const shown = bar.querySelector("[data-matching]");
  shown.hidden = !offer || rows === 0 || rows < boxes.length;
  const button = shown.querySelector("button");
  button.hidden = matching !== null;
  button.textContent = offer?.textContent ?? "";
  shown.querySelector("span").textContent = matching ? matching.text : "";
}

/** The path of a job in the API, from its id. */
function resourceOf(id) {
  return id.split("/").map(encodeURIComponent).join("/");
}

/** Selects the jobs of all pages of this list. */
async function selectMatching(button) {
  const parameters = Object.fromEntries(["search", "state", "collection"].map((name) => [name, new URL(location.href).searchParams.get(name)]));
  const url = location.href;
  const found = [];
  let cursor = "";
  button.disabled = true;
  const succeeded = await attempt(async () => {
    do {
      const page = await send("GET", "/api/jobs", { parameters: { ...parameters, limit: PAGE, cursor } });
      found.push(...page.value);
      cursor = page.nextLink ? new URL(page.nextLink, location.href).searchParams.get("cursor") : "";
    } while (cursor && found.length < MATCHING_MAX);
  });
  button.disabled = false;
  // The user went on meanwhile.
  if (!succeeded || location.href !== url || !button.isConnected || document.querySelector("[data-select]:not(:checked)")) return;
  matching = found.slice(0, MATCHING_MAX).map(({ id, properties }) => ({ resource: resourceOf(id), state: properties.state, next: properties.status?.nextExecutionTime }));
  const isAll = !cursor && found.length <= MATCHING_MAX;
  matching.text = isAll ? `All ${jobs(matching.length)} that match are selected.` : `${jobs(matching.length)} are selected, the most at once. More jobs match.`;
  showSelection();
}

/** The row that was selected or deselected last. */
let lastRow = null;

/** With Shift, gives all rows from the last one to this one the state of this one. */
function selectRange(box, isRange) {
  const rows = [...document.querySelectorAll("[data-row]")];
  const row = box.closest("[data-row]");
  const ends = [rows.indexOf(row), rows.indexOf(lastRow)];
  if (isRange && !ends.includes(-1)) {
    for (const other of rows.slice(Math.min(...ends), Math.max(...ends) + 1)) other.querySelector("[data-select]").checked = box.checked;
    showSelection();
  }
  lastRow = row;
}

function nameOf(resource) {
  const [collection, job] = resource.split("/jobs/");
  return [collection.split("/").at(-1), job].map(decodeURIComponent).join("/");
}

/** The first names, and how many more there are. */
function namesOf(resources) {
  const names = resources.slice(0, 5).map(nameOf);
  const rest = resources.length - names.length;
  return `${names.join(", ")}${rest ? ` and ${rest} more` : ""}.`;
}

/** Each job with its present state and next run, to check before the action. */
function preview(resources) {
  return resources.map((resource, index) => {
    if (matching?.[index]?.resource === resource) {
      const { state, next } = matching[index];
      return [nameOf(resource), [state, next && `next run ${relative(Date.parse(next))}`].filter(Boolean).join(", ")];
    }
    const row = document.querySelector(`[data-row][data-resource="${CSS.escape(resource)}"]`);
    const [state, next] = [".status", "time"].map((selector) => row?.querySelector(selector)?.innerText.trim());
    return [nameOf(resource), [state, next && `next run ${next}`].filter(Boolean).join(", ")];
  });
}

/** Asks, and then enables, disables, runs or deletes jobs. */
export async function act(action, resources) {
  const fields = action === "Delete" ? [] : [{ name: "note", label: "Note (optional)", hint: resources.length === 1 ? "Why? It is shown on the job." : "Why? It is shown on each job." }];
  const answer = await ask({
    title: `${action} ${jobs(resources.length)}?`,
    text: [namesOf(resources), EFFECTS[action]?.[resources.length === 1 ? "one" : "many"]].filter(Boolean).join(" "),
    preview: resources.length > 1 ? { summary: `Show all ${jobs(resources.length)}`, rows: preview(resources) } : undefined,
    fields,
    confirm: `${action} ${jobs(resources.length)}`,
    danger: action === "Delete",
  });
  if (!answer) return;
  const collections = new Map();
  for (const resource of resources) {
    const [collection, name] = resource.split("/jobs/");
    collections.set(collection, [...(collections.get(collection) ?? []), decodeURIComponent(name)]);
  }
  let done = 0;
  const refused = [];
  const succeeded = await attempt(async () => {
    for (const [collection, names] of collections) {
      for (let start = 0; start < names.length; start += NAMES_MAX) {
        const body = { action, names: names.slice(start, start + NAMES_MAX) };
        const result = await send("POST", `${collection}/jobs/bulk`, { body, parameters: { note: answer.note } });
        for (const job of result.value) {
          if (job.result === "Refused") refused.push(`${job.name}: ${job.error.message}`);
          else done += 1;
        }
      }
    }
  });
  if (done) tell(`${DONE[action]} ${jobs(done)}`);
  if (refused.length) tell(`Refused: ${refused.slice(0, 3).join("; ")}${refused.length > 3 ? ` and ${refused.length - 3} more` : ""}`, { bad: true });
  // The user can try again with the same jobs.
  if (!succeeded) return;
  matching = null;
  for (const box of document.querySelectorAll("[data-select]")) box.checked = false;
  showSelection();
  await refresh();
}

/** Searches while the user types, without losing the place in the field. */
function searchWhileTyping(form) {
  const field = form.querySelector("[name=search]");
  let timer;
  const search = () => {
    const url = new URL(location.href);
    for (const [name, value] of new FormData(form)) {
      if (value) url.searchParams.set(name, value);
      else url.searchParams.delete(name);
    }
    url.searchParams.delete("cursor");
    if (url.href === location.href) return;
    history.replaceState(null, "", url);
    replaceList();
  };
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, 150);
  });
  form.addEventListener("change", search);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    search();
    // The next key is a shortcut, such as that for the next row.
    field.blur();
  });
}

/** Reads a page of this list, and calls `use` with its document unless the user went on. */
function readPage(href, use) {
  const request = new XMLHttpRequest();
  const url = location.href;
  request.open("GET", href);
  request.responseType = "document";
  request.onload = () => {
    if (location.href === url && request.status === 200) use(request.response);
  };
  request.send();
}

/** Replaces everything below the search form with the result for the present URL. */
function replaceList() {
  readPage(location.href, (page) => {
    const form = document.querySelector("[data-filter]");
    const fresh = page.querySelector("[data-filter]");
    replaceTabs(page);
    while (form.nextSibling) form.nextSibling.remove();
    const nodes = [];
    for (let node = fresh.nextSibling; node; node = node.nextSibling) nodes.push(node);
    form.after(...nodes.map((node) => document.adoptNode(node)));
    showSelection();
    searchOn();
  });
}

function replaceTabs(page) {
  document.querySelector("[data-live=tabs]").replaceWith(document.adoptNode(page.querySelector("[data-live=tabs]")));
}

/**
 * Goes on with a search that ended before its page was full: the server limits the time of each request. The rows of the
 * next page follow those that are shown.
 */
function searchOn() {
  const link = document.querySelector("[data-search-on]");
  if (!link) return;
  link.textContent = "Searching…";
  readPage(link.href, (page) => {
    if (!link.isConnected) return;
    replaceTabs(page);
    const shown = document.querySelector("[data-rows]");
    const fresh = page.querySelector("[data-rows]");
    const [rows, more] = [shown, fresh].map((list) => list.querySelector("tbody"));
    if (!rows) shown.replaceChildren(...[...fresh.childNodes].map((node) => document.adoptNode(node)));
    else {
      if (more) rows.append(...[...more.children].map((row) => document.adoptNode(row)));
      const pager = fresh.querySelector(".pager");
      const next = fresh.querySelector("[data-search-on], [rel=next]");
      if (pager) shown.querySelector(".pager").replaceWith(document.adoptNode(pager));
      else if (next) link.href = next.href;
      else link.remove();
      const count = shown.querySelector("[data-shown]");
      if (count) count.textContent = rows.children.length;
    }
    showSelection();
    searchOn();
  });
}

export function start() {
  const form = document.querySelector("[data-filter]");
  if (!form) return;
  searchWhileTyping(form);
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-select-all]")) {
      for (const box of document.querySelectorAll("[data-select]")) box.checked = event.target.checked;
    }
    if (event.target.matches("[data-select], [data-select-all]")) {
      matching = null;
      showSelection();
    }
  });
  document.addEventListener("click", (event) => {
    if (event.target.matches("[data-select]")) selectRange(event.target, event.shiftKey);
    const button = event.target.closest("[data-bulk]");
    if (button) act(button.dataset.bulk, selected());
    const all = event.target.closest("[data-select-matching]");
    if (all) selectMatching(all);
  });
  // Shift selects rows, not text.
  document.addEventListener("mousedown", (event) => {
    if (event.shiftKey && event.target.matches("[data-select]")) event.preventDefault();
  });
  document.addEventListener("live:replaced", () => {
    showSelection();
    searchOn();
  });
  showSelection();
  searchOn();
}
