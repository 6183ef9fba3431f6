// The definition of a job, and the form that shows it. Nothing here touches the page.
//
// The form is a view of the JSON: `fieldText` reads the text of a field from a definition, and
// `withField` returns a definition with another text in that field. A field whose text did not change
// leaves its member as it is, so members that the form does not know, or cannot express, are kept.

import { hasOffset, instantOf, isZone, offsetText, wallTime } from "./time.js";

/** The value of a secret that keeps the stored one. */
export const STORED = "${stored}";
/** Stands for a secret that was typed into the form; `withSecrets` replaces it. */
export const ENTERED = "${entered}";

export const WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const PAYLOADS = { http: "request", https: "request", storagequeue: "queueMessage", servicebusqueue: "serviceBusQueueMessage", servicebustopic: "serviceBusTopicMessage" };
const SECRET_HEADERS = ["authorization", "cookie", "proxy-authorization", "set-cookie", "x-api-key"];
const SECRET_PARAMETERS = ["sig", "code"];
const SECRETS = { basic: ["password"], clientcertificate: ["pfx", "password"], activedirectoryoauth: ["secret"], sharedaccesskey: ["sasKey"] };
/** Members that are left out when they are empty. */
const NOT_EMPTY = ["schedule", "headers", "tags", "missedRuns", "brokeredMessageProperties", "customMessageProperties"];
/** Members of `schedule` that only some frequencies have. */
const ONLY_WITH = { weekDays: ["week"], monthDays: ["month", "year"], monthlyOccurrences: ["month", "year"], months: ["month", "year"] };

/** A definition as text: JSON with short lists on one line. */
export function jsonText(definition) {
  const scalar = String.raw`(?:"(?:[^"\\]|\\.)*"|[-+.\w]+)`;
  const list = new RegExp(String.raw`\[\n\s*(${scalar}(?:,\n\s*${scalar})*)\n\s*\]`, "g");
  return JSON.stringify(definition, null, 2).replace(list, (found, values) => {
    const line = `[${values.replace(/,\n\s*/g, ", ")}]`;
    return line.length <= 60 ? line : found;
  });
}

// Members

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function copy(value) {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}

/** The name of a member as the object has it: names are read without case. */
function nameIn(object, name) {
  if (!isObject(object) || Object.hasOwn(object, name)) return name;
  return Object.keys(object).find((other) => other.toLowerCase() === name.toLowerCase()) ?? name;
}

/** The path from the root of a definition. A path is a text with dots, or a list of names. */
function fullPath(definition, path) {
  const names = Array.isArray(path) ? path : path.split(".");
  const isBare = isObject(definition) && definition[nameIn(definition, "properties")] === undefined && definition[nameIn(definition, "action")] !== undefined;
  return isBare ? names : ["properties", ...names];
}

/** The value of a member below `properties`; undefined if it is absent or null. */
export function get(definition, path) {
  let value = definition;
  for (const name of fullPath(definition, path)) {
    const key = nameIn(value, name);
    if (!isObject(value) || !Object.hasOwn(value, key)) return undefined;
    value = value[key];
  }
  return value ?? undefined;
}

function text(definition, path) {
  const value = get(definition, path);
  return typeof value === "string" ? value : "";
}

function lower(definition, path) {
  return text(definition, path).toLowerCase();
}

/** The definition with another value of a member; `undefined` removes it. */
export function set(definition, path, value) {
  return setIn(definition, fullPath(definition, path), value);
}

function setIn(object, [name, ...rest], value) {
  const result = isObject(object) ? { ...object } : {};
  const key = nameIn(result, name);
  let inner = rest.length ? setIn(result[key], rest, value) : copy(value);
  if (rest.length && value === undefined) {
    if (!isObject(object) || !Object.hasOwn(object, key)) return object;
    if (NOT_EMPTY.includes(name) && isObject(inner) && !Object.keys(inner).length) inner = undefined;
  }
  if (inner === undefined) delete result[key];
  else Object.defineProperty(result, key, { value: inner, enumerable: true, configurable: true, writable: true });
  return result;
}

