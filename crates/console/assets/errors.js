// Where an error of the API belongs in the form, and its text there. Nothing here touches the page.

import { durationText } from "./definition.js";

/** Codes of errors about the path of the request. */
const OF_NAME = ["InvalidResourceName"];

/** The path of a member in the form: without `properties` and indexes. */
export function memberPath(target) {
  return (target ?? "").replace(/\[\d+\]/g, "").replace(/^properties\.?/, "");
}

/**
 * The field of an error: that of its target, or of the nearest member around it that has one.
 * `fields` are objects with a `path`, and those of names with their `value`.
 */
export function placeOf({ code, target, message }, fields) {
  const find = (path) => fields.find((field) => field.path.toLowerCase() === path.toLowerCase());
  if (OF_NAME.includes(code)) {
    const found = /\(found "(.*)"\)/s.exec(message ?? "")?.[1];
    return fields.find((field) => field.path.startsWith("@") && field.value === found) ?? find("@name");
  }
  for (let path = memberPath(target); path; path = path.includes(".") ? path.slice(0, path.lastIndexOf(".")) : "") {
    const field = find(path);
    if (field) return field;
  }
  return undefined;
}

/** The text of an error at its field: without the path of the member, with durations as the form shows them. */
export function textAtField({ target, message }) {
  const text = target && message.startsWith(`${target} `) ? message.slice(target.length + 1) : message;
  const shown = text.replace(/\bP(?=[\dT])(?:\d+D)?(?:T[\dHMS]+)?\b/g, durationText);
  return shown.charAt(0).toUpperCase() + shown.slice(1);
}
