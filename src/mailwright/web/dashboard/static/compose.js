// Composing: the preview follows what is written, variables are put in where the cursor is, and nothing is lost unseen.
// `<form data-compose="/campaigns/preview">`: that address takes the form and answers with the mail for a frame, and
// with `/details` behind it with what stands beside the frame.

const form = document.querySelector("form[data-compose]");
const words = document.getElementById("preview-details");
const REST = 400;

// The mail is put into a frame out of sight and takes the place of the one before once it is there: nothing blinks.
function showMail(scheme) {
  const screen = document.querySelector(`.screen.is-${scheme}`);
  const shown = screen.querySelector("iframe:last-of-type");
  const next = shown.cloneNode();
  next.name = `mail-${scheme}-${Date.now()}`;
  next.classList.add("is-coming");
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
    // The first load is the empty page that every frame begins with.
    if (!isSent) return;
    sent.remove();
    next.classList.remove("is-coming");
    for (const frame of screen.querySelectorAll("iframe")) if (frame !== next) frame.remove();
  });
  setTimeout(() => {
    isSent = true;
    sent.submit();
  });
}

let asked = 0;
async function show() {
  const mine = ++asked;
  const answer = await fetch(`${form.dataset.compose}/details`, {
    method: "POST",
    body: new URLSearchParams(new FormData(form)),
    headers: { "HX-Request": "true", "HX-Current-URL": location.href },
  }).catch(() => null);
  if (mine !== asked || !answer) return;
  if (answer.status === 401) return location.reload();
  if (!answer.ok) return;
  words.innerHTML = await answer.text();
  const head = words.firstElementChild;
  const body = form.elements["content.body"] ?? form.elements["body"];
  const isFine = head.dataset.preview === "fine";
  const line = Number(head.dataset.line);
  body?.complain?.(line ? [{ line, message: head.textContent.trim() }] : []);
  if (!isFine) return;
  document.getElementById("preview-text").textContent = words.querySelector("[data-text]").content.textContent;
  const hint = document.getElementById("preview-dark-hint");
  hint.dataset.own ??= hint.textContent;
  hint.textContent =
    head.dataset.hasDark === "yes"
      ? hint.dataset.own
      : "The mail has no rules for the dark: some programs show it as it is, others turn its colours round, about like this.";
  showMail(document.getElementById("view-dark").checked ? "dark" : "light");
}

let timer;
function showSoon(wait = REST) {
  clearTimeout(timer);
  timer = setTimeout(show, wait);
}

// Unsaved work is not thrown away by a click beside.
let isChanged = Boolean(document.querySelector(".flash.is-bad"));
const mark = document.querySelector("[data-unsaved]");
function change() {
  isChanged = true;
  if (mark) mark.hidden = false;
}
addEventListener("beforeunload", (event) => isChanged && event.preventDefault());
form.addEventListener("submit", () => (isChanged = false));

form.addEventListener("input", (event) => {
  change();
  showSoon(event.target.matches("select, [type=checkbox]") ? 0 : REST);
});
for (const field of document.querySelectorAll('[form="compose"]')) field.addEventListener("input", () => showSoon());
for (const view of document.querySelectorAll('[name="view"]')) view.addEventListener("change", () => showSoon(0));

// Variables.
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

// What scrolls can be reached by the keyboard, also for programs that do not count editable text among what can.
function reach() {
  for (const text of document.querySelectorAll(".cm-content")) text.tabIndex = 0;
}
reach();

// Another format is another language for the editor.
const format = form.elements["content.format"] ?? form.elements["format"];
format?.addEventListener("change", () => {
  const area = form.elements["content.body"] ?? form.elements["body"];
  area.editor?.destroy();
  area.editor = null;
  area.hidden = false;
  area.dataset.editor = format.value;
  area.parentElement.dispatchEvent(new Event("htmx:load", { bubbles: true }));
  reach();
});

// Versions by the names that they have now.
function showVersions() {
  const place = document.getElementById("preview-version");
  if (!place || !form.elements.experiment) return;
  const names = [...form.querySelectorAll('[name^="experiment.variants"][name$=".name"]')].map((field) => field.value.trim());
  const chosen = place.querySelector("select");
  const known = names.filter(Boolean);
  place.hidden = !form.elements.experiment.checked || known.length < 2;
  const before = chosen.value;
  chosen.replaceChildren(...known.map((name) => new Option(name, name, false, name === before)));
}
form.addEventListener("input", showVersions);
showVersions();
showSoon(0);
