import assert from "node:assert/strict";
import { test } from "node:test";

import * as d from "../../assets/definition.js";
import { memberPath, placeOf } from "../../assets/errors.js";

const NOW = Date.parse("2026-11-16T14:02:30Z");

/** Fields of the form: path and kind. `@` is a Service Bus payload. */
const TARGET_FIELDS = [
  ["type", "choice"], ["request.uri", "text"], ["request.method", "choice"], ["request.body", "text"],
  ["request.authentication.type", "choice"], ["request.authentication.username", "text"], ["request.authentication.tenant", "text"],
  ["request.authentication.audience", "text"], ["request.authentication.clientId", "text"],
  ["queueMessage.storageAccount", "text"], ["queueMessage.queueName", "text"], ["queueMessage.message", "text"], ["queueMessage.messageFormat", "choice"],
  ...["serviceBusQueueMessage", "serviceBusTopicMessage"].flatMap((message) => [
    [`${message}.namespace`, "text"], [`${message}.transportType`, "choice"], [`${message}.message`, "text"], [`${message}.authentication.sasKeyName`, "text"],
    [`${message}.brokeredMessageProperties.label`, "text"], [`${message}.brokeredMessageProperties.timeToLive`, "duration"],
    [`${message}.brokeredMessageProperties.scheduledEnqueueTimeUtc`, "utc"], [`${message}.brokeredMessageProperties.forcePersistence`, "boolean"],
  ]),
  ["serviceBusQueueMessage.queueName", "text"], ["serviceBusTopicMessage.topicPath", "text"],
  ["retryPolicy.retryType", "choice"], ["retryPolicy.retryCount", "integer"], ["retryPolicy.retryInterval", "duration"],
  ["retryPolicy.maxInterval", "duration"], ["retryPolicy.maxAge", "duration"],
];
const FIELDS = [
  ["description", "text"], ["startTime", "time"], ["overlap", "choice"], ["jitter", "duration"], ["timeout", "duration"], ["state", "choice"],
  ["missedRuns.policy", "choice"], ["missedRuns.within", "duration"], ["action.signing", "choice"],
  ["recurrence.frequency", "choice"], ["recurrence.interval", "integer"], ["recurrence.count", "integer"], ["recurrence.endTime", "time"],
  ["recurrence.cron", "text"], ["recurrence.firstDayOfWeek", "choice"],
  ["recurrence.schedule.hours", "numbers"], ["recurrence.schedule.minutes", "numbers"], ["recurrence.schedule.monthDays", "numbers"],
  ...["action", "action.errorAction"].flatMap((prefix) => TARGET_FIELDS.map(([path, kind]) => [`${prefix}.${path}`, kind])),
];
const ENTRIES = ["tags", "action.request.headers", "action.serviceBusQueueMessage.customMessageProperties", "action.errorAction.request.headers"];

/** A generator of random numbers with a seed (mulberry32). */
function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const VALUES = {
  text: ["", "a", " a b ", "${stored}", "ä\n\"<script>", "0"],
  choice: ["Day", "week", "On", "Https", "StorageQueue", "servicebustopic", "Basic", "nonsense"],
  integer: [0, 1, -1, 1000, 1.5, "7", "x"],
  boolean: [true, false, "true"],
  duration: ["PT30S", "pt5m", "P1D", "PT1D", "PT1H30M", "00:00:30", "x", ""],
  numbers: [[0], [8, 12, 18], [1, -1], [], 5, ["a", 1], [[1]], "8-10"],
  time: ["2026-11-20T00:00:00Z", "2026-11-20T01:02:03.1234567Z", "2026-11-20T02:00:00+01:00", "2026-11-20", "2026-11-20T02:30:00", "soon"],
  utc: ["2026-11-20T00:00:00Z", "2026-11-20T00:00:00.5Z", "x"],
};
const ODD = [null, {}, [], 1, "text", true, { unknown: 1 }];

/** A definition with random members, some of wrong types, in other spellings, or unknown. */
function randomDefinition(seed) {
  const next = random(seed);
  const pick = (list) => list[Math.floor(next() * list.length)];
  let definition = next() < 0.2 ? { action: {} } : { properties: {} };
  if (next() < 0.5) definition = d.set(definition, "recurrence.timeZone", pick(["Europe/Berlin", "America/New_York", "Nowhere/None", 3]));
  for (const [path, kind] of FIELDS) {
    if (next() < 0.5) continue;
    definition = d.set(definition, path, next() < 0.9 ? pick(VALUES[kind]) : pick(ODD));
  }
  for (const path of ENTRIES) if (next() < 0.5) definition = d.set(definition, path, pick([{ a: "b" }, { Authorization: "x", n: 3, o: { p: null } }, { __proto__x: "1" }, "wrong", {}]));
  if (next() < 0.5) definition = d.set(definition, "recurrence.schedule.weekDays", pick([["Monday"], ["sunday", "Monday", "sunday"], "Friday", [1]]));
  if (next() < 0.5) definition = d.set(definition, pick(["newMember", "action.newMember", "recurrence.schedule.newMember", "action.request.newMember"]), pick(ODD.slice(1)));
  if (next() < 0.3) definition = JSON.parse(JSON.stringify(definition).replace('"recurrence"', '"Recurrence"').replace('"uri"', '"URI"'));
  return definition;
}

