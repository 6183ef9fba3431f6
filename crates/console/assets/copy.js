// Copies a text of the page: a button with `data-copy` names the element that holds it.

import { tell } from "./request.js";

async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
    tell("Copied");
  } catch {
    // Browsers allow it on https and on this machine only: the user copies the selection.
    source.closest("details")?.setAttribute("open", "");
    getSelection().selectAllChildren(source);
    tell("Selected: press Ctrl+C to copy");
  }
}

export function start() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
  });
}
