// The result of a test run.

import { element } from "./preview.js";

const PHASES = [["dns", "DNS"], ["connect", "Connect"], ["tls", "TLS"], ["firstByte", "First byte"], ["total", "Total"]];

/** Milliseconds of `PT1.25S` or `PT1M2S`, as text. */
export function durationText(duration) {
  const [, hours, minutes, seconds] = /^PT(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?$/.exec(duration) ?? [];
  const milliseconds = ((Number(hours ?? 0) * 60 + Number(minutes ?? 0)) * 60 + Number(seconds ?? 0)) * 1000;
  if (milliseconds < 10) return `${milliseconds.toFixed(1)} ms`;
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}

/** The parts of a message of the history: what happened, headers and body of the response. */
export function messageParts(message, statusCode) {
  const [, summary, headers, body] = /^(.*?) Response Headers: ?(.*?) ?Body: ?(.*)$/s.exec(message) ?? [];
  return summary === undefined ? { summary: short(message), headers: "", body: "" } : { summary: short(summary, statusCode), headers: headers.trim(), body: indented(body.trim()) };
}

/** `503 Service Unavailable from a` for `Http Action - Response from host 'a': 'ServiceUnavailable'`, as on other pages. */
function short(summary, statusCode) {
  const [, host, status] = /^Http Action - Response from host '(.*)': '(.*)'$/.exec(summary) ?? [];
  const name = status?.replaceAll(/([a-z])([A-Z])/g, "$1 $2");
  // A status without a name has its code in place of one.
  if (status) return `${[statusCode, name].filter((part) => part !== undefined && part !== String(statusCode)).join(" ")} from ${host}`;
  return summary.replace(/^Http Action - Request to host '(.*?)'/, "Request to $1");
}

function indented(body) {
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
}

function mark(isSuccess) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", `mark ${isSuccess ? "ok" : "fail"}`);
  svg.setAttribute("viewBox", "0 0 12 12");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", isSuccess ? "M6 1a5 5 0 1 1 0 10a5 5 0 1 1 0-10z" : "M6 .8 11.6 11H.4z");
  path.setAttribute("fill", "currentColor");
  svg.append(path);
  return svg;
}

/** Shows the response of `POST …/test-run`. */
export function showTestRun(container, { status, statusCode, message, timing = {} }) {
  const isSuccess = status === "Completed";
  const state = element("p", "", "state sentence");
  state.append(mark(isSuccess), isSuccess ? "Succeeded" : "Failed");
  const { summary, headers, body } = messageParts(message, statusCode);
  const outcome = element("div", "", "stack");
  outcome.append(state, element("p", summary, "soft wrap"));
  const response = element("div", "", "stack");
  const facts = element("dl", "", "facts small");
  for (const [name, label] of PHASES) if (timing[name]) facts.append(element("dt", label), element("dd", durationText(timing[name])));
  if (facts.childElementCount) outcome.append(facts);
  for (const [label, text] of [["Response body", body], ["Response headers", headers]]) {
    if (!text) continue;
    const block = element("pre", text);
    block.tabIndex = 0;
    response.append(element("h3", label), block);
  }
  container.replaceChildren(outcome, response);
}