test("a definition that is shown in the form and read from it keeps every member", () => {
  for (let seed = 1; seed <= 1000; seed += 1) {
    const definition = randomDefinition(seed);
    const before = JSON.stringify(definition);
    let result = definition;
    for (const [path, kind] of FIELDS) result = d.withField(result, path, kind, d.fieldText(result, path, kind, { zone: "Asia/Tokyo" }), { zone: "Asia/Tokyo" });
    for (const path of ENTRIES) if (d.entriesOf(result, path).length) result = d.withEntries(result, path, d.entriesOf(result, path));
    assert.equal(JSON.stringify(result), before, `seed ${seed}`);
    assert.equal(JSON.stringify(definition), before, `seed ${seed}: the definition was changed in place`);
    assert.equal(JSON.stringify(JSON.parse(d.jsonText(definition))), before, `seed ${seed}: its text is another definition`);
  }
});

test("a change of one field changes no member outside it", () => {
  for (let seed = 1; seed <= 1000; seed += 1) {
    const definition = randomDefinition(seed);
    const [path, kind] = FIELDS[seed % FIELDS.length];
    const changed = d.withField(definition, path, kind, { numbers: "1, 2", integer: "42", time: "2027-01-02T03:04", utc: "2027-01-02T03:04", duration: "7 min" }[kind] ?? "Other");
    for (const difference of d.changes(definition, changed)) {
      const name = difference.filter((part, index) => index > 0 || part !== "properties").join(".").toLowerCase();
      const inside = path.toLowerCase();
      assert.ok(name.startsWith(inside) || inside.startsWith(name), `seed ${seed}: ${path} changed ${name}`);
    }
    assert.notEqual(d.get(changed, path), undefined, `seed ${seed}`);
  }
});

test("texts of fields are read as the API writes their values", () => {
  const read = (path, kind, shown) => d.get(d.withField({ properties: {} }, path, kind, shown), path);
  assert.equal(read("timeout", "duration", "30 s"), "PT30S");
  assert.equal(read("timeout", "duration", "5min"), "PT5M");
  assert.equal(read("timeout", "duration", "2 d"), "P2D");
  assert.equal(read("timeout", "duration", "PT1H30M"), "PT1H30M");
  assert.equal(read("timeout", "duration", "soon"), "soon");
  assert.deepEqual(read("recurrence.schedule.hours", "numbers", "8-10, 18"), [8, 9, 10, 18]);
  assert.deepEqual(read("recurrence.schedule.monthDays", "numbers", "1 -1"), [1, -1]);
  assert.deepEqual(read("recurrence.schedule.minutes", "numbers", "75, x"), [75, "x"]);
  assert.equal(read("recurrence.count", "integer", "12"), 12);
  assert.equal(read("recurrence.count", "integer", "many"), "many");
  assert.equal(read("recurrence.count", "integer", ""), undefined);
});

test("an emptied schedule is removed because the API refuses an empty one", () => {
  const definition = { properties: { recurrence: { frequency: "Day", schedule: { hours: [9] } } } };
  assert.deepEqual(d.withField(definition, "recurrence.schedule.hours", "numbers", ""), { properties: { recurrence: { frequency: "Day" } } });
});

test("start times are wall times of the schedule's zone, or have an offset", () => {
  const repeat = { properties: { recurrence: { frequency: "Day", timeZone: "Europe/Berlin" } } };
  assert.equal(d.get(d.withField(repeat, "startTime", "time", "2026-11-20T02:30"), "startTime"), "2026-11-20T02:30:00");
  assert.equal(d.get(d.withField({ properties: {} }, "startTime", "time", "2026-11-20T02:30", { zone: "Europe/Berlin" }), "startTime"), "2026-11-20T02:30:00+01:00");
  assert.equal(d.get(d.withField({ properties: {} }, "startTime", "time", "2026-07-20T02:30", { zone: "UTC" }), "startTime"), "2026-07-20T02:30:00Z");
  // DST gap: moved forward by its length. DST overlap: the first.
  assert.equal(Date.parse(d.get(d.withField({ properties: {} }, "startTime", "time", "2027-03-28T02:30", { zone: "Europe/Berlin" }), "startTime")), Date.parse("2027-03-28T01:30:00Z"));
  assert.equal(Date.parse(d.get(d.withField({ properties: {} }, "startTime", "time", "2026-10-25T02:30", { zone: "Europe/Berlin" }), "startTime")), Date.parse("2026-10-25T00:30:00Z"));
  const stored = { properties: { startTime: "2026-11-20T01:30:00Z", recurrence: { frequency: "Day", timeZone: "Europe/Berlin" } } };
  assert.equal(d.fieldText(stored, "startTime", "time"), "2026-11-20T02:30");
});

