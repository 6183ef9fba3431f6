// The dialog that changes a collection: plan, quota and tags.

import { placeOf, textAtField } from "./errors.js";
import { refresh } from "./live.js";
import { send, sendForHeaders, tell } from "./request.js";

function tagLines(tags = {}) {
  return Object.entries(tags).map(([name, value]) => `${name}=${value}`).join("\n");
}

/** Tags of lines such as `team=billing`. A removed tag is null. */
function tagsOf(lines, before = {}) {
  const pairs = lines.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const at = line.indexOf("=");
    return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  });
  const removed = Object.keys(before).map((name) => [name, null]);
  return Object.fromEntries([...removed, ...pairs]);
}

/** A number; other text as it is, so that the API says what is wrong. */
function number(text) {
  return /^-?\d+$/.test(text) ? Number(text) : text;
}

/** The values of the form as the collection has them. */
function valuesOf({ properties, tags }) {
  const { maxJobCount = "", maxRecurrence } = properties.quota ?? {};
  return {
    plan: properties.sku.name,
    jobs: String(maxJobCount),
    interval: maxRecurrence ? String(maxRecurrence.interval) : "",
    frequency: maxRecurrence?.frequency ?? "Minute",
    tags: tagLines(tags),
  };
}

/** The patch that makes the collection have these values; members that stay are left out. */
function patchOf(collection, values) {
  const before = valuesOf(collection);
  const isChanged = (...names) => names.some((name) => values[name].trim() !== before[name]);
  const patch = { properties: {} };
  if (isChanged("plan")) patch.properties.sku = { name: values.plan };
  const quota = {};
  const [jobs, interval] = [values.jobs.trim(), values.interval.trim()];
  if (isChanged("jobs")) quota.maxJobCount = jobs === "" ? null : number(jobs);
  if (isChanged("interval") || (interval !== "" && isChanged("frequency"))) {
    quota.maxRecurrence = interval === "" ? null : { frequency: values.frequency, interval: number(interval) };
  }
  if (Object.keys(quota).length) patch.properties.quota = quota;
  if (isChanged("tags")) patch.tags = tagsOf(values.tags, collection.tags);
  return patch;
}

function showErrors(form, error) {
  for (const shown of form.querySelectorAll("[data-shown]")) shown.remove();
  for (const control of form.querySelectorAll("[aria-invalid]")) control.removeAttribute("aria-invalid");
  const fields = [...form.querySelectorAll("[data-path]")].map((element) => ({ element, path: element.dataset.path }));
  const other = [];
  for (const problem of error ? (error.details.length ? error.details : [error]) : []) {
    const field = placeOf(problem, fields)?.element;
    if (!field) {
      other.push(problem.message);
      continue;
    }
    const message = document.createElement("span");
    message.className = "error";
    message.dataset.shown = "";
    message.id = `${field.dataset.path}-error`;
    message.textContent = textAtField(problem);
    message.setAttribute("aria-live", "polite");
    field.append(message);
    for (const control of field.querySelectorAll("input, select, textarea")) {
      control.setAttribute("aria-invalid", "true");
      control.setAttribute("aria-errormessage", message.id);
    }
  }
  const problems = form.querySelector("[data-problems]");
  problems.textContent = other.join(" ");
  problems.hidden = other.length === 0;
  form.querySelector("[aria-invalid]")?.focus();
}

/** Opens the dialog with the collection as it is now. */
async function open() {
  const form = dialog.querySelector("form");
  const { resource, name } = dialog.dataset;
  let loaded;
  try {
    loaded = await sendForHeaders("GET", resource);
  } catch (error) {
    return tell(error.message, { bad: true });
  }
  const collection = loaded.json;
  for (const [member, value] of Object.entries(valuesOf(collection))) form.elements[member].value = value;
  form.elements.note.value = "";
  showErrors(form, null);
  form.onsubmit = async (event) => {
    event.preventDefault();
    const { note, ...values } = Object.fromEntries(new FormData(form));
    const button = form.querySelector(".primary");
    button.disabled = true;
    try {
      await send("PATCH", resource, { body: patchOf(collection, values), headers: { "If-Match": loaded.headers.get("ETag") }, parameters: { note: note.trim() } });
    } catch (error) {
      return showErrors(form, error);
    } finally {
      button.disabled = false;
    }
    dialog.close();
    tell(`Saved ${name}`);
    await refresh();
  };
  dialog.showModal();
}

const dialog = document.querySelector("[data-collection-dialog]");
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-edit-collection]")) open();
  if (event.target.closest("[data-close]")) dialog.close();
});
