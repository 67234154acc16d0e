// Live parts of a page. `<section data-live="/overview/stream">`: each event is an object of element ids and their new
// content. What the reader's hand or eye is on (focus, a selection) is left alone until they move on.

function isInUse(place) {
  const selection = getSelection();
  return (
    // A question about a button of this place is open: the button must still be there when it is answered.
    document.querySelector("dialog[open]") !== null ||
    (place.contains(document.activeElement) && document.activeElement !== document.body) ||
    (selection && !selection.isCollapsed && selection.containsNode(place, true))
  );
}

// A stream that the server refuses is refused for good; whoever was signed out is shown the way in.
async function leaveIfSignedOut() {
  const answer = await fetch(location.href, { redirect: "manual" }).catch(() => null);
  if (answer?.type === "opaqueredirect") location.reload();
}

// What was said after a deed ("Started.") is true until the state that it led to has changed.
function stateOf(place) {
  return "tellsState" in place.dataset ? place.querySelector(".status")?.textContent : null;
}

const untold = new Map();

function tell(id, html) {
  const place = document.getElementById(id);
  if (!place || place.told === html) return;
  if (isInUse(place)) return untold.set(id, html);
  untold.delete(id);
  place.told = html;
  const before = stateOf(place);
  place.innerHTML = html;
  if (stateOf(place) !== before) document.getElementById("flash")?.replaceChildren();
  globalThis.htmx?.process(place);
  place.dispatchEvent(new Event("told", { bubbles: true }));
}

for (const section of document.querySelectorAll("[data-live]")) {
  const source = new EventSource(section.dataset.live);
  source.addEventListener("parts", (event) => {
    section.dataset.state = "live";
    for (const [id, html] of Object.entries(JSON.parse(event.data))) tell(id, html);
  });
  source.addEventListener("figures", (event) => {
    section.dispatchEvent(new CustomEvent("figures", { detail: JSON.parse(event.data), bubbles: true }));
  });
  source.addEventListener("open", () => (section.dataset.state = "live"));
  source.addEventListener("error", () => {
    section.dataset.state = "lost";
    if (source.readyState === EventSource.CLOSED) leaveIfSignedOut();
  });
  addEventListener("pagehide", () => source.close());
}

setInterval(() => {
  for (const [id, html] of [...untold]) tell(id, html);
}, 1000);