export function equal(a, b) {
  if (a === b) return true;
  if (Array.isArray(a)) return Array.isArray(b) && a.length === b.length && a.every((value, index) => equal(value, b[index]));
  if (!isObject(a) || !isObject(b)) return false;
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && equal(a[name], b[name]));
}

// Texts of fields

const UNITS = { s: "S", sec: "S", second: "S", seconds: "S", m: "M", min: "M", minute: "M", minutes: "M", h: "H", hour: "H", hours: "H", d: "D", day: "D", days: "D" };

/** `PT30S` as `30 s`; other durations as they are. */
export function durationText(value) {
  const [, days, time, unit] = /^P(?:(\d+)D|T(\d+)([HMS]))$/i.exec(value) ?? [];
  if (days) return `${days} d`;
  return time ? `${time} ${{ H: "h", M: "min", S: "s" }[unit.toUpperCase()]}` : value;
}

/** `30 s` as `PT30S`; other texts as they are. */
function durationOf(shown) {
  const [, amount, word] = /^\s*(\d+)\s*([a-z]+)\s*$/i.exec(shown) ?? [];
  const unit = UNITS[word?.toLowerCase()];
  if (!unit) return shown.trim();
  return unit === "D" ? `P${amount}D` : `PT${amount}${unit}`;
}

function plain(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function numbersOf(shown) {
  return shown.split(/[\s,;]+/).filter(Boolean).flatMap((part) => {
    const [, from, to] = /^(\d+)[-–](\d+)$/.exec(part) ?? [];
    if (from && Number(from) <= Number(to) && to - from < 60) return Array.from({ length: to - from + 1 }, (_, index) => Number(from) + index);
    return /^-?\d{1,15}$/.test(part) ? [Number(part)] : [part];
  });
}

/** The zone in which the times of a definition are read. `zone` is that of the form, for jobs that run once. */
export function zoneOf(definition, zone) {
  const own = text(definition, "recurrence.timeZone");
  if (get(definition, "recurrence") !== undefined) return own && isZone(own) ? own : "UTC";
  return zone && isZone(zone) ? zone : "UTC";
}

/** How values of each kind are shown and read. An empty text is no value. */
const KINDS = {
  text: { show: plain, read: (shown) => shown },
  choice: { show: plain, read: (shown) => shown },
  integer: { show: plain, read: (shown) => (/^\s*-?\d{1,15}\s*$/.test(shown) ? Number(shown) : shown.trim()) },
  boolean: { show: plain, read: (shown) => ({ true: true, false: false })[shown] ?? shown },
  duration: { show: (value) => (typeof value === "string" ? durationText(value) : plain(value)), read: durationOf },
  numbers: { show: (value) => (Array.isArray(value) ? value.map(plain).join(", ") : plain(value)), read: numbersOf },
  time: {
    show: (value, zone) => {
      if (typeof value !== "string") return "";
      const [, date, time] = /^(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d(?::\d\d)?))?/i.exec(value) ?? [];
      if (!date) return "";
      if (!hasOffset(value)) return `${date}T${(time ?? "00:00").replace(/^(\d\d:\d\d):00$/, "$1")}`;
      const at = Date.parse(value);
      return Number.isNaN(at) ? "" : wallTime(at, zone);
    },
    // A schedule with a time zone reads times without an offset in its zone, so they stay readable.
    read: (shown, zone, definition) => {
      const wall = shown.length === 16 ? `${shown}:00` : shown;
      if (get(definition, "recurrence.timeZone") !== undefined) return wall;
      const at = instantOf(wall, zone);
      if (Number.isNaN(at)) return shown;
      // A time in a DST gap moves forward by its length.
      const real = wallTime(at, zone);
      return `${real.length === 16 ? `${real}:00` : real}${offsetText(at, zone)}`;
    },
  },
  utc: {
    show: (value) => KINDS.time.show(value, "UTC"),
    read: (shown) => `${shown.length === 16 ? `${shown}:00` : shown}Z`,
  },
  // Secrets are never shown.
  secret: { show: () => "", read: () => ENTERED },
};

