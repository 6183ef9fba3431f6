// Sign-in with a token, and sign-out. The token is sent once and kept nowhere: the server answers with
// a session cookie that scripts cannot read.

import { apiUrl, attempt, send } from "./request.js";

const root = document.documentElement.dataset.root;

async function signIn(form, input, error) {
  const token = input.value.trim();
  const show = (text) => {
    error.textContent = text;
    input.setAttribute("aria-invalid", String(text !== ""));
    if (text) input.focus();
  };
  show("");
  if (!token) return show("The token is missing.");
  if (!/^[\x21-\x7e]+$/.test(token)) return show("The token must have printable ASCII characters without spaces.");
  let response;
  try {
    response = await fetch(apiUrl("/api/session"), {
      method: "POST",
      headers: { Authorization: `Bearer ${token}`, "X-Kalends-Console": "1" },
    });
  } catch {
    return show("The server cannot be reached.");
  }
  if (response.ok) {
    input.value = "";
    location.replace(form.dataset.to);
    return;
  }
  const body = await response.json().catch(() => null);
  show(body?.error?.message ?? `The server answered ${response.status}.`);
}

export function start() {
  const form = document.querySelector("[data-sign-in] form");
  if (!form) return;
  const [input, error, button] = ["input", ".error", "button"].map((name) => form.querySelector(name));
  if (!window.isSecureContext) error.textContent = "Sign-in requires HTTPS: browsers keep the session cookie of an encrypted connection only.";
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    await signIn(form, input, error);
    button.disabled = false;
  });
}

/** Ends the session at the server. */
export async function signOut() {
  if (await attempt(() => send("DELETE", "/api/session"))) location.assign(`${root}sign-in`);
}
