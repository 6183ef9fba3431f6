// The editor of a job: form and JSON in step, a live preview, and saving without losing anything.

import { cronValues, withCronValue } from "./cron.js";
import * as definitions from "./definition.js";
import { ask } from "./dialog.js";
import { placeOf, textAtField } from "./errors.js";
import { showPreview } from "./preview.js";
import { keepPageAtSessionEnd, send, sendForHeaders } from "./request.js";
import { showTestRun } from "./test-run.js";
import { isRepeated, isZone } from "./time.js";

/** Time without typing after which a preview is fetched. */
const QUIET = 300;
const CRON = "recurrence.cron";
/** Times of the day are read in this zone until the user chooses one. */
const BROWSER_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC";

const form = document.querySelector("[data-editor]");
const all = (selector) => [...form.querySelectorAll(selector)];
const one = (selector) => form.querySelector(selector);
const json = one("[data-json]");
const isNew = !form.dataset.resource;
const secretHeaders = form.dataset.secretHeaders.split(" ").filter(Boolean);

const state = {
  /** The definition as the page shows it. */
  definition: { properties: {} },
  /** The definition as it was loaded. */
  base: { properties: {} },
  /** Version of the job that was loaded; null for a new one. */
  etag: null,
  nextRun: null,
  /** Secrets that were typed, by the JSON of their path. */
  secrets: new Map(),
  /** Members of parts that the user left, for when they come back. */
  stash: {},
  /** The time zone of a job that runs once, which is not part of its definition. */
  zone: BROWSER_ZONE,
  isJsonValid: true,
  /** Paths whose errors are shown: those that the user has been to. */
  touched: new Set(),
  /** Whether the user tried to create the job: from then on all errors are shown. */
  isSubmitted: false,
  isSaved: false,
};

/** The text of a `data-` attribute as a path: without a final dot, and with the payload of Service Bus. */
function path(text) {
  const prefix = text.startsWith("action.errorAction.") ? "action.errorAction" : "action";
  const type = definitions.targetType(state.definition, prefix);
  const payload = type === "ServiceBusTopic" ? "serviceBusTopicMessage" : "serviceBusQueueMessage";
  return text.replace(/\.$/, "").replace("@.", `${payload}.`);
}

function optionsOf(control) {
  return control.matches("select") ? [...control.options].map((option) => option.value) : undefined;
}

// From the definition to the page

function setValue(control, value) {
  if (control.matches("select") && ![...control.options].some((option) => option.value === value)) {
    const option = new Option(value, value);
    control.append(option);
  }
  if (control.value !== value) control.value = value;
}

/** Shows the definition in the form. The control in which the user types is left as it is. */
function showForm(except) {
  const { definition, zone } = state;
  for (const control of all("[data-member]")) {
    if (control === except) continue;
    const { member, kind } = control.dataset;
    const at = path(member);
    if (kind === "secret") showSecret(control, at);
    else {
      const fallback = at === "state" ? "Enabled" : "";
      setValue(control, definitions.fieldText(definition, at, kind, { zone, options: optionsOf(control) }) || fallback);
    }
  }
  for (const control of all("[data-pfx]")) showSecret(control, path(control.dataset.pfx));
  for (const box of all("[data-list]")) {
    box.checked = definitions.listOf(definition, box.dataset.list).some((value) => String(value).toLowerCase() === box.value.toLowerCase());
  }
  showCron();
  for (const control of all("[data-uri]")) {
    const value = definitions.get(definition, `${path(control.dataset.uri)}.request.uri`) ?? "";
    if (control !== except) setValue(control, String(value));
  }
  for (const control of all("[data-authentication]")) {
    const type = definitions.fieldText(definition, `${path(control.dataset.authentication)}.request.authentication.type`, "choice", { options: optionsOf(control) });
    setValue(control, type.toLowerCase() === "notspecified" ? "" : type);
  }
  for (const control of all("[data-retry]")) {
    setValue(control, definitions.fieldText(definition, `${path(control.dataset.retry)}.retryPolicy.retryType`, "choice", { options: optionsOf(control) }));
  }
  const frequency = one("[data-frequency]");
  setValue(frequency, definitions.fieldText(definition, "recurrence.frequency", "choice", { options: optionsOf(frequency) }) || "Day");
  one("[data-error-action]").checked = definitions.get(definition, "action.errorAction") !== undefined;
  showZone(except);
  for (const container of all("[data-entries]")) showEntries(container, except);
  showOccurrences(except);
  showParts();
}