/** The text of a field. `options` are the values of a choice, in the spelling of the form. */
export function fieldText(definition, path, kind, { zone, options } = {}) {
  const value = get(definition, path);
  if (value === undefined) return "";
  const shown = KINDS[kind].show(value, zoneOf(definition, zone));
  return options?.find((option) => option.toLowerCase() === shown.toLowerCase()) ?? shown;
}

/** The definition after a field got another text. */
export function withField(definition, path, kind, shown, { zone, options } = {}) {
  if (fieldText(definition, path, kind, { zone, options }) === shown) return definition;
  const value = shown.trim() === "" && kind !== "text" ? undefined : KINDS[kind].read(shown, zoneOf(definition, zone), definition);
  return set(definition, path, value === "" ? undefined : value);
}

/** The names of a list, such as weekdays; a single value is a list of one. */
export function listOf(definition, path) {
  const value = get(definition, path);
  return value === undefined ? [] : Array.isArray(value) ? value : [value];
}

/** The definition with a value in a list, or without it. The others keep their places. */
export function withListed(definition, path, value, isListed, order) {
  const same = (other) => String(other).toLowerCase() === String(value).toLowerCase();
  const rest = listOf(definition, path).filter((other) => !same(other));
  const list = isListed ? [...rest, value] : rest;
  const place = (entry) => order.findIndex((other) => String(other).toLowerCase() === String(entry).toLowerCase());
  const inOrder = isListed && order ? list.toSorted((a, b) => place(a) - place(b)) : list;
  return set(definition, path, inOrder.length ? inOrder : undefined);
}

// Schedule

/** `once`, `repeat` or `cron`. */
export function scheduleKind(definition) {
  const recurrence = get(definition, "recurrence");
  if (recurrence === undefined) return "once";
  return get(definition, "recurrence.cron") === undefined ? "repeat" : "cron";
}

/**
 * The definition with another kind of schedule. Zone, end and count are kept where they apply, and a start in the future
 * if `keepsStart`: the user chose it.
 */
export function withScheduleKind(definition, kind, { zone, now, keepsStart = true }) {
  if (scheduleKind(definition) === kind) return definition;
  if (kind === "once") {
    const start = fieldText(definition, "startTime", "time", { zone });
    const once = set(definition, "recurrence", undefined);
    const next = wallTime(nextFullHour(now), zoneOf(once, zone));
    const at = keepsStart && start && instantOf(start, zoneOf(once, zone)) > now ? start : next;
    return withField(set(once, "startTime", undefined), "startTime", "time", at, { zone });
  }
  const { count, endTime, timeZone } = Object.fromEntries(["count", "endTime", "timeZone"].map((name) => [name, get(definition, `recurrence.${name}`)]));
  const shared = { count, endTime, timeZone: timeZone ?? (zone && zone !== "UTC" ? zone : undefined) };
  const pattern = kind === "cron" ? { cron: "0 9 * * Mon-Fri" } : { frequency: "Day", interval: 1, schedule: proposedTimes("Day") };
  const changed = set(definition, "recurrence", { ...pattern, ...shared });
  // Without a start time, a new recurring job runs as soon as it is created. Cron does not.
  if (kind === "repeat" && get(changed, "startTime") === undefined) return withStart(changed, now);
  return changed;
}

function nextFullHour(now) {
  return Math.floor(now / 3600000 + 1) * 3600000;
}

/** The definition with the next full five minutes, a minute away at least, as start time. */
function withStart(definition, now) {
  const at = Math.ceil((now + 60000) / 300000) * 300000;
  return withField(definition, "startTime", "time", wallTime(at, zoneOf(definition)), {});
}

/** Hours and minutes that the editor proposes. */
function proposedTimes(frequency) {
  switch (frequency?.toLowerCase()) {
    case "minute":
      return {};
    case "hour":
      return { minutes: [0] };
    default:
      return { hours: [9], minutes: [0] };
  }
}

/**
 * The definition with another frequency, without the members of `schedule` that it does not have. Hours and
 * minutes that nobody chose become those of the frequency: "every minute" does not mean "in hour 9 only".
 */
