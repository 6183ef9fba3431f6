// Dialogs that ask before an action. Focus returns to where it was.

/** A list of [name, description]. */
function list(rows) {
  const list = document.createElement("dl");
  list.className = "facts";
  for (const [name, description] of rows) {
    const [term, text] = ["dt", "dd"].map((tag) => document.createElement(tag));
    term.append(name);
    text.append(description);
    list.append(term, text);
  }
  return list;
}

/**
 * Asks a question. `fields` are inputs: {name, label, type, hint, required, min}; `preview` is a list of [name, description]
 * that opens: {summary, rows}. Resolves to the values of the fields, or to null if the user cancels.
 */
export function ask({ title, text = "", preview, fields = [], confirm = "OK", danger = false }) {
  const dialog = document.createElement("dialog");
  const form = document.createElement("form");
  form.method = "dialog";
  const heading = document.createElement("h2");
  heading.textContent = title;
  heading.id = "dialog-title";
  dialog.setAttribute("aria-labelledby", heading.id);
  form.append(heading);
  if (text) {
    const paragraph = document.createElement("p");
    paragraph.className = "soft";
    paragraph.textContent = text;
    paragraph.id = "dialog-text";
    dialog.setAttribute("aria-describedby", paragraph.id);
    form.append(paragraph);
  }
  if (preview) {
    const details = document.createElement("details");
    const summary = document.createElement("summary");
    summary.textContent = preview.summary;
    const rows = list(preview.rows);
    rows.classList.add("preview");
    rows.tabIndex = 0;
    details.append(summary, rows);
    form.append(details);
  }
  for (const field of fields) {
    const label = document.createElement("label");
    label.className = "field";
    label.append(field.label);
    const input = document.createElement("input");
    input.name = field.name;
    input.type = field.type ?? "text";
    input.required = field.required ?? false;
    input.maxLength = field.maxLength ?? 500;
    if (field.min) input.min = field.min;
    label.append(input);
    if (field.hint) {
      const hint = document.createElement("span");
      hint.className = "hint";
      hint.textContent = field.hint;
      label.append(hint);
    }
    form.append(label);
  }
  const actions = document.createElement("div");
  actions.className = "actions";
  const cancel = document.createElement("button");
  cancel.type = "button";
  cancel.textContent = "Cancel";
  cancel.addEventListener("click", () => dialog.close("cancel"));
  const submit = document.createElement("button");
  submit.value = "confirm";
  submit.className = danger ? "danger" : "primary";
  submit.textContent = confirm;
  // Enter confirms what can be undone.
  submit.autofocus = !danger && fields.length === 0;
  actions.append(cancel, submit);
  form.append(actions);
  dialog.append(form);
  document.body.append(dialog);
  const before = document.activeElement;
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const values = dialog.returnValue === "confirm" ? Object.fromEntries(new FormData(form)) : null;
      dialog.remove();
      before?.focus?.();
      resolve(values);
    });
  });
}

/** Shows rows of [keys, meaning]. */
export function showTable(title, rows) {
  const dialog = document.createElement("dialog");
  const heading = document.createElement("h2");
  heading.textContent = title;
  heading.id = "dialog-title";
  dialog.setAttribute("aria-labelledby", heading.id);
  const keys = rows.map(([keys, meaning]) => {
    const key = document.createElement("kbd");
    key.textContent = keys;
    return [key, meaning];
  });
  const close = document.createElement("button");
  close.type = "button";
  close.textContent = "Close";
  close.addEventListener("click", () => dialog.close());
  const actions = document.createElement("div");
  actions.className = "actions";
  actions.append(close);
  dialog.append(heading, list(keys), actions);
  dialog.classList.add("stack");
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
}