/** The value of a choice of the cron expression: that of a weekday has the number in the month that is selected. */
function cronValue(box) {
  return box.dataset.cron === "4" ? box.value + one("[data-cron-number]").value : box.value;
}

function showCron() {
  const text = definitions.fieldText(state.definition, CRON, "text");
  for (const box of all("[data-cron]")) box.checked = cronValues(text, Number(box.dataset.cron))?.includes(cronValue(box)) ?? false;
}

/** A secret is never shown, only whether there is one. */
function showSecret(control, at) {
  const value = definitions.get(state.definition, at);
  if (value !== definitions.ENTERED && control.value !== "") control.value = "";
  const isStored = value === definitions.STORED;
  control.placeholder = isStored ? "stored; leave empty to keep" : value === undefined ? "" : "entered";
  if (control.type === "file") {
    const hint = document.getElementById(control.getAttribute("aria-describedby"));
    hint.textContent = isStored ? "A certificate is stored; choose a file to replace it" : "Needs an https URL";
  }
}

/** Whether the zone of a job that runs once, which the server does not see, does not exist. */
function hasUnknownZone() {
  const zone = one("[data-zone-field]").value.trim();
  return definitions.scheduleKind(state.definition) === "once" && zone !== "" && !isZone(zone);
}

function showZoneError() {
  const field = one('[data-path="recurrence.timeZone"]');
  // An error of the API in this field stays.
  const own = field.querySelector(".error[data-of-browser]");
  if (own) {
    own.remove();
    one("[data-zone-field]").removeAttribute("aria-invalid");
  }
  if (hasUnknownZone()) showError(field, "There is no such time zone; choose one of the list, such as Europe/Berlin").dataset.ofBrowser = "";
}

function showZone(except) {
  const field = one("[data-zone-field]");
  const isOnce = definitions.scheduleKind(state.definition) === "once";
  const zone = isOnce ? state.zone : (definitions.get(state.definition, "recurrence.timeZone") ?? "");
  // A zone that does not exist stays until it is corrected.
  if (field !== except && !hasUnknownZone()) setValue(field, String(zone));
  const shown = field.value.trim() || "UTC";
  const option = [...one("#zones").options].find((option) => option.value.toLowerCase() === shown.toLowerCase());
  one("[data-zone-hint]").textContent = option ? `Now UTC${option.textContent}` : shown === "UTC" ? "Now UTC+00:00" : "";
  const isImmediate = isNew && definitions.get(state.definition, "startTime") === undefined;
  const hint = isOnce ? (isImmediate ? "Empty: at once" : "") : "The schedule is counted from here";
  const start = definitions.fieldText(state.definition, "startTime", "time", { zone: state.zone });
  one("[data-start-hint]").textContent = start && isZone(shown) && isRepeated(start, shown) ? `${start.slice(11)} occurs twice on this day; the first time is meant` : hint;
}

function showParts() {
  const parts = definitions.partsOf(state.definition);
  const isUsed = (names) => names.replaceAll(".:", ":").split(" ").some((name) => parts.has(name));
  for (const element of all("[data-show]")) element.hidden = !isUsed(element.dataset.show);
  for (const details of all("details[data-open]")) {
    // Opened when it is used for the first time; the user may close it.
    const used = isUsed(details.dataset.open);
    if (used && details.dataset.used !== "true") details.open = true;
    details.dataset.used = used;
  }
  for (const button of all("[data-schedule]")) button.setAttribute("aria-pressed", parts.has(button.dataset.schedule));
  for (const button of all("[data-target]")) {
    const prefix = path(button.dataset.target);
    button.setAttribute("aria-pressed", parts.has(`${prefix}:${button.dataset.value}`));
  }
  const pattern = parts.has("monthDays") ? "days" : parts.has("monthlyOccurrences") ? "weekdays" : "";
  one("[data-month-pattern]").value = pattern;
}

function showJson() {
  json.value = definitions.jsonText(state.definition);
  showJsonError("");
}

function showJsonError(text) {
  state.isJsonValid = text === "";
  one("[data-json-error]").textContent = text;
  one("[data-json-state]").textContent = text ? "not in step with the form" : "in step with the form";
  json.setAttribute("aria-invalid", text !== "");
  one("[data-fields]").disabled = text !== "";
  one("[data-save]").disabled = text !== "";
}

// Rows

