// Values of charts for the keyboard: arrow keys move from mark to mark in the chart that has the focus,
// and the value of the mark appears beside it. The pointer shows the same texts as titles.

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
/** Weight of a deviation from the direction of the key. */
const ASIDE = 4;

let mark = null;
let tooltip = null;

function center(element) {
  const box = element.getBoundingClientRect();
  return [box.left + box.width / 2, box.top + box.height / 2];
}

function marksOf(region) {
  return [...region.querySelectorAll(".hover:has(> title), .marks > :has(> title)")].filter((element) => element.getBoundingClientRect().width > 0);
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

function show(element) {
  hide();
  mark = element;
  mark.classList.add("pointed");
  mark.scrollIntoView({ block: "nearest", inline: "nearest" });
  tooltip = document.createElement("div");
  tooltip.className = "tooltip";
  tooltip.setAttribute("role", "status");
  document.body.append(tooltip);
  tooltip.textContent = [mark.closest("[data-name]")?.dataset.name, mark.querySelector("title").textContent].filter(Boolean).join(", ");
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
  mark?.classList.remove("pointed");
  tooltip?.remove();
  mark = tooltip = null;
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
  document.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (event.key === "Escape") hide();
    if (!step || !event.target.matches(".scroll[tabindex]")) return;
    const marks = marksOf(event.target);
    if (!marks.length) return;
    event.preventDefault();
    show(marks.includes(mark) ? next(marks, step) : marks[0]);
  });
  document.addEventListener("focusin", (event) => {
    if (event.target.matches(".marks > a")) show(event.target);
    else if (event.target.matches(".chart a:has(> .hover)")) show(event.target.querySelector(".hover"));
  });
  document.addEventListener("focusout", hide);
  document.addEventListener("scroll", place, { passive: true, capture: true });
  document.addEventListener("live:replaced", (event) => {
    showToday(event.target);
    if (mark && !mark.isConnected) hide();
  });
}
