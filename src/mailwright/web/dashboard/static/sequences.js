// The steps of a sequence: one open menu at a time, and drag and drop. Buttons and a dialog move steps without a mouse.

document.addEventListener("toggle", (event) => {
  if (!event.target.matches?.(".adder[open]")) return;
  for (const other of document.querySelectorAll(".adder[open]")) if (other !== event.target) other.open = false;
}, true);
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll(".adder[open]")) {
    if (!menu.contains(event.target) || event.target.closest("a")) menu.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  const menu = document.activeElement?.closest?.(".adder[open]");
  if (event.key !== "Escape" || !menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

// Drag a card to a place between cards. The server moves the step, so that both ways give the same result.
let dragged = null;
const placeAt = (event) => event.target.closest?.(".add-place");

document.addEventListener("dragstart", (event) => {
  dragged = event.target.closest?.("[data-step]");
  if (!dragged) return;
  event.dataTransfer.setData("text/plain", dragged.dataset.step);
  event.dataTransfer.effectAllowed = "move";
  dragged.classList.add("is-dragged");
  document.getElementById("steps").classList.add("is-dragging");
});
document.addEventListener("dragend", () => {
  dragged?.classList.remove("is-dragged");
  document.getElementById("steps")?.classList.remove("is-dragging");
  for (const place of document.querySelectorAll(".is-target")) place.classList.remove("is-target");
  dragged = null;
});
document.addEventListener("dragover", (event) => {
  const place = dragged && placeAt(event);
  for (const other of document.querySelectorAll(".is-target")) if (other !== place) other.classList.remove("is-target");
  if (!place || place.closest("li:not(.add-place)")?.contains(dragged)) return;
  event.preventDefault();
  place.classList.add("is-target");
});
document.addEventListener("drop", (event) => {
  const place = dragged && placeAt(event);
  if (!place) return;
  event.preventDefault();
  const steps = document.getElementById("steps");
  const values = { revision: steps.dataset.revision, place: place.dataset.place, dragged: "yes" };
  const path = `${steps.dataset.path}/steps/${encodeURIComponent(dragged.dataset.step)}/move`;
  htmx.ajax("POST", path, { target: "#steps", swap: "outerHTML", values });
});