test("a new job has a start time in the future and no run at its creation", () => {
  const definition = d.newDefinition({ zone: "Europe/Berlin", now: NOW });
  assert.equal(d.get(definition, "startTime"), "2026-11-16T15:05:00");
  assert.equal(d.get(definition, "recurrence.timeZone"), "Europe/Berlin");
  assert.equal(d.get(d.newDefinition({ zone: "UTC", now: NOW }), "startTime"), "2026-11-16T14:05:00Z");
  const cron = d.withScheduleKind(definition, "cron", { zone: "Europe/Berlin", now: NOW });
  const again = d.withScheduleKind(d.set(cron, "startTime", undefined), "repeat", { zone: "Europe/Berlin", now: NOW });
  assert.equal(d.get(again, "startTime"), "2026-11-16T15:05:00");
  const once = d.withScheduleKind(d.set(cron, "startTime", undefined), "once", { zone: "Europe/Berlin", now: NOW });
  assert.equal(d.get(once, "startTime"), "2026-11-16T16:00:00+01:00");
  // A start that nobody chose is minutes away: too soon for a job that then runs while it is being written.
  const kind = { zone: "Europe/Berlin", now: NOW };
  assert.equal(d.get(d.withScheduleKind(definition, "once", { ...kind, keepsStart: false }), "startTime"), "2026-11-16T16:00:00+01:00");
  assert.equal(d.get(d.withScheduleKind(definition, "once", kind), "startTime"), "2026-11-16T15:05:00+01:00");
});

test("another frequency drops the members of the schedule that it does not have", () => {
  const weekly = { properties: { recurrence: { frequency: "Week", firstDayOfWeek: "Monday", schedule: { weekDays: ["Monday"], hours: [9] } } } };
  assert.deepEqual(d.withFrequency(weekly, "Day"), { properties: { recurrence: { frequency: "Day", schedule: { hours: [9] } } } });
});

test("another frequency proposes its own times, and keeps those that were chosen", () => {
  const of = (frequency, schedule) => ({ properties: { recurrence: { frequency, interval: 1, schedule } } });
  const times = (definition) => d.get(definition, "recurrence.schedule") ?? {};
  const daily = of("Day", { hours: [9], minutes: [0] });
  assert.deepEqual(times(d.withFrequency(daily, "Minute")), {});
  assert.deepEqual(times(d.withFrequency(daily, "Hour")), { minutes: [0] });
  assert.deepEqual(times(d.withFrequency(daily, "Month")), { hours: [9], minutes: [0] });
  assert.deepEqual(times(d.withFrequency(d.withFrequency(daily, "Minute"), "Week")), { hours: [9], minutes: [0] });
  const chosen = of("Day", { hours: [8, 17], minutes: [30] });
  assert.deepEqual(times(d.withFrequency(chosen, "Minute")), { hours: [8, 17], minutes: [30] });
});

test("the type of an HTTP target follows the scheme of its URL", () => {
  const definition = { properties: { action: { type: "Https", request: { method: "GET", uri: "" } } } };
  assert.equal(d.get(d.withUri(definition, "action", "http://a/"), "action.type"), "Http");
  assert.equal(d.get(d.withUri(definition, "action", "https://a/"), "action.type"), "Https");
  assert.equal(d.get(d.withUri(definition, "action", "${x}"), "action.type"), "Https");
});

test("a target that was left comes back with its members", () => {
  const definition = { properties: { action: { type: "https", request: { method: "GET", uri: "https://a/" } } } };
  const stash = {};
  const queue = d.withTargetType(definition, "action", "StorageQueue", stash);
  assert.deepEqual(queue, { properties: { action: { type: "StorageQueue", queueMessage: {} } } });
  assert.deepEqual(d.withTargetType(queue, "action", "Http", stash).properties.action.request, { method: "GET", uri: "https://a/" });
});