function input(value, label, onInput, type = "text") {
  const field = document.createElement("input");
  field.type = type;
  field.value = value;
  field.autocomplete = type === "password" ? "new-password" : "off";
  field.spellcheck = false;
  field.setAttribute("aria-label", label);
  field.addEventListener("input", onInput);
  return field;
}

function select(values, value, label, onChange) {
  const field = document.createElement("select");
  for (const [key, text] of values) field.append(new Option(text, key));
  if (!values.some(([key]) => key === value)) field.append(new Option(value, value));
  field.value = value;
  field.setAttribute("aria-label", label);
  field.addEventListener("change", onChange);
  return field;
}

function removeButton(label, onClick) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "small quiet";
  button.textContent = "Remove";
  button.setAttribute("aria-label", label);
  button.addEventListener("click", onClick);
  return button;
}

function isHeaders(container) {
  return container.dataset.entries.endsWith("headers");
}

/** Names and values of rows; a stored secret that was left empty stays stored. */
function readEntries(container) {
  const at = path(container.dataset.entries).split(".");
  return [...container.children].map((row) => {
    const [name, value] = row.querySelectorAll("input");
    if (value.type !== "password") return [name.value.trim(), value.value];
    if (value.value) state.secrets.set(JSON.stringify([...at, name.value.trim()]), value.value);
    return [name.value.trim(), value.value ? definitions.ENTERED : row.dataset.stored ? definitions.STORED : ""];
  });
}

function changeEntries(container) {
  change(definitions.withEntries(state.definition, path(container.dataset.entries), readEntries(container)), { except: document.activeElement, at: container.dataset.entries });
}

function addEntry(container, name = "", value = "") {
  const row = document.createElement("div");
  row.className = "row";
  const update = () => changeEntries(container);
  const kind = isHeaders(container) ? "header" : container.dataset.entries === "tags" ? "tag" : "property";
  const nameField = input(name, `Name of the ${kind}`, () => {
    setSecrecy();
    update();
  });
  nameField.placeholder = "Name";
  const valueField = input(value, `Value of the ${kind}`, update);
  valueField.placeholder = "Value";
  const setSecrecy = () => {
    valueField.type = isHeaders(container) && definitions.isSecretHeader(nameField.value, secretHeaders) ? "password" : "text";
    valueField.autocomplete = valueField.type === "password" ? "new-password" : "off";
  };
  setSecrecy();
  if (valueField.type === "password") {
    valueField.value = "";
    if (value === definitions.STORED) {
      row.dataset.stored = "true";
      valueField.placeholder = "stored; leave empty to keep";
    } else if (value !== "") {
      valueField.placeholder = "entered";
      const key = JSON.stringify([...path(container.dataset.entries).split("."), name]);
      valueField.value = value === definitions.ENTERED ? (state.secrets.get(key) ?? "") : value;
    }
  }
  const remove = removeButton(`Remove the ${kind}`, () => {
    row.remove();
    update();
    container.parentElement.querySelector("[data-add-entry]").focus();
  });
  row.append(nameField, valueField, remove);
  container.append(row);
  return nameField;
}

function showEntries(container, except) {
  if (except && container.contains(except)) return;
  const at = path(container.dataset.entries);
  const shown = definitions.withEntries(state.definition, at, readEntries(container));
  if (shown === state.definition) return;
  container.replaceChildren();
  for (const [name, value] of definitions.entriesOf(state.definition, at)) addEntry(container, name, value);
}

const NUMBERS = [["", "every"], ["1", "first"], ["2", "second"], ["3", "third"], ["4", "fourth"], ["5", "fifth"], ["-1", "last"], ["-2", "last but one"], ["-3", "third last"], ["-4", "fourth last"], ["-5", "fifth last"]];
const OCCURRENCES = "recurrence.schedule.monthlyOccurrences";

function readOccurrences() {
  return [...one("[data-occurrences]").children].map((row) => {
    const [number, day] = row.querySelectorAll("select");
    return { day: day.value, ...(number.value === "" ? {} : { occurrence: Number(number.value) }) };
  });
}

function changeOccurrences() {
  const list = readOccurrences();
  change(definitions.set(state.definition, OCCURRENCES, list.length ? list : undefined), { except: document.activeElement, at: OCCURRENCES });
}

