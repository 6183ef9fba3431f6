// The preview of a definition: its schedule in words, its next runs, and what saving it does.

import { dateTime, relative } from "./time.js";

/** An element with a text and a class. */
export function element(name, text, className) {
  const result = document.createElement(name);
  if (text) result.textContent = text;
  if (className) result.className = className;
  return result;
}

function time(at, zone) {
  const result = element("time", dateTime(Date.parse(at), zone));
  result.dateTime = at;
  result.title = `${dateTime(Date.parse(at), "UTC")} UTC`;
  return result;
}

function ago(at) {
  const result = element("time", relative(Date.parse(at)), "faint nowrap");
  result.dateTime = at;
  result.dataset.relative = "";
  return result;
}

function paragraph(className, ...parts) {
  const result = element("p", "", className);
  result.append(...parts);
  return result;
}

/** A sentence of the API, with its times in the zone. */
function sentence(text, zone) {
  const result = element("p", "", "sentence");
  for (const part of text.split(/(\d{4}-\d\d-\d\dT[\d:.]+Z)/)) result.append(/^\d{4}-.*Z$/.test(part) ? time(part, zone) : part);
  return result;
}

/** Sentences about the effect of saving. */
function effect(answer, { isNew, nextRun, zone, changes, runsNow }) {
  const lines = [];
  const next = answer.occurrences[0];
  if (!isNew && answer.effect === "Nothing") lines.push(paragraph("soft", "Saving changes nothing."));
  if (changes.length) {
    const shown = changes.slice(0, 6);
    const line = paragraph("soft", "Changes ");
    shown.forEach((path, index) => line.append(index ? ", " : "", element("code", path)));
    if (changes.length > shown.length) line.append(` and ${changes.length - shown.length} more`);
    lines.push(line);
  }
  if (!isNew && answer.effect === "Replace" && answer.state === "Enabled") {
    if (nextRun && next && Date.parse(nextRun) !== Date.parse(next)) lines.push(paragraph("soft", "Moves the next run from ", time(nextRun, zone), " to ", time(next, zone), "."));
    else if (nextRun && !next) lines.push(paragraph("note", "No run follows. The next one would have been ", time(nextRun, zone), "."));
    else if (next) lines.push(paragraph("soft", "The next run stays ", time(next, zone), "."));
  }
  if (answer.superseded.length) {
    const count = answer.superseded.length;
    lines.push(paragraph("note", `Ends ${count === 1 ? "a run that waits" : `${count} runs that wait`}: `, time(answer.superseded[0], zone), count > 1 ? " and later." : "."));
  }
  if (answer.state === "Disabled") lines.push(paragraph("note", "The job is disabled: it does not run until it is enabled."));
  if (answer.state === "Completed" || answer.state === "Faulted") lines.push(paragraph("note", `The job is ${answer.state.toLowerCase()}: it does not run again.`));
  if (!isNew && answer.effect === "Nothing" && !answer.runsAtOnce) return lines;
  lines.push(answer.runsAtOnce || runsNow ? paragraph("note", isNew ? "Creating the job starts a run at once." : "Saving starts a run at once.") : paragraph("soft", isNew ? "Creating the job does not start a run." : "Saving does not start a run."));
  return lines;
}

/** Shows the answer of a preview, or that there is none. */
export function showPreview(container, answer, view) {
  const parts = [];
  if (!answer) {
    for (const text of view.messages) parts.push(element("p", text, "fail wrap"));
    if (view.isIncomplete || !parts.length) parts.push(element("p", "The preview appears when the form is complete.", "soft"));
    container.replaceChildren(...parts);
    return;
  }
  parts.push(sentence(answer.description, view.zone));
  parts.push(...effect(answer, view));
  if (answer.occurrences.length) {
    parts.push(element("h3", `Next runs (${view.zone.replaceAll("_", " ")})`));
    const list = element("ol", "", "next-dates small");
    for (const at of answer.occurrences) {
      const item = element("li");
      item.append(time(at, view.zone), ago(at));
      list.append(item);
    }
    parts.push(list);
  } else parts.push(element("p", "No runs.", "soft"));
  for (const note of answer.notes) parts.push(element("p", note, "note"));
  container.replaceChildren(...parts);
}
