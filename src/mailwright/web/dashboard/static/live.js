// Live updates. `<section data-live="/overview/stream">`: each event is an object of element ids and their new HTML.
// Elements that the viewer is using (focus, text selection, an open dialog) are updated later.

function isInUse(element) {
  const selection = getSelection();
  return (
    // A confirmation dialog is open: its button must still exist when the dialog closes.
    document.querySelector("dialog[open]") !== null ||
    element.querySelector("details.menu[open]") !== null ||
    (element.contains(document.activeElement) && document.activeElement !== document.body) ||
    (selection && !selection.isCollapsed && selection.containsNode(element, true))
  );
}

// Reload if the session has ended, which shows the sign-in page. Return whether the page may still be seen.
async function mayListen() {
  const response = await fetch(location.href, { redirect: "manual" }).catch(() => null);
  if (response?.type === "opaqueredirect") location.reload();
  return !response || response.ok || response.status >= 500;
}

// The flash message of an action ("Campaign paused.") is removed when the status that it describes changes.
function statusOf(element) {
  return "showsStatus" in element.dataset ? element.querySelector(".status")?.textContent : null;
}

const pending = new Map();
const current = new Map();

function update(id, html) {
  const element = document.getElementById(id);
  if (!element || current.get(id) === html) return;
  if (isInUse(element)) return pending.set(id, html);
  pending.delete(id);
  current.set(id, html);
  const before = statusOf(element);
  element.innerHTML = html;
  if (statusOf(element) !== before) document.getElementById("flash")?.replaceChildren();
  globalThis.htmx?.process(element);
  element.dispatchEvent(new Event("liveupdate", { bubbles: true }));
}

const STATES = { live: t("live"), lost: t("connection lost"), outdated: t("database does not respond") };

function showState(section, state) {
  section.dataset.state = state;
  for (const element of section.querySelectorAll(".live-indicator")) element.textContent = STATES[state];
}

const RECONNECT_MS = 2000;

function listen(section) {
  const source = new EventSource(section.dataset.live);
  source.addEventListener("parts", (event) => {
    showState(section, "live");
    for (const [id, html] of Object.entries(JSON.parse(event.data))) update(id, html);
  });
  source.addEventListener("open", () => showState(section, "live"));
  source.addEventListener("unavailable", () => showState(section, "outdated"));
  source.addEventListener("error", async () => {
    showState(section, "lost");
    // A browser reconnects by itself, unless the server refused the stream.
    if (source.readyState === EventSource.CLOSED && (await mayListen())) setTimeout(listen, RECONNECT_MS, section);
  });
  addEventListener("pagehide", () => source.close());
}

document.querySelectorAll("[data-live]").forEach(listen);

setInterval(() => {
  for (const [id, html] of [...pending]) update(id, html);
}, 1000);