function addOccurrence(occurrence) {
  const row = document.createElement("div");
  row.className = "row";
  const number = select(NUMBERS, String(occurrence.occurrence ?? ""), "Which one", changeOccurrences);
  const day = select(definitions.WEEKDAYS.map((name) => [name, name]), String(occurrence.day ?? "Monday"), "Weekday", changeOccurrences);
  const remove = removeButton("Remove the weekday", () => {
    row.remove();
    changeOccurrences();
  });
  row.append(number, day, remove);
  one("[data-occurrences]").append(row);
}

function showOccurrences(except) {
  const container = one("[data-occurrences]");
  const list = definitions.listOf(state.definition, OCCURRENCES);
  if ((except && container.contains(except)) || definitions.equal(list, readOccurrences())) return;
  container.replaceChildren();
  for (const occurrence of list) addOccurrence(Object(occurrence));
}

// From the page to the definition

/** Takes another definition. `from` is `json` if it was typed as JSON. */
function change(definition, { from = "form", except, at } = {}) {
  if (at !== undefined) state.touched.add(path(at));
  if (definition === state.definition) return;
  state.definition = definition;
  if (from !== "json") showJson();
  showForm(except);
  schedulePreview();
}

function isChanged() {
  const name = isNew && one("[data-name]").value !== "";
  return !state.isSaved && (name || !state.isJsonValid || !definitions.equal(state.definition, state.base));
}

function readControl(control) {
  const { definition, zone } = state;
  const { member, kind } = control.dataset;
  const at = path(member);
  if (kind === "secret") {
    if (control.value === "") return definition;
    state.secrets.set(JSON.stringify(at.split(".")), control.value);
    schedulePreview();
    return definitions.set(definition, at, definitions.ENTERED);
  }
  return definitions.withField(definition, at, kind, control.value, { zone, options: optionsOf(control) });
}

