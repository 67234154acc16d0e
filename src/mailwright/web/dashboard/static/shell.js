// Behaviour of every page: menu, theme, local times, confirmation dialogs, field errors and messages.

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
const THEMES = { "": "System", light: "Light", dark: "Dark" };
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

// Keep relative times current. Other times are in the tenant's time zone and come from the server.
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

function distance(then) {
  const seconds = (then - Date.now()) / 1000;
  const length = Math.abs(seconds);
  const [unit, size] = UNITS.find(([, size]) => length >= 2 * size) ?? UNITS[3];
  const count = Math.round(length / size);
  const words = length < 1 ? "less than a second" : `${count} ${unit}${count === 1 ? "" : "s"}`;
  return seconds > 0 ? `in ${words}` : `${words} ago`;
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

// Submit a form only once, even if its button is pressed again.
document.addEventListener("submit", (event) => {
  if (event.defaultPrevented || event.target.method === "dialog") return;
  if (event.target.dataset.sent) return event.preventDefault();
  if (event.target.method === "post") event.target.dataset.sent = "yes";
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
});

// Copy buttons.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    showMessage("Copied.", "good");
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling ?? button);
    showMessage("Press Ctrl+C to copy the selected text.", "good");
  }
});

// A corrected field loses its error.
document.addEventListener("input", ({ target }) => {
  if (target.getAttribute("aria-invalid") !== "true") return;
  target.removeAttribute("aria-invalid");
  document.getElementById(`${target.id}-error`)?.remove();
});

// Messages.
function showMessage(text, tone) {
  const line = document.createElement("p");
  line.className = `flash is-${tone}`;
  line.textContent = text;
  document.getElementById("flash")?.replaceChildren(line);
}
document.addEventListener("showError", (event) => showMessage(event.detail.value ?? String(event.detail), "bad"));
document.addEventListener("htmx:sendError", () => showMessage("The server cannot be reached. Try again in a moment.", "bad"));

// Scroll the current tab into view if the tabs are wider than the screen.
for (const tab of document.querySelectorAll(".tabs [aria-current]")) {
  const tabs = tab.closest(".tabs");
  tabs.scrollLeft = tab.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2;
}