export function withFrequency(definition, frequency) {
  const { hours, minutes } = get(definition, "recurrence.schedule") ?? {};
  const { hours: proposedHours, minutes: proposedMinutes } = proposedTimes(get(definition, "recurrence.frequency"));
  let changed = set(definition, "recurrence.frequency", frequency);
  if (String([hours, "", minutes]) === String([proposedHours, "", proposedMinutes])) {
    const times = proposedTimes(frequency);
    for (const member of ["hours", "minutes"]) changed = set(changed, `recurrence.schedule.${member}`, times[member]);
  }
  for (const [member, frequencies] of Object.entries(ONLY_WITH)) {
    if (!frequencies.includes(frequency.toLowerCase())) changed = set(changed, `recurrence.schedule.${member}`, undefined);
  }
  if (frequency.toLowerCase() !== "week") changed = set(changed, "recurrence.firstDayOfWeek", undefined);
  return changed;
}

/** The definition with another time zone. A start time that was typed as a wall time stays the same wall time. */
export function withZone(definition, before, zone) {
  if (get(definition, "recurrence") !== undefined) {
    const start = get(definition, "startTime");
    const isWall = typeof start === "string" && !/Z$/i.test(start);
    const wall = fieldText(definition, "startTime", "time", {});
    const changed = set(definition, "recurrence.timeZone", zone.trim() || undefined);
    return isWall && isZone(zone.trim() || "UTC") ? withField(set(changed, "startTime", undefined), "startTime", "time", wall, {}) : changed;
  }
  const start = text(definition, "startTime");
  if (!isZone(zone) || !start || /Z$/i.test(start) || !hasOffset(start)) return definition;
  const wall = fieldText(definition, "startTime", "time", { zone: before });
  return withField(set(definition, "startTime", undefined), "startTime", "time", wall, { zone });
}

/** The next weekday of the month that a list does not have: the first ones, then the second ones and so on. */
export function unusedOccurrence(list) {
  const all = [1, 2, 3, 4, 5, -1].flatMap((occurrence) => WEEKDAYS.map((day) => ({ day, occurrence })));
  const isUsed = ({ day, occurrence }) => list.some((used) => used.day === day && (used.occurrence ?? occurrence) === occurrence);
  return all.find((occurrence) => !isUsed(occurrence)) ?? all[0];
}

/** The definition with days of the month, weekdays of the month, or neither. */
export function withMonthPattern(definition, pattern) {
  let changed = definition;
  if (pattern !== "days") changed = set(changed, "recurrence.schedule.monthDays", undefined);
  if (pattern !== "weekdays") changed = set(changed, "recurrence.schedule.monthlyOccurrences", undefined);
  if (pattern === "days" && !listOf(changed, "recurrence.schedule.monthDays").length) changed = set(changed, "recurrence.schedule.monthDays", [1]);
  if (pattern === "weekdays" && !listOf(changed, "recurrence.schedule.monthlyOccurrences").length) {
    changed = set(changed, "recurrence.schedule.monthlyOccurrences", [{ day: "Monday", occurrence: 1 }]);
  }
  return changed;
}

// Target

/** `Http`, `StorageQueue`, `ServiceBusQueue`, `ServiceBusTopic`. `prefix` is `action` or `action.errorAction`. */
export function targetType(definition, prefix) {
  const type = lower(definition, `${prefix}.type`);
  return { storagequeue: "StorageQueue", servicebusqueue: "ServiceBusQueue", servicebustopic: "ServiceBusTopic" }[type] ?? "Http";
}

const NEW_PAYLOADS = {
  Http: { request: { method: "POST", uri: "" } },
  StorageQueue: { queueMessage: {} },
  ServiceBusQueue: { serviceBusQueueMessage: { authentication: { type: "SharedAccessKey" } } },
  ServiceBusTopic: { serviceBusTopicMessage: { authentication: { type: "SharedAccessKey" } } },
};

