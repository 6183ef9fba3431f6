// Times in time zones, as text.

/** The two largest units, as the server writes them. */
function span(seconds) {
  let rest = seconds;
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
    const amount = Math.floor(rest / size);
    rest -= amount * size;
    if (amount || parts.length) parts.push(amount && `${amount} ${unit}`);
    if (parts.length === 2) break;
  }
  return parts.filter(Boolean).join(" ");
}

/** `in 4 d 18 h`, `12 min ago`, `now` */
export function relative(at, now = Date.now()) {
  const seconds = Math.floor(at / 1000) - Math.floor(now / 1000);
  if (seconds === 0) return "now";
  const text = span(Math.abs(seconds));
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}

/** `42 s`, `3 min 4 s`: the whole seconds since a time. */
export function elapsed(since, now = Date.now()) {
  return span(Math.max(0, Math.floor((now - since) / 1000))) || "0 s";
}

const formats = new Map();

function format(zone) {
  if (!formats.has(zone)) {
    const options = { hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", weekday: "short" };
    formats.set(zone, new Intl.DateTimeFormat("en-US", { ...options, timeZone: zone }));
  }
  return formats.get(zone);
}

const unknown = new Set();

/** Whether the browser knows a time zone. */
export function isZone(zone) {
  if (unknown.has(zone)) return false;
  try {
    return Boolean(format(zone));
  } catch {
    unknown.add(zone);
    return false;
  }
}

function parts(at, zone) {
  return Object.fromEntries(format(zone).formatToParts(at).map(({ type, value }) => [type, value]));
}

/** The wall time of an instant (milliseconds): `2026-11-20T02:30`, with seconds where they are not 0. */
export function wallTime(at, zone) {
  const { year, month, day, hour, minute, second } = parts(at, zone);
  return `${year.padStart(4, "0")}-${month}-${day}T${hour}:${minute}${second === "00" ? "" : `:${second}`}`;
}

/** `Fri 2026-11-20 02:30` */
export function dateTime(at, zone) {
  return `${parts(at, zone).weekday} ${wallTime(at, zone).replace("T", " ")}`;
}

/** Milliseconds by which a zone is ahead of UTC. */
function offset(at, zone) {
  const second = Math.floor(at / 1000) * 1000;
  return Date.parse(`${wallTime(second, zone)}Z`) - second;
}

/** The instant of a wall time. In a DST gap it is moved forward by the gap, in an overlap it is the first. */
export function instantOf(wall, zone) {
  const utc = Date.parse(`${wall}Z`);
  if (Number.isNaN(utc)) return NaN;
  const day = 86400000;
  const before = utc - offset(utc - day, zone);
  const after = utc - offset(utc + day, zone);
  if (before === after) return before;
  // The zone's offset changes near this time. The earlier offset is right unless the change has passed.
  if (Date.parse(`${wallTime(before, zone)}Z`) === utc) return before;
  if (Date.parse(`${wallTime(after, zone)}Z`) === utc) return after;
  return before;
}

/** Whether a wall time occurs twice in a zone, at the end of DST. */
export function isRepeated(wall, zone) {
  const first = instantOf(wall, zone);
  return !Number.isNaN(first) && [1800000, 3600000].some((later) => wallTime(first + later, zone) === wallTime(first, zone));
}

/** `+01:00`, `Z` */
export function offsetText(at, zone) {
  const minutes = Math.round(offset(at, zone) / 60000);
  if (minutes === 0) return "Z";
  const two = (number) => String(number).padStart(2, "0");
  return `${minutes < 0 ? "-" : "+"}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
}

/** Whether a date and time has an offset from UTC. */
export function hasOffset(text) {
  return /T.*(?:Z|[+-]\d\d:?\d\d)$/i.test(text);
}
