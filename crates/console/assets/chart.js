// Values of charts: beside the mark below the pointer, the one that is tapped, or the one that arrow keys move to in the
// chart that has the focus.

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
/** Weight of a deviation from the direction of the key. */
const ASIDE = 4;

/** Marks with a value. That of the mark whose value is shown is in `desc`: the browser would show a title a second time. */
const MARKS = ".hover:has(> title, > desc), .marks > :has(> title, > desc)";
/** Those for the pointer, which also sees the outcomes of a job in a list. */
const POINTED = `${MARKS}, .strip > :has(> title, > desc)`;

let mark = null;
let tooltip = null;
/** Whether the finger is on a mark whose value was not shown before. */
let isFirstTap = false;

function center(element) {
  const box = element.getBoundingClientRect();
  return [box.left + box.width / 2, box.top + box.height / 2];
}

function marksOf(region) {
  return [...region.querySelectorAll(MARKS)].filter((element) => element.getBoundingClientRect().width > 0);
}

/** The nearest mark in a direction. */
function next(marks, [x, y]) {
  const [fromX, fromY] = center(mark);
  let best = null;
  for (const element of marks) {
    const [toX, toY] = center(element);
    const [along, aside] = x ? [(toX - fromX) * x, Math.abs(toY - fromY)] : [(toY - fromY) * y, Math.abs(toX - fromX)];
    const distance = along + ASIDE * aside;
    if (along > 1 && (!best || distance < best.distance)) best = { element, distance };
  }
  return best?.element ?? mark;
}

/** Replaces the title of a mark by a description, or back. */
function rename(element, name) {
  const before = element.querySelector(":scope > title, :scope > desc");
  const after = document.createElementNS("http://www.w3.org/2000/svg", name);
  after.textContent = before.textContent;
  before.replaceWith(after);
}

function show(element) {
  hide();
  mark = element;
  mark.classList.add("pointed");
  rename(mark, "desc");
  tooltip = document.createElement("div");
  tooltip.className = "tooltip";
  tooltip.setAttribute("role", "status");
  document.body.append(tooltip);
  tooltip.textContent = [mark.closest("[data-name]")?.dataset.name, mark.querySelector("desc").textContent].filter(Boolean).join(", ");
  place();
}

/** Puts the tooltip above its mark. */
function place() {
  if (!mark) return;
  const box = mark.getBoundingClientRect();
  const left = Math.min(box.left + box.width / 2 - tooltip.offsetWidth / 2, document.documentElement.clientWidth - tooltip.offsetWidth - 8);
  tooltip.style.left = `${Math.max(8, left)}px`;
  tooltip.style.top = `${box.top - tooltip.offsetHeight - 4}px`;
}

function hide() {
  if (mark) asLoaded(mark);
  tooltip?.remove();
  mark = tooltip = null;
}

/** Makes a mark, also one of a copy of the page, as it was before its value was shown. */
export function asLoaded(element) {
  element.classList.remove("pointed");
  if (!element.classList.length) element.removeAttribute("class");
  rename(element, "title");
}

/** Values for the pointer at once, and for a finger with a tap: a link is followed by the second one. */
function watchPointer() {
  document.addEventListener("pointerover", (event) => {
    const element = event.target.closest?.(POINTED);
    if (event.pointerType !== "touch" && element && element !== mark) show(element);
  });
  document.addEventListener("pointerout", (event) => {
    if (event.pointerType !== "touch" && mark?.contains(event.target) && !mark.contains(event.relatedTarget)) hide();
  });
  document.addEventListener("pointerdown", (event) => {
    const element = event.pointerType === "touch" && event.target.closest?.(POINTED);
    isFirstTap = Boolean(element) && element !== mark;
    if (isFirstTap) show(element);
    else if (event.pointerType === "touch" && !element) hide();
  });
  document.addEventListener("click", (event) => {
    if (isFirstTap && event.target.closest?.(POINTED)) event.preventDefault();
    isFirstTap = false;
  });
}

/** Scrolls a calendar that is wider than the screen to today. */
function showToday(part) {
  for (const today of part.querySelectorAll(".calendar .today")) {
    const box = today.closest(".scroll");
    box.scrollLeft += center(today)[0] - center(box)[0];
  }
}

export function start() {
  showToday(document);
  watchPointer();
  document.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (event.key === "Escape") hide();
    if (!step || !event.target.matches(".scroll[tabindex]")) return;
    const marks = marksOf(event.target);
    if (!marks.length) return;
    event.preventDefault();
    show(marks.includes(mark) ? next(marks, step) : marks[0]);
    mark.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  document.addEventListener("focusin", (event) => {
    if (event.target.matches(".marks > a")) show(event.target);
    else if (event.target.matches(".chart a:has(> .hover)")) show(event.target.querySelector(".hover"));
  });
  document.addEventListener("focusout", (event) => {
    if (mark && (event.target.contains(mark) || mark.contains(event.target))) hide();
  });
  document.addEventListener("scroll", place, { passive: true, capture: true });
  document.addEventListener("live:replaced", (event) => {
    showToday(event.target);
    if (mark && !mark.isConnected) hide();
  });
}
