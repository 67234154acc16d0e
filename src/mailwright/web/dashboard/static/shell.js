// Behaviour of every page: menu, theme, local times, dialogs, busy buttons, field errors and messages.

// The menu on small screens.
const menu = document.querySelector(".menu");
menu?.addEventListener("click", () => {
  const isOpen = menu.getAttribute("aria-expanded") !== "true";
  menu.setAttribute("aria-expanded", String(isOpen));
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && menu?.getAttribute("aria-expanded") === "true") {
    menu.setAttribute("aria-expanded", "false");
    menu.focus();
  }
});

// The theme: system, light or dark.
const THEMES = { "": t("System"), light: t("Light"), dark: t("Dark") };
const themeButton = document.querySelector("[data-theme-next]");
function showTheme() {
  const chosen = document.documentElement.dataset.theme ?? "";
  if (themeButton) themeButton.querySelector("span").textContent = THEMES[chosen] ?? THEMES[""];
}
themeButton?.addEventListener("click", () => {
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(document.documentElement.dataset.theme ?? "") + 1) % names.length];
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
  showTheme();
  // Charts are drawn on a canvas and must be redrawn.
  document.dispatchEvent(new Event("theme"));
});
showTheme();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("theme")));

// Propose the time zone of the browser where nobody has chosen one.
const zoneField = document.querySelector("[data-browser-zone] input:not(:disabled)");
if (zoneField) zoneField.value = Intl.DateTimeFormat().resolvedOptions().timeZone || zoneField.value;

// Remember the address for test emails in this browser. The composer uses it too.
const TEST_ADDRESS = "mailwright.test-address";
const testField = document.querySelector("[data-test-address] input");
if (testField) {
  testField.value ||= localStorage.getItem(TEST_ADDRESS) ?? "";
  testField.form.addEventListener("submit", () => localStorage.setItem(TEST_ADDRESS, testField.value.trim()));
}

// Keep relative times current. Other times are in the tenant's time zone and come from the server.
// Each unit with the shortest duration that is shown in it, in seconds.
const UNITS = [["year", 31536000, 63072000], ["day", 86400, 172800], ["hour", 3600, 7200], ["minute", 60, 90], ["second", 1, 0]];
const RELATIVE = new Intl.RelativeTimeFormat(LANGUAGE);

function distance(then) {
  const seconds = (then - Date.now()) / 1000;
  const length = Math.abs(seconds);
  const [unit, size] = UNITS.find(([, , shortest]) => length >= shortest);
  const count = Math.round(length / size);
  if (length < 1) return seconds > 0 ? t("in less than a second") : t("less than a second ago");
  return RELATIVE.format(seconds > 0 ? count : -count, unit);
}

function showDistances(root) {
  for (const element of root.querySelectorAll("time[data-form=ago]")) element.textContent = distance(new Date(element.dateTime));
}
showDistances(document);
document.addEventListener("htmx:load", (event) => showDistances(event.target));
document.addEventListener("liveupdate", (event) => showDistances(event.target));
setInterval(() => document.hidden || showDistances(document), 10_000);

// Ask for confirmation before forms that cannot be undone.
const dialog = document.getElementById("confirm");
document.addEventListener("submit", (event) => {
  const form = event.target;
  const text = event.submitter?.dataset.confirm ?? form.dataset.confirm;
  if (!text || form.dataset.confirmed) return;
  event.preventDefault();
  const button = event.submitter;
  dialog.querySelector("#confirm-text").textContent = text;
  dialog.querySelector("#confirm-yes").textContent = button?.textContent.trim() || "Yes";
  dialog.returnValue = "no";
  dialog.showModal();
  dialog.addEventListener(
    "close",
    () => {
      if (dialog.returnValue !== "yes") return button?.focus();
      form.dataset.confirmed = "yes";
      // A live update may have replaced the button while the dialog was open.
      form.requestSubmit(button?.isConnected ? button : null);
    },
    { once: true },
  );
});

