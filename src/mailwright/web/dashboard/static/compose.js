// The editor pages: live preview, inserting variables, and a warning about unsaved changes.
// `<form data-compose="/campaigns/preview">`: that address renders the form as an email for the frame;
// `/details` below it renders the subject, warnings and errors beside the frame.

const form = document.querySelector("form[data-compose]");
const details = document.getElementById("preview-details");
const TYPING_PAUSE_MS = 400;

// Load the email into a hidden frame and swap it in when it is ready, so that the preview does not flicker.
function showEmail(scheme) {
  const screen = document.querySelector(`.screen.is-${scheme}`);
  const shown = screen.querySelector("iframe:last-of-type");
  const next = shown.cloneNode();
  next.name = `mail-${scheme}-${Date.now()}`;
  next.classList.add("is-loading");
  screen.append(next);
  const sent = document.createElement("form");
  sent.method = "post";
  sent.action = form.dataset.compose;
  sent.target = next.name;
  sent.hidden = true;
  const fields = new FormData(form);
  fields.set("scheme", scheme);
  for (const [name, value] of fields) {
    const field = document.createElement("input");
    field.type = "hidden";
    field.name = name;
    field.value = value;
    sent.append(field);
  }
  document.body.append(sent);
  let isSent = false;
  next.addEventListener("load", () => {
    // The first load event is for the initial empty document.
    if (!isSent) return;
    sent.remove();
    next.classList.remove("is-loading");
    for (const frame of screen.querySelectorAll("iframe")) if (frame !== next) frame.remove();
  });
  setTimeout(() => {
    isSent = true;
    sent.submit();
  });
}

let latestRequest = 0;
async function updatePreview() {
  const thisRequest = ++latestRequest;
  const response = await fetch(`${form.dataset.compose}/details`, {
    method: "POST",
    body: new URLSearchParams(new FormData(form)),
    headers: { "HX-Request": "true", "HX-Current-URL": location.href },
  }).catch(() => null);
  if (thisRequest !== latestRequest || !response) return;
  if (response.status === 401) return location.reload();
  if (!response.ok) return;
  details.innerHTML = await response.text();
  const head = details.firstElementChild;
  const body = form.elements["content.body"] ?? form.elements["body"];
  const isFine = head.dataset.preview === "ok";
  const line = Number(head.dataset.line);
  const subject = form.elements["content.subject"] ?? form.elements["subject"];
  const wasRefused = Boolean(document.getElementById(`${subject?.id}-error`));
  const shown = subject?.editor?.view.dom ?? subject;
  if ("inSubject" in head.dataset || wasRefused) shown?.setAttribute("aria-invalid", "true");
  else shown?.removeAttribute("aria-invalid");
  body?.complain?.(line ? [{ line, message: head.textContent.trim() }] : []);
  if (!isFine) return;
  document.getElementById("preview-text").textContent = details.querySelector("[data-text]").content.textContent;
  const hint = document.getElementById("preview-dark-hint");
  hint.dataset.own ??= hint.textContent;
  hint.textContent =
    head.dataset.hasDark === "yes" ? hint.dataset.own : hint.dataset.simulated;
  showEmail(document.getElementById("view-dark").checked ? "dark" : "light");
}

let timer;
function schedulePreview(wait = TYPING_PAUSE_MS) {
  clearTimeout(timer);
  timer = setTimeout(updatePreview, wait);
}

// Warn before leaving with unsaved changes.
let isChanged = Boolean(document.querySelector(".flash.is-bad, .error-summary"));
const mark = document.querySelector("[data-unsaved]");
function markUnsaved() {
  isChanged = true;
  if (mark) mark.hidden = false;
}
addEventListener("beforeunload", (event) => isChanged && event.preventDefault());
form.addEventListener("submit", () => (isChanged = false));

form.addEventListener("input", (event) => {
  markUnsaved();
  schedulePreview(event.target.matches("select, [type=checkbox]") ? 0 : TYPING_PAUSE_MS);
});
for (const field of document.querySelectorAll('[form="compose"]')) field.addEventListener("input", () => schedulePreview());
for (const view of document.querySelectorAll('[name="view"]')) view.addEventListener("change", () => schedulePreview(0));

// Buttons that insert a variable at the cursor.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-insert]");
  if (!button) return;
  const area = document.getElementById(button.closest("[data-inserts]").dataset.inserts);
  const text = `{{ ${button.dataset.insert} }}`;
  if (area.editor) {
    area.editor.dispatch(area.editor.state.replaceSelection(text));
    area.editor.focus();
  } else {
    area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
    area.dispatchEvent(new Event("input", { bubbles: true }));
    area.focus();
  }
});

// Scrollable editors must be reachable by keyboard; not every browser makes editable text focusable.
function makeEditorsFocusable() {
  for (const text of document.querySelectorAll(".cm-content")) text.tabIndex = 0;
}
makeEditorsFocusable();

// A change of format restarts the editor with another language.
const format = form.elements["content.format"] ?? form.elements["format"];
format?.addEventListener("change", () => {
  const area = form.elements["content.body"] ?? form.elements["body"];
  area.editor?.destroy();
  area.editor = null;
  area.hidden = false;
  area.dataset.editor = format.value;
  area.parentElement.dispatchEvent(new Event("htmx:load", { bubbles: true }));
  makeEditorsFocusable();
});

// Offer the A/B test variants by their current names.
function updateVariants() {
  const picker = document.getElementById("preview-variant");
  if (!picker || !form.elements.experiment) return;
  const names = [...form.querySelectorAll('[name^="experiment.variants"][name$=".name"]')].map((field) => field.value.trim());
  const chosen = picker.querySelector("select");
  const known = names.filter(Boolean);
  picker.hidden = !form.elements.experiment.checked || known.length < 2;
  const selected = chosen.value;
  chosen.replaceChildren(...known.map((name) => new Option(name, name, false, name === selected)));
}
form.addEventListener("input", updateVariants);
updateVariants();
schedulePreview(0);