/** The definition with another type of target. `stash` keeps the members of the types that were left. */
export function withTargetType(definition, prefix, type, stash = {}) {
  const before = targetType(definition, prefix);
  if (before === type && get(definition, `${prefix}.type`) !== undefined) return definition;
  const payload = PAYLOADS[before.toLowerCase()];
  const left = get(definition, `${prefix}.${payload}`);
  if (left !== undefined) stash[`${prefix}.${before}`] = { [payload]: left };
  let changed = definition;
  for (const name of new Set(Object.values(PAYLOADS))) changed = set(changed, `${prefix}.${name}`, undefined);
  const fresh = stash[`${prefix}.${type}`] ?? NEW_PAYLOADS[type];
  // A queue message and a topic message have the same members but one.
  const isServiceBus = left !== undefined && before.startsWith("ServiceBus") && type.startsWith("ServiceBus") && !stash[`${prefix}.${type}`];
  changed = set(changed, `${prefix}.type`, type === "Http" ? httpType(fresh.request?.uri) : type);
  for (const [name, value] of Object.entries(fresh)) {
    const { queueName, topicPath, ...rest } = isServiceBus ? left : value;
    changed = set(changed, `${prefix}.${name}`, isServiceBus ? rest : value);
  }
  return changed;
}

function httpType(uri) {
  return /^http:/i.test(uri ?? "") ? "Http" : "Https";
}

/** The definition with another URL, and the type that its scheme needs. */
export function withUri(definition, prefix, uri) {
  const changed = set(definition, `${prefix}.request.uri`, uri);
  const type = httpType(uri);
  const isScheme = /^https?:/i.test(uri) || get(changed, `${prefix}.type`) === undefined;
  return isScheme && lower(changed, `${prefix}.type`) !== type.toLowerCase() ? set(changed, `${prefix}.type`, type) : changed;
}

/** The definition with another kind of authentication of an HTTP request; empty is none. */
export function withAuthentication(definition, prefix, type) {
  const path = `${prefix}.request.authentication`;
  return set(definition, path, type ? { type } : undefined);
}

/** The definition with another retry policy; empty is the default one. */
export function withRetryType(definition, prefix, type) {
  const path = `${prefix}.retryPolicy`;
  if (!type) return set(definition, path, undefined);
  if (type === "None") return set(definition, path, { retryType: "None" });
  let changed = set(definition, `${path}.retryType`, type);
  if (type === "Fixed") changed = set(set(changed, `${path}.maxInterval`, undefined), `${path}.maxAge`, undefined);
  if (get(changed, `${path}.retryInterval`) === undefined) changed = set(changed, `${path}.retryInterval`, "PT30S");
  if (get(changed, `${path}.retryCount`) === undefined) changed = set(changed, `${path}.retryCount`, type === "Fixed" ? 4 : 8);
  return changed;
}

/** The definition with an error action, or without. */
export function withErrorAction(definition, isUsed, stash = {}) {
  const before = get(definition, "action.errorAction");
  if (isUsed === (before !== undefined)) return definition;
  if (!isUsed) {
    stash.errorAction = before;
    return set(definition, "action.errorAction", undefined);
  }
  return set(definition, "action.errorAction", stash.errorAction ?? { type: "Https", ...NEW_PAYLOADS.Http });
}

// Rows of names and values

/** Names and values of an object member, such as headers. */
export function entriesOf(definition, path) {
  const value = get(definition, path);
  return isObject(value) ? Object.entries(value).map(([name, value]) => [name, plain(value)]) : [];
}

/** The definition with these names and values. Values that did not change keep their type. */
export function withEntries(definition, path, rows) {
  const before = get(definition, path);
  const result = {};
  for (const [name, shown] of rows.filter(([name, shown]) => name !== "" || shown !== "")) {
    const old = isObject(before) && Object.hasOwn(before, name) && plain(before[name]) === shown ? before[name] : shown;
    Object.defineProperty(result, name, { value: old, enumerable: true, configurable: true, writable: true });
  }
  const isAbsent = !Object.keys(result).length;
  if (isAbsent && before === undefined) return definition;
  if (!isAbsent && equal(before, result)) return definition;
  return set(definition, path, isAbsent ? undefined : result);
}

// Parts of the form