// Submit a form only once, even if its button is pressed again. The button shows a spinner meanwhile.
document.addEventListener("submit", (event) => {
  if (event.defaultPrevented || event.target.method === "dialog") return;
  if (event.target.dataset.sent) return event.preventDefault();
  if (event.target.method !== "post") return;
  event.target.dataset.sent = "yes";
  event.submitter?.setAttribute("aria-busy", "true");
});
function allowAgain(root) {
  for (const form of root.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
  for (const button of root.querySelectorAll("[aria-busy=true]")) button.removeAttribute("aria-busy");
}
addEventListener("pageshow", () => allowAgain(document));

// Links to pages of one form open them in a dialog; without scripts they are ordinary pages. The page says which part
// belongs into the dialog (data-sheet), and invalid input replaces that part.
{
  const sheet = document.getElementById("sheet");
  let sheetOpener = null;

  function fillSheet(html) {
    const source = new DOMParser().parseFromString(html, "text/html");
    const part = source.querySelector("[data-sheet]");
    if (!part) return false;
    sheet.querySelector("h2").textContent = source.querySelector("h1").textContent.trim();
    sheet.querySelector(".sheet-body").replaceChildren(document.importNode(part, true));
    globalThis.htmx?.process(sheet);
    (sheet.querySelector("[aria-invalid=true]") ?? sheet.querySelector("[autofocus], .sheet-body :is(input:not([type=hidden]), select, textarea)"))?.focus();
    return true;
  }

  document.addEventListener("click", async (event) => {
    const link = event.target.closest("a[data-opens-sheet]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    sheetOpener = link;
    const response = await fetch(link.href, { headers: { "HX-Request": "true" } }).catch(() => null);
    const html = response?.ok ? await response.text() : "";
    if (html.includes("data-sheet")) sheet.showModal();
    if (!fillSheet(html)) location.assign(link.href);
  });

  sheet?.addEventListener("submit", async (event) => {
    if (event.defaultPrevented || event.target.dataset.confirm) return;
    event.preventDefault();
    const form = event.target;
    if (form.dataset.sent) return;
    form.dataset.sent = "yes";
    event.submitter?.setAttribute("aria-busy", "true");
    const body = form.enctype === "multipart/form-data" ? new FormData(form, event.submitter) : new URLSearchParams(new FormData(form, event.submitter));
    const response = await fetch(form.action, { method: "POST", body, headers: { "HX-Request": "true" } }).catch(() => null);
    const target = response?.headers.get("HX-Redirect");
    if (target) return location.assign(target);
    if (response && fillSheet(await response.text())) return;
    allowAgain(sheet);
    const problem = JSON.parse(response?.headers.get("HX-Trigger") ?? "{}").showError;
    showMessage(problem ?? t("The server cannot be reached. Try again in a moment."), "bad");
  });
  sheet?.addEventListener("click", (event) => {
    if (event.target === sheet || event.target.closest("[data-close], .sheet-body a.is-link")) {
      event.preventDefault();
      sheet.close();
    }
  });
  sheet?.addEventListener("close", () => sheetOpener?.focus());
}

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
});

// Copy buttons.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    showMessage(t("Copied."), "good");
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling ?? button);
    showMessage(t("Press Ctrl+C to copy the selected text."), "good");
  }
});

// A corrected field loses its error.
document.addEventListener("input", ({ target }) => {
  if (target.getAttribute("aria-invalid") !== "true") return;
  target.removeAttribute("aria-invalid");
  document.getElementById(`${target.id}-error`)?.remove();
});

// The key of a new list or segment follows its name, as `derive_key` in domain/keys.py derives it, until the user writes
// another key. An empty key follows again.
function keyFrom(name, transliteration) {
  const write = (text) => [...text].map((each) => transliteration[each] ?? each).join("");
  const plain = write(write(name.normalize("NFC").toLowerCase()).normalize("NFKD")).replace(/[^\0-\x7f]/g, "");
  return plain
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-/, "")
    .slice(0, 50)
    .replace(/-$/, "");
}
document.addEventListener("input", ({ target }) => {
  const box = target.form?.querySelector("[data-transliteration]");
  const key = box?.querySelector("input");
  if (target === key) key.dataset.written = key.value;
  if (target.name === "name" && key && !key.dataset.written) key.value = keyFrom(target.value, JSON.parse(box.dataset.transliteration));
});

// The values that contacts have for the attribute of a condition.
document.addEventListener("input", ({ target }) => {
  if (!target.matches("[data-suggests-values]")) return;
  target.parentElement.querySelector('[name$=".value"]')?.setAttribute("list", `values-${target.value.trim()}`);
});

// Messages: toasts that screen readers announce. Good news disappears on its own.
const TOAST_MS = 12_000;
const CROSS = '<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false"><path d="m4 4 8 8M12 4l-8 8"/></svg>';

function keepToast(line) {
  const button = document.createElement("button");
  button.type = "button";
  button.ariaLabel = t("Dismiss");
  button.innerHTML = CROSS;
  button.addEventListener("click", () => line.remove());
  line.append(button);
  if (line.matches(".is-bad, :has(form)")) return;
  const leave = () => (line.matches(":hover, :focus-within") ? setTimeout(leave, TOAST_MS) : line.remove());
  setTimeout(leave, TOAST_MS);
}
for (const line of document.querySelectorAll("#flash > .flash")) keepToast(line);

function showMessage(text, tone) {
  const line = document.createElement("div");
  const words = document.createElement("p");
  line.className = `flash is-${tone}`;
  words.textContent = text;
  line.append(words);
  keepToast(line);
  // A modal dialog makes the rest of the page inert, so the message appears inside it.
  (document.querySelector("dialog[open] [data-messages]") ?? document.getElementById("flash"))?.replaceChildren(line);
}
document.addEventListener("showError", (event) => showMessage(event.detail.value ?? String(event.detail), "bad"));
document.addEventListener("htmx:sendError", () => showMessage(t("The server cannot be reached. Try again in a moment."), "bad"));

// Scroll the current tab into view if the tabs are wider than the screen.
for (const tab of document.querySelectorAll(".tabs [aria-current]")) {
  const tabs = tab.closest(".with-side-tabs .tabs") ?? tab.closest("ul");
  tabs.scrollLeft = tab.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2;
}