test("secrets of a job become placeholders and members of the server are left out", () => {
  const job = {
    id: "/x", name: "c/j", type: "t",
    properties: {
      state: "Completed", status: { executionCount: 1 },
      action: {
        type: "Https",
        request: { uri: "https://a/?b=1&SIG=abc#f", method: "GET", headers: { authorization: "Bearer x", "X-Mine": "y", Accept: "*/*" }, authentication: { type: "ClientCertificate", certificateThumbprint: "1" } },
        errorAction: { type: "StorageQueue", queueMessage: { queueName: "q" } },
      },
    },
  };
  assert.deepEqual(d.editable(job, ["x-mine"]), {
    properties: {
      action: {
        type: "Https",
        request: { uri: "https://a/?b=1&SIG=${stored}#f", method: "GET", headers: { authorization: "${stored}", "X-Mine": "${stored}", Accept: "*/*" }, authentication: { type: "ClientCertificate", pfx: "${stored}", password: "${stored}" } },
        errorAction: { type: "StorageQueue", queueMessage: { queueName: "q", sasToken: "${stored}" } },
      },
    },
  });
});

test("another weekday of the month is one that the list does not have", () => {
  assert.deepEqual(d.unusedOccurrence([]), { day: "Monday", occurrence: 1 });
  assert.deepEqual(d.unusedOccurrence([{ day: "Monday", occurrence: 1 }]), { day: "Tuesday", occurrence: 1 });
  const first = d.WEEKDAYS.map((day) => ({ day, occurrence: 1 }));
  assert.deepEqual(d.unusedOccurrence(first), { day: "Monday", occurrence: 2 });
  assert.deepEqual(d.unusedOccurrence([...first, { day: "Monday" }]), { day: "Tuesday", occurrence: 2 });
});

test("a secret that was typed is sent and not shown", () => {
  const definition = { properties: { action: { request: { authentication: { type: "Basic", password: d.ENTERED } } } } };
  const path = ["action", "request", "authentication", "password"];
  assert.equal(d.fieldText(definition, path.join("."), "secret"), "");
  assert.equal(d.get(d.withSecrets(definition, new Map([[JSON.stringify(path), "hunter2"]])), path), "hunter2");
  const replaced = d.set(definition, path, "from JSON");
  assert.equal(d.get(d.withSecrets(replaced, new Map([[JSON.stringify(path), "hunter2"]])), path), "from JSON");
});

test("changes are made again to a version that somebody else saved", () => {
  const base = { properties: { description: "a", timeout: "PT5M", recurrence: { frequency: "Day", interval: 1 } } };
  const mine = { properties: { description: "mine", recurrence: { frequency: "Day", interval: 2 } } };
  const theirs = { properties: { description: "a", timeout: "PT5M", jitter: "PT1S", recurrence: { frequency: "Week", interval: 1 } } };
  assert.deepEqual(d.merge(base, mine, theirs), { properties: { description: "mine", jitter: "PT1S", recurrence: { frequency: "Week", interval: 2 } } });
});

test("errors belong to the field of their member, or to the nearest around it", () => {
  const fields = ["recurrence.schedule.minutes", "action.request.headers", "@name"].map((path) => ({ path }));
  const path = (problem) => placeOf(problem, fields)?.path;
  assert.equal(memberPath("properties.recurrence.schedule.minutes[3]"), "recurrence.schedule.minutes");
  assert.equal(path({ target: "properties.recurrence.schedule.minutes[3]" }), "recurrence.schedule.minutes");
  assert.equal(path({ target: "properties.action.request.headers.Host" }), "action.request.headers");
  const named = [{ path: "@name", value: "a b" }, { path: "@collection", value: "c d" }];
  for (const [value, place] of [["a b", "@name"], ["c d", "@collection"], ["other", "@name"]]) {
    const message = `The name of a collection or job must begin with a letter (found "${value}")`;
    assert.equal(placeOf({ code: "InvalidResourceName", message }, named).path, place);
  }
  assert.equal(path({ target: "properties.unknown" }), undefined);
});

test("a duplicate has no secret, and a start time at which its creation runs nothing", () => {
  const request = { uri: "https://a.example/x?sig=&name=1", headers: { Accept: "*/*" }, authentication: { type: "Basic", username: "u" } };
  const duplicate = (properties) => d.duplicate({ properties: { action: { type: "Https", request }, ...properties } }, { secretHeaders: ["x-mine"], zone: "UTC", now: NOW }).properties;
  const headers = { Accept: "*/*", "X-Mine": "" };
  const copy = duplicate({ action: { type: "Https", request: { ...request, uri: "https://a.example/x?sig=s&name=1", headers: { ...headers, "X-Mine": "s" } } }, recurrence: { cron: "@daily" }, status: { executionCount: 3 } });
  assert.deepEqual(copy, { action: { type: "Https", request: { ...request, headers } }, recurrence: { cron: "@daily" } });
  assert.equal(duplicate({ startTime: "2026-11-16T14:00:00Z", state: "Completed" }).startTime, "2026-11-16T15:00:00Z");
  assert.equal(duplicate({ startTime: "2026-11-17T14:00:00Z" }).startTime, "2026-11-17T14:00:00Z");
  assert.notEqual(duplicate({ recurrence: { frequency: "Hour" } }).startTime, undefined);
});