async function readPfx(control) {
  const [file] = control.files;
  if (!file) return;
  const bytes = new Uint8Array(await file.arrayBuffer());
  const at = path(control.dataset.pfx);
  state.secrets.set(JSON.stringify(at.split(".")), btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")));
  change(definitions.set(state.definition, at, definitions.ENTERED), { except: control, at });
  schedulePreview();
}

function onInput(event) {
  const control = event.target;
  const { definition } = state;
  if (control === json) return readJson();
  const { member, list, uri, cron } = control.dataset;
  if (cron) {
    const text = withCronValue(definitions.fieldText(definition, CRON, "text"), Number(cron), cronValue(control), control.checked);
    return change(definitions.set(definition, CRON, text), { at: CRON });
  }
  if (member) return change(readControl(control), { except: control, at: member });
  if (uri) return change(definitions.withUri(definition, path(uri), control.value), { except: control, at: `${uri}request.uri` });
  if (list) {
    const order = [...form.querySelectorAll(`[data-list="${list}"]`)].map((box) => box.value);
    const value = control.dataset.number === undefined ? control.value : Number(control.value);
    return change(definitions.withListed(definition, list, value, control.checked, order), { at: list });
  }
  if (control.matches("[data-zone-field]")) {
    const before = state.zone;
    const zone = control.value.trim();
    if (definitions.scheduleKind(definition) === "once" && (zone === "" || isZone(zone))) state.zone = zone || "UTC";
    showZoneError();
    const changed = definitions.withZone(definition, before, zone);
    change(changed, { except: control, at: "recurrence.timeZone" });
    if (changed === definition) showForm(control);
    return;
  }
  if (control.matches("[data-name], [data-collection]")) {
    state.touched.add(control.matches("[data-name]") ? "@name" : "@collection");
    schedulePreview();
  }
}

function onChange(event) {
  const control = event.target;
  const { definition, stash } = state;
  const { authentication, retry } = control.dataset;
  if (control.matches("[data-pfx]")) readPfx(control);
  else if (authentication) change(definitions.withAuthentication(definition, path(authentication), control.value));
  else if (retry) change(definitions.withRetryType(definition, path(retry), control.value));
  else if (control.matches("[data-frequency]")) change(definitions.withFrequency(definition, control.value), { at: "recurrence.frequency" });
  else if (control.matches("[data-cron-number]")) showCron();
  else if (control.matches("[data-month-pattern]")) change(definitions.withMonthPattern(definition, control.value));
  else if (control.matches("[data-run-now]") && state.preview) showPreview(one("[data-preview]"), state.preview, view());
  else if (control.matches("[data-error-action]")) change(definitions.withErrorAction(definition, control.checked, stash));
}

function onClick(event) {
  const button = event.target.closest("button");
  if (!button) return;
  const { schedule, target, value, addEntry: entries } = button.dataset;
  const { definition, stash } = state;
  if (schedule) changeSchedule(schedule);
  else if (target) change(definitions.withTargetType(definition, path(target), value, stash));
  else if (entries) addEntry(one(`[data-entries="${entries}"]`)).focus();
  else if (button.matches("[data-add-occurrence]")) {
    addOccurrence(definitions.unusedOccurrence(readOccurrences()));
    changeOccurrences();
  } else if (button.matches("[data-reload]")) reload();
  else if (button.matches("[data-test]")) testRun(button);
  else if (button.matches("[data-hide-test]")) hideTestRun();
}

/** Changes the kind of schedule. What the user had before comes back with its kind. */
function changeSchedule(kind) {
  const { definition, stash } = state;
  const before = definitions.scheduleKind(definition);
  if (before === kind) return;
  const zone = definitions.get(definition, "recurrence.timeZone");
  if (typeof zone === "string" && isZone(zone)) state.zone = zone;
  stash[before] = { recurrence: definitions.get(definition, "recurrence"), startTime: definitions.get(definition, "startTime") };
  const known = stash[kind];
  const keepsStart = !isNew || state.touched.has("startTime");
  if (!known) return change(definitions.withScheduleKind(definition, kind, { zone: state.zone, now: Date.now(), keepsStart }));
  change(definitions.set(definitions.set(definition, "recurrence", known.recurrence), "startTime", known.startTime));
}

function readJson() {
  let definition;
  try {
    definition = JSON.parse(json.value);
  } catch (error) {
    return showJsonError(`Not JSON: ${error.message}. The form is locked until this is corrected.`);
  }
  if (typeof definition !== "object" || definition === null || Array.isArray(definition)) {
    return showJsonError("Must be an object, such as {\"properties\": {}}.");
  }
  showJsonError("");
  // Users of JSON see all errors.
  state.touched.add("");
  change(definition, { from: "json" });
}

// Errors

/** Shows errors of the API beside their fields. Returns their messages, those without a visible field, and how many are not shown yet. */
function showErrors(error, { onlyTouched }) {
  for (const element of all(".field .error[data-shown]")) element.remove();
  for (const control of all("[aria-invalid=true]")) if (control !== json) control.removeAttribute("aria-invalid");
  if (!error) return {};
  const fields = all("[data-path]").map((element) => ({ element, path: path(element.dataset.path), value: element.querySelector("[data-name], [data-collection]")?.value }));
  const visible = fields.filter(({ element }) => !element.closest("[hidden]"));
  const messages = [];
  const other = [];
  let hidden = 0;
  for (const problem of error.details.length ? error.details : [error]) {
    const field = placeOf(problem, visible.filter(({ path }) => path !== ""));
    if (!field) {
      other.push(problem.message);
      messages.push(problem.message);
      continue;
    }
    if (onlyTouched && ![...state.touched].some((touched) => touched.startsWith(field.path) || field.path.startsWith(touched))) {
      hidden += 1;
      continue;
    }
    messages.push(problem.message);
    showError(field.element, textAtField(problem));
  }
  return { messages, other, hidden };
}

function showError(element, text) {
  const message = document.createElement("span");
  message.className = "error";
  message.dataset.shown = "";
  message.textContent = text;
  message.id = `${element.dataset.path}-error`;
  message.setAttribute("aria-live", "polite");
  element.append(message);
  element.closest("details")?.setAttribute("open", "");
  for (const control of element.querySelectorAll("input, select, textarea")) {
    control.setAttribute("aria-invalid", "true");
    control.setAttribute("aria-errormessage", message.id);
  }
  return message;
}

function showProblems(texts) {
  const notice = one("[data-problems]");
  notice.hidden = texts.length === 0;
  notice.replaceChildren(...texts.map((text) => Object.assign(document.createElement("p"), { textContent: text })));
}

// Preview

/** Names of jobs and collections. */
const NAME = /^[A-Za-z][A-Za-z0-9_-]{0,99}$/;
/** The longest time of a timer. */
const TIMER_MAX = 2 ** 31 - 1;

let timer = null;
/** Previews again when the first run of the preview has passed. */
let renewal = null;
let running = null;
let isSaving = false;

function schedulePreview() {
  clearTimeout(timer);
  timer = setTimeout(preview, QUIET);
}

/** The path of a job in the API, by the name of its collection in the console: `c` or `@subscription/group/c`. */
function resource(collection, name) {
  const names = collection.split("/").map(encodeURIComponent);
  if (!collection.startsWith("@")) return `/api/collections/${names.join("/")}/jobs/${encodeURIComponent(name)}`;
  const [subscription, group, last] = names;
  return `/subscriptions/${subscription.replace(/^%40/, "")}/resourceGroups/${group}/providers/Microsoft.Scheduler/jobCollections/${last}/jobs/${encodeURIComponent(name)}`;
}

function currentResource() {
  if (!isNew) return form.dataset.resource;
  return resource(one("[data-collection]").value.trim(), one("[data-name]").value.trim());
}

/** A collection that the caller can read, for the preview of a job without one. */
function anyCollection() {
  return one("#collections option")?.value ?? "default";
}

/** A new job can be previewed before it has a valid name. */
function previewResource() {
  if (!isNew) return form.dataset.resource;
  const [collection, name] = ["[data-collection]", "[data-name]"].map((selector) => one(selector).value.trim());
  return resource(isCollection(collection) ? collection : anyCollection(), NAME.test(name) ? name : "new-job-without-name");
}

function isCollection(text) {
  return text.startsWith("@") || NAME.test(text);
}

/** Shows errors of the names, which a preview does not send. */
function showNameErrors() {
  if (!isNew) return;
  for (const [selector, at, missing, isValid] of [["[data-name]", "@name", "Enter a name", (text) => NAME.test(text)], ["[data-collection]", "@collection", "Enter a collection", isCollection]]) {
    const text = one(selector).value.trim();
    const error = text ? "Must begin with a letter and have at most 100 letters, digits, - and _" : missing;
    if (text ? !isValid(text) : state.isSubmitted) showError(one(`[data-path="${at}"]`), error);
  }
}

/** Whether a preview is out of date: its first run has passed. */
function isStale({ occurrences: [first] }) {
  return first !== undefined && Date.parse(first) <= Date.now();
}

/** Keeps the preview of a definition while the page is open; null if it is invalid. */
function keepPreview(answer, previewed) {
  Object.assign(state, { preview: answer, previewed });
  clearTimeout(renewal);
  if (!answer?.occurrences.length || isStale(answer)) return;
  renewal = setTimeout(preview, Math.min(Date.parse(answer.occurrences[0]) - Date.now() + 1000, TIMER_MAX));
}

/** Whether the preview, or the errors in its place, are those of the present definition. */
function isPreviewed() {
  const { preview, previewed } = state;
  // The first run of a job that runs at once has always passed.
  const isCurrent = !preview || preview.runsAtOnce || !isStale(preview);
  return isCurrent && previewed?.definition === state.definition && previewed.resource === previewResource();
}

/** Whether saving would fail for the same reason. */
function isRefused({ status }) {
  return status >= 400 && status < 500 && status !== 429;
}

async function preview() {
  if (!state.isJsonValid) return;
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  const { definition } = state;
  const resource = previewResource();
  const status = one("[data-preview-state]");
  status.textContent = "Updating";
  const shown = state.isSubmitted ? definition : definitions.forPreview(definition);
  const body = definitions.withSecrets(shown, state.secrets);
  try {
    const answer = await send("POST", `${resource}/preview`, { body, signal });
    status.textContent = "";
    showErrors(null, {});
    showProblems([]);
    showNameErrors();
    showZoneError();
    if (isNew && answer.effect === "Replace" && NAME.test(one("[data-name]").value.trim())) showError(one('[data-path="@name"]'), "A job with this name exists in the collection");
    if (!isNew && answer.etag && answer.etag !== state.etag) showConflict();
    keepPreview(answer, { definition, resource });
    showPreview(one("[data-preview]"), answer, view());
  } catch (error) {
    if (error.name === "AbortError") return;
    status.textContent = "";
    if (error.status === 401) return;
    const { messages, other, hidden } = showErrors(error, { onlyTouched: isNew && !state.isSubmitted });
    showNameErrors();
    showZoneError();
    // Errors of an earlier attempt to save that are corrected by now.
    if (!one("[data-problems]").hidden && !one("[data-sign-in-link]")) showProblems(other);
    keepPreview(null, isRefused(error) ? { definition, resource } : undefined);
    showPreview(one("[data-preview]"), await previewOfSchedule(error, signal), { ...view(), messages, isIncomplete: hidden > 0 });
    // The limit of requests is for a minute.
    if (error.status === 429 || error.status === 0) timer = setTimeout(preview, 5000);
  }
}

/** The preview of the schedule while only the URL is wrong, such as one that is being typed; null if there is none. */
async function previewOfSchedule(error, signal) {
  const problems = error.details?.length ? error.details : [error];
  if (!problems.every(({ target }) => target === "properties.action.request.uri")) return null;
  try {
    const body = definitions.withSecrets(definitions.forPreview(definitions.set(state.definition, "action.request.uri", "")), state.secrets);
    return await send("POST", `${previewResource()}/preview`, { body, signal });
  } catch {
    return null;
  }
}

/** Whether the new job is also to run once at its creation. */
function runsNow() {
  const box = one("[data-run-now]");
  return Boolean(box?.checked && !box.closest("[hidden]"));
}

/** What the preview needs of the editor. */
function view() {
  const { definition, base } = state;
  return {
    isNew,
    nextRun: state.nextRun,
    runsNow: runsNow(),
    zone: definitions.zoneOf(definition, state.zone),
    changes: isNew ? [] : definitions.changes(base, definition).map((names) => names.filter((name, index) => index > 0 || name !== "properties").join(".")),
  };
}

// Loading and saving

async function load() {
  const { json: job, headers } = await sendForHeaders("GET", form.dataset.resource);
  return { definition: definitions.editable(job, secretHeaders), etag: headers.get("ETag"), nextRun: job.properties?.status?.nextExecutionTime ?? null };
}

function showConflict() {
  const notice = one("[data-conflict]");
  notice.hidden = false;
  const text = document.createElement("p");
  text.textContent = "This job was changed since you opened it. Nothing you typed is lost.";
  const button = document.createElement("button");
  button.type = "button";
  button.dataset.reload = "";
  button.textContent = "Load the new version and keep my changes";
  notice.replaceChildren(text, button);
}

/** Loads the present version and makes the same changes to it. */
async function reload() {
  const notice = one("[data-conflict]");
  try {
    const { definition, etag, nextRun } = await load();
    const merged = definitions.merge(state.base, state.definition, definition);
    Object.assign(state, { base: definition, etag, nextRun });
    notice.hidden = true;
    change(merged);
    schedulePreview();
    one("[data-save]").focus();
  } catch (error) {
    if (error.status !== 404) return showProblems([error.message]);
    state.etag = null;
    notice.replaceChildren(Object.assign(document.createElement("p"), { textContent: "The job was deleted. Saving creates it again; secrets must be entered again." }));
  }
}

/** The session has ended: the user signs in in another tab and goes on here. */
function showSessionEnd() {
  if (one("[data-sign-in-link]")) return;
  showProblems(["Your session has ended. Nothing on this page is lost: "]);
  const link = Object.assign(document.createElement("a"), { href: `${document.documentElement.dataset.root}sign-in`, target: "_blank", rel: "noopener", textContent: "sign in in a new tab" });
  link.dataset.signInLink = "";
  one("[data-problems] p").append(link, ", then save here.");
}

/** Removes the message about the end of the session once the user has signed in again. */
function checkSession() {
  if (!document.hidden && one("[data-sign-in-link]")) preview();
}

/** Calls the target once with the definition as it is, without saving it. */
async function testRun(button) {
  if (!state.isJsonValid) return json.focus();
  const answer = await ask({ title: "Call the target now?", text: "It receives a real request with this definition. Nothing is saved, and nothing is retried.", confirm: "Test run" });
  if (!answer) return;
  const card = one("[data-test-result]");
  const body = card.querySelector(".body");
  card.hidden = false;
  body.replaceChildren(Object.assign(document.createElement("p"), { className: "soft", textContent: "Waiting for the target" }));
  card.scrollIntoView({ block: "start" });
  button.disabled = true;
  try {
    showTestRun(body, await send("POST", `${previewResource()}/test-run`, { body: definitions.withSecrets(state.definition, state.secrets) }));
    showErrors(null, {});
  } catch (error) {
    const { other } = showErrors(error, { onlyTouched: false });
    const texts = other.length ? other : ["The definition has errors; nothing was sent."];
    body.replaceChildren(...texts.map((text) => Object.assign(document.createElement("p"), { className: "fail", textContent: text })));
  } finally {
    button.disabled = false;
    card.focus({ preventScroll: true });
  }
}

function hideTestRun() {
  one("[data-test-result]").hidden = true;
  one("[data-test]").focus();
}

async function save() {
  if (isSaving) return;
  isSaving = true;
  try {
    await savePresent();
  } finally {
    isSaving = false;
  }
}

async function savePresent() {
  if (!state.isJsonValid) return json.focus();
  if (isNew) {
    state.isSubmitted = true;
    const missing = all("[data-name], [data-collection]").find((field) => field.value.trim() === "");
    if (missing) {
      missing.focus();
      clearTimeout(timer);
      // Shows the errors of all other fields too.
      return preview();
    }
  }
  if (hasUnknownZone()) return one("[data-zone-field]").focus();
  // Another preview may begin meanwhile, of what is typed.
  for (let attempt = 0; !isPreviewed() && attempt < 3; attempt += 1) {
    clearTimeout(timer);
    clearTimeout(renewal);
    await preview();
  }
  if (!isPreviewed()) {
    const link = one("[data-sign-in-link]");
    return link ? link.focus() : showProblems(["Nothing was saved: the server could not say whether saving starts a run. Try again."]);
  }
  const { definition } = state;
  if (state.preview?.runsAtOnce) {
    const confirm = isNew ? "Create and run" : "Save and run";
    if (!(await ask({ title: "Saving starts a run at once", text: "The start time is empty or has passed.", confirm }))) return;
  }
  const button = one("[data-save]");
  button.disabled = true;
  clearTimeout(timer);
  running?.abort();
  try {
    const headers = state.etag ? { "If-Match": state.etag } : { "If-None-Match": "*" };
    await send("PUT", currentResource(), { body: definitions.withSecrets(definition, state.secrets), headers, parameters: { note: one("[data-note]").value.trim() } });
    state.isSaved = true;
    if (runsNow()) await send("POST", `${currentResource()}/run`);
    const page = form.dataset.page || form.dataset.jobs + one("[data-collection]").value.trim().split("/").map(encodeURIComponent).join("/").replace(/^%40/, "@") + `/${encodeURIComponent(one("[data-name]").value.trim())}`;
    location.assign(page);
  } catch (error) {
    button.disabled = false;
    if (error.status === 401) return one("[data-sign-in-link]").focus();
    if (error.status === 412) {
      if (isNew && !state.etag) {
        showError(one('[data-path="@name"]'), "A job with this name exists in the collection; choose another name, or edit that job");
        return one("[data-name]").focus();
      }
      showConflict();
      return one("[data-conflict] button").focus();
    }
    const { other } = showErrors(error, { onlyTouched: false });
    if (error.status === 404 && isNew) showError(one('[data-path="@collection"]'), "This collection does not exist, and you may not create it");
    showProblems(other.length || !error.details ? [...new Set([...other])] : []);
    const first = one("[aria-invalid=true]:not([data-json])") ?? (other.length ? one("[data-problems]") : null);
    first?.focus();
    first?.scrollIntoView({ block: "center" });
  }
}

async function start() {
  try {
    if (isNew) {
      const zone = form.dataset.zone || BROWSER_ZONE;
      const { source } = form.dataset;
      const options = { secretHeaders, zone, now: Date.now() };
      state.base = source ? definitions.duplicate(await send("GET", source), options) : definitions.newDefinition(options);
    } else {
      const { definition, etag, nextRun } = await load();
      Object.assign(state, { base: definition, etag, nextRun });
    }
  } catch (error) {
    form.dataset.ready = "";
    return showProblems([error.message]);
  }
  state.definition = state.base;
  showJson();
  showForm();
  form.dataset.ready = "";
  form.addEventListener("input", onInput);
  form.addEventListener("change", onChange);
  form.addEventListener("click", onClick);
  // Texts that the API reads differently from how they were typed, such as 8-10, are shown as read.
  form.addEventListener("focusout", (event) => {
    if (event.target !== json && state.isJsonValid) showForm(event.relatedTarget);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    save();
  });
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && (event.key === "s" || event.key === "Enter")) {
      event.preventDefault();
      save();
    }
  });
  window.addEventListener("beforeunload", (event) => {
    if (isChanged()) event.preventDefault();
  });
  keepPageAtSessionEnd(showSessionEnd);
  document.addEventListener("visibilitychange", checkSession);
  window.addEventListener("focus", checkSession);
  if (isNew) one("[data-name]").focus();
  preview();
}

start();
