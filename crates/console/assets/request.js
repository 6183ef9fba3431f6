// Requests to the public API, and messages about their results.

const root = document.documentElement.dataset.root;

/** The URL of a path of the API, also behind a path prefix. */
export function apiUrl(path, parameters = {}) {
  const url = new URL(root + path.replace(/^\//, ""), location.href);
  if (!url.searchParams.has("api-version")) url.searchParams.set("api-version", "2026-11-01");
  for (const [name, value] of Object.entries(parameters)) {
    if (value) url.searchParams.set(name, value);
  }
  return url;
}

/** This page, relative to the root of the console. */
export function here() {
  return location.href.slice(new URL(root, location.href).href.length);
}

/** What happens when the session has ended. */
let onSessionEnd = () => location.assign(`${root}sign-in?to=${encodeURIComponent(here())}`);

/** Calls `action` when the session has ended, instead of leaving the page: it has unsaved work. */
export function keepPageAtSessionEnd(action) {
  onSessionEnd = action;
}

/** Leads to the sign-in page, unless the page is kept. */
export function endSession() {
  onSessionEnd();
}

/** An error of the API: status, code, message, and details with the members they belong to. */
export class ApiError extends Error {
  constructor(status, error) {
    super(error?.message ?? `The server answered ${status}`);
    this.status = status;
    this.code = error?.code ?? "";
    this.target = error?.target ?? "";
    this.details = error?.details ?? [];
  }
}

/** Sends a request; returns the JSON of the response, or null. */
export async function send(method, path, options) {
  return (await sendForHeaders(method, path, options)).json;
}

/** Sends a request; returns the JSON of the response, or null, and its headers. */
export async function sendForHeaders(method, path, { body, parameters, headers = {}, signal } = {}) {
  let response;
  try {
    response = await fetch(apiUrl(path, parameters), {
      method,
      signal,
      headers: { ...headers, "X-Kalends-Console": "1", ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { message: "The server cannot be reached. Nothing was changed, as far as this page knows." });
  }
  const text = await response.text();
  let json = null;
  try {
    json = text ? JSON.parse(text) : null;
  } catch {
    // A proxy answered with something else.
  }
  if (!response.ok) {
    if (response.status === 401) endSession();
    throw new ApiError(response.status, json?.error);
  }
  return { json, headers: response.headers };
}

const messages = document.querySelector("[data-messages]");

/** Shows a message for some seconds; a bad one until it is clicked. */
export function tell(text, { bad = false } = {}) {
  const message = document.createElement("div");
  message.className = bad ? "message bad" : "message";
  message.textContent = text;
  message.addEventListener("click", () => message.remove());
  messages.append(message);
  if (!bad) setTimeout(() => message.remove(), 6000);
}

const WAITING = "kalends-message";

/** Shows a message on the next page. */
export function tellNext(text) {
  sessionStorage.setItem(WAITING, text);
}

/** Shows the message of the previous page. */
export function tellWaiting() {
  const text = sessionStorage.getItem(WAITING);
  if (!text) return;
  sessionStorage.removeItem(WAITING);
  tell(text);
}

/** Runs an action and shows its error. Returns whether it succeeded. */
export async function attempt(action) {
  try {
    await action();
    return true;
  } catch (error) {
    tell(error.message, { bad: true });
    return false;
  }
}
