// Keyboard shortcuts.

import { showTable } from "./dialog.js";
import { act } from "./jobs.js";

const root = document.documentElement.dataset.root;
const SCREENS = { o: "", j: "jobs", r: "runs", c: "collections", s: "system" };
/** Keys, meaning, and the permission that they need. */
const SHORTCUTS = [
  ["/", "Search"],
  ["j k", "Next or previous row"],
  ["Enter", "Open the row"],
  ["x", "Select the row", "run"],
  ["Shift+x", "Select all rows from the last selected one to this one", "run"],
  ["n", "New job", "write"],
  ["e", "Edit the job of the page or of the row", "write"],
  ["r", "Run it now (asks first)", "run"],
  ["g o", "Go to the overview"],
  ["g j", "Go to the jobs"],
  ["g r", "Go to the runs"],
  ["g c", "Go to the collections"],
  ["g s", "Go to the system page"],
  ["← ↑ ↓ →", "Values of a chart with the focus"],
  ["?", "These shortcuts"],
];

let leader = 0;

function rows() {
  return [...document.querySelectorAll("[data-row]")];
}

function move(step) {
  const all = rows();
  if (!all.length) return;
  const current = all.findIndex((row) => row.classList.contains("current"));
  const next = all[Math.max(0, Math.min(all.length - 1, current + step))];
  all[current]?.classList.remove("current");
  next.classList.add("current");
  next.scrollIntoView({ block: "nearest" });
}

function currentRow() {
  return document.querySelector("[data-row].current");
}

function permissions() {
  return document.querySelector("[data-shortcuts]")?.dataset.shortcuts.split(" ") ?? [];
}

export function showShortcuts() {
  showTable("Keyboard shortcuts", SHORTCUTS.filter(([, , permission]) => !permission || permissions().includes(permission)));
}

export function start() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) {
      // The browser would clear a search.
      if (event.key === "Escape") {
        event.preventDefault();
        event.target.blur();
      }
      return;
    }
    if (Date.now() - leader < 1500 && event.key in SCREENS) {
      event.preventDefault();
      location.assign(root + SCREENS[event.key]);
      return;
    }
    leader = 0;
    const target = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (target) {
      event.preventDefault();
      if (target.matches("input")) target.select();
      else target.click();
      return;
    }
    switch (event.key) {
      case "g":
        leader = Date.now();
        return;
      case "?":
        return showShortcuts();
      case "j":
        return move(1);
      case "k":
        return move(-1);
      case "x":
      case "X":
        return currentRow()?.querySelector("[data-select]")?.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, shiftKey: event.shiftKey }));
      case "Enter":
        if (event.target.closest("a, button")) return;
        return currentRow()?.querySelector("[data-open]")?.click();
      case "e": {
        const link = currentRow()?.closest("[data-may-edit]") && currentRow().querySelector("[data-open]");
        if (link) location.assign(`${link.href}/edit`);
        return;
      }
      case "n":
        if (permissions().includes("write")) location.assign(`${root}new-job`);
        return;
      case "r":
        if (!currentRow()?.closest("[data-may-run]")) return;
        // The key is not typed into the dialog.
        event.preventDefault();
        act("Run", [currentRow().dataset.resource]);
    }
  });
  document.querySelector("[data-shortcuts]")?.addEventListener("click", showShortcuts);
}