/** Names of the parts of the form that a definition uses: a part is shown if one of its names is here. */
export function partsOf(definition) {
  const parts = new Set();
  const has = (path, part) => get(definition, path) !== undefined && parts.add(part);
  const kind = scheduleKind(definition);
  parts.add(kind);
  if (kind !== "once") parts.add("recurring");
  if (kind === "repeat") {
    const frequency = lower(definition, "recurrence.frequency");
    parts.add(frequency);
    if (frequency === "month" || frequency === "year") parts.add("monthly");
    const interval = get(definition, "recurrence.interval") ?? 1;
    if (frequency === "week" && interval !== 1) parts.add("weeks");
    has("recurrence.firstDayOfWeek", "weeks");
    has("recurrence.schedule.weekDays", "week");
    has("recurrence.schedule.months", "monthly");
    has("recurrence.schedule.monthDays", "monthDays");
    has("recurrence.schedule.monthlyOccurrences", "monthlyOccurrences");
    if (parts.has("monthDays") || parts.has("monthlyOccurrences")) parts.add("monthly");
  }
  for (const name of ["missedRuns", "overlap", "jitter", "timeout"]) has(name, "options");
  has("action.signing", "options");
  has("description", "about");
  has("tags", "about");
  if (lower(definition, "state") === "disabled") parts.add("disabled");
  for (const prefix of ["action", "action.errorAction"]) {
    if (get(definition, prefix) === undefined) continue;
    parts.add(prefix);
    const type = targetType(definition, prefix);
    parts.add(`${prefix}:${type}`);
    if (type.startsWith("ServiceBus")) {
      parts.add(`${prefix}:ServiceBus`);
      const payload = PAYLOADS[type.toLowerCase()];
      has(`${prefix}.${payload}.brokeredMessageProperties`, `${prefix}:properties`);
      has(`${prefix}.${payload}.customMessageProperties`, `${prefix}:properties`);
    }
    const authentication = lower(definition, `${prefix}.request.authentication.type`);
    if (type === "Http" && authentication && authentication !== "notspecified") parts.add(`${prefix}:${authentication}`).add(`${prefix}:authentication`);
    const method = lower(definition, `${prefix}.request.method`);
    if (!["get", "head", "options", "delete"].includes(method)) parts.add(`${prefix}:body`);
    has(`${prefix}.request.body`, `${prefix}:body`);
    has(`${prefix}.request.headers`, `${prefix}:headers`);
    const retry = lower(definition, `${prefix}.retryPolicy.retryType`);
    if (get(definition, `${prefix}.retryPolicy`) !== undefined) parts.add(`${prefix}:retry`);
    if (retry === "fixed" || retry === "exponential") parts.add(`${prefix}:retries`);
    if (retry === "exponential") parts.add(`${prefix}:exponential`);
  }
  return parts;
}

// From and to the API

/** The definition of a new job: every day at 9, beginning soon. Nothing runs when it is created. */
export function newDefinition({ zone, now }) {
  const recurrence = { frequency: "Day", interval: 1, ...(zone && zone !== "UTC" ? { timeZone: zone } : {}), schedule: proposedTimes("Day") };
  const definition = { properties: { startTime: "", recurrence, action: { type: "Https", ...copy(NEW_PAYLOADS.Http) }, state: "Enabled" } };
  return withStart(definition, now);
}

/** Whether the values of a header are secret. */
export function isSecretHeader(name, configured = []) {
  return [...SECRET_HEADERS, ...configured].some((secret) => secret.toLowerCase() === name.trim().toLowerCase());
}

