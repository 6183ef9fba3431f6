// Cron expressions as choices: the values that each field lists, and the expression after a click on one.
// Nothing here touches the page.

const SHORTHANDS = { "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *" };
const MONTHS = ["", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
/** Minute, hour, day of the month, month, weekday: smallest and largest number, names. */
const FIELDS = [{ min: 0, max: 59 }, { min: 0, max: 23 }, { min: 1, max: 31 }, { min: 1, max: 12, names: MONTHS }, { min: 0, max: 6, names: WEEKDAYS }];

/** The five fields of an expression; null if it has another number of them. */
function fieldsOf(text) {
  const fields = (SHORTHANDS[text.trim().toLowerCase()] ?? text).trim().split(/\s+/);
  return fields.length === FIELDS.length ? fields : null;
}

/** The number of a number or name; NaN if it is neither. Sunday is 0 and 7. */
function numberOf(text, { min, max, names = [] }) {
  const place = names.findIndex((name) => name !== "" && name.toLowerCase() === text.toLowerCase());
  const number = place >= 0 ? place : /^\d{1,2}$/.test(text) ? Number(text) : NaN;
  return number >= min && number <= (names === WEEKDAYS ? 7 : max) ? number : NaN;
}

/** The values of one part of a list, such as `1-5/2`, `L` or `Mon#2`; null if it cannot be read. */
function valuesOfPart(part, index) {
  const field = FIELDS[index];
  if (index === 2 && /^L$/i.test(part)) return ["L"];
  const [, day, number] = (index === 4 && /^(\w+?)(L|#[1-5])$/i.exec(part)) || [];
  if (day) return Number.isNaN(numberOf(day, field)) ? null : [`${numberOf(day, field) % 7}${number.toUpperCase()}`];
  const [range, step = "1"] = part.split("/");
  const [first, last = first] = range === "*" ? [String(field.min), String(field.max)] : range.split("-");
  const from = numberOf(first, field);
  const isOpen = part.includes("/") && !range.includes("-");
  // `5/10` goes on to the end, and a range of weekdays may end on the Sunday after Saturday.
  const isSunday = range.includes("-") && field.names === WEEKDAYS && numberOf(last, field) === 0 && from > 0;
  const to = isOpen ? Math.max(field.max, from) : isSunday ? 7 : numberOf(last, field);
  if (!(from <= to) || !/^\d{1,2}$/.test(step) || Number(step) === 0) return null;
  const values = [];
  for (let value = from; value <= to; value += Number(step)) values.push(String(field.names === WEEKDAYS ? value % 7 : value));
  return values;
}

/** The values that a field lists, such as `["0", "30"]`, `["L"]` or `["1#2"]`; none if it is `*`; null if it cannot be read. */
export function cronValues(text, index) {
  const field = fieldsOf(text)?.[index];
  if (field === undefined) return null;
  if (field === "*") return [];
  const parts = field.split(",").map((part) => valuesOfPart(part, index));
  return parts.includes(null) ? null : [...new Set(parts.flat())];
}

/** A list as it is written: `0,30`, `Mon-Fri`, `1,15,L`. */
function listText(values, { names }) {
  const name = (value) => names?.[value] ?? String(value);
  const numbers = values.filter((value) => /^\d+$/.test(value)).map(Number).sort((a, b) => a - b);
  const parts = [];
  while (numbers.length) {
    let length = 1;
    while (numbers[length] === numbers[0] + length) length += 1;
    const run = numbers.splice(0, length);
    parts.push(...(length > 2 ? [`${name(run[0])}-${name(run.at(-1))}`] : run.map(name)));
  }
  const others = values.filter((value) => !/^\d+$/.test(value)).sort();
  return [...parts, ...others.map((value) => value.replace(/^\d/, name))].join(",");
}

/** The expression with a value in a field, or without it. A field that lists nothing becomes `*`. */
export function withCronValue(text, index, value, isListed) {
  const fields = fieldsOf(text) ?? FIELDS.map(() => "*");
  const rest = (cronValues(text, index) ?? []).filter((other) => other !== value);
  const values = isListed ? [...rest, value] : rest;
  fields[index] = values.length ? listText(values, FIELDS[index]) : "*";
  return fields.join(" ");
}