function maskUri(uri) {
  const [, base, query, fragment] = /^([^?#]*)(?:\?([^#]*))?(#.*)?$/s.exec(uri) ?? [];
  if (query === undefined) return uri;
  const parameters = query.split("&").map((parameter) => {
    const at = parameter.indexOf("=");
    return at >= 0 && SECRET_PARAMETERS.includes(parameter.slice(0, at).toLowerCase()) ? `${parameter.slice(0, at)}=${STORED}` : parameter;
  });
  return `${base}?${parameters.join("&")}${fragment ?? ""}`;
}

/** A job of the API as a definition that changes nothing: without the members that the server sets, and with `${stored}` for secrets. */
export function editable(job, secretHeaders = []) {
  let definition = { properties: copy(job.properties) };
  definition = set(definition, "status", undefined);
  if (["completed", "faulted"].includes(lower(definition, "state"))) definition = set(definition, "state", undefined);
  for (const prefix of ["action", "action.errorAction"]) {
    if (get(definition, prefix) === undefined) continue;
    const uri = get(definition, `${prefix}.request.uri`);
    if (typeof uri === "string") definition = set(definition, `${prefix}.request.uri`, maskUri(uri));
    for (const [name] of entriesOf(definition, `${prefix}.request.headers`)) {
      if (isSecretHeader(name, secretHeaders)) definition = set(definition, [...prefix.split("."), "request", "headers", name], STORED);
    }
    if (get(definition, `${prefix}.queueMessage`) !== undefined) definition = set(definition, `${prefix}.queueMessage.sasToken`, STORED);
    for (const payload of ["request", "serviceBusQueueMessage", "serviceBusTopicMessage"]) {
      const path = `${prefix}.${payload}.authentication`;
      if (get(definition, path) === undefined) continue;
      for (const name of ["certificateThumbprint", "certificateExpiration", "certificateExpirationDate", "certificateSubjectName"]) {
        definition = set(definition, `${path}.${name}`, undefined);
      }
      for (const name of SECRETS[lower(definition, `${path}.type`)] ?? []) definition = set(definition, `${path}.${name}`, STORED);
    }
  }
  return definition;
}

/** A value without stored secrets: empty in headers and URLs, absent elsewhere. */
function withoutStored(value, name) {
  if (typeof value === "string") return value.replaceAll(STORED, "");
  if (Array.isArray(value)) return value.map((item) => withoutStored(item));
  if (!isObject(value)) return value;
  const members = Object.entries(value).filter(([, member]) => member !== STORED || name?.toLowerCase() === "headers");
  return Object.fromEntries(members.map(([key, member]) => [key, withoutStored(member, key)]));
}

/** The definition of a new job like a job of the API: without its secrets, and with a start time at which creating it runs nothing. */
export function duplicate(job, { secretHeaders = [], zone, now }) {
  const definition = withoutStored(editable(job, secretHeaders));
  const kind = scheduleKind(definition);
  const start = get(definition, "startTime");
  if (kind === "once" && !(Date.parse(start) > now)) return withField(definition, "startTime", "time", wallTime(nextFullHour(now), zone), { zone });
  return kind === "repeat" && start === undefined ? withStart(definition, now) : definition;
}

/** The definition to send: secrets that were typed, by the JSON of their path, take the place of `${entered}`. */
export function withSecrets(definition, secrets) {
  let result = definition;
  for (const [key, value] of secrets) {
    const path = JSON.parse(key);
    if (get(result, path) === ENTERED) result = set(result, path, value);
  }
  return result;
}

/** The definition for a preview of the schedule while the target is not filled in yet. */
export function forPreview(definition) {
  const isUntouched = targetType(definition, "action") === "Http" && text(definition, "action.request.uri") === "";
  if (!isUntouched || !isObject(get(definition, "action"))) return definition;
  return set(set(definition, "action.request.uri", "https://example.com/"), "action.type", "Https");
}

/** Paths of the members that differ, below `properties`. */
export function changes(before, after, path = []) {
  if (equal(before, after)) return [];
  if (!isObject(before) || !isObject(after)) return [path];
  const names = [...Object.keys(before), ...Object.keys(after).filter((name) => !Object.hasOwn(before, name))];
  return names.flatMap((name) => changes(before[name], after[name], [...path, name]));
}

/** The changes from `base` to `mine`, made to `theirs`. */
export function merge(base, mine, theirs) {
  let result = copy(theirs);
  for (const path of changes(base, mine)) {
    let value = mine;
    for (const name of path) value = isObject(value) ? value[name] : undefined;
    result = path.length ? setIn(result, path, value) : copy(mine);
  }
  return result;
}
