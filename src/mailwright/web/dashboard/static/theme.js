// Runs before the first paint: the texts of scripts, the theme that was chosen in this browser, and input that comes early.

// Translate a text of a script. `{name}` is replaced by a value, and `{ context: "code" }`
// tells words with two meanings apart. The page has the texts of other languages than English.
const TEXTS = JSON.parse(document.getElementById("texts")?.textContent ?? "{}");
const LANGUAGE = document.documentElement.lang || "en";
function t(text, values = {}) {
  return (TEXTS[values.context ? `${values.context}\u0004${text}` : text] ?? text).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

{
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  document.documentElement.classList.add("has-scripts");
}

// A page is shown before its other scripts are loaded. Presses that need them are repeated afterwards, so that none is
// lost and no form is submitted without its question. So is input. Other forms and links need no script.
{
  const early = [];
  const hold = (event) => {
    const target = event.type === "click" ? event.target.closest("button:is([type=button], [hx-post], [hx-get]), a[data-opens-sheet]") : event.target;
    const asks = (element) => element?.matches("[data-confirm], [hx-post], [hx-get]");
    if (!target || (event.type === "submit" && !asks(event.submitter) && !asks(target))) return;
    early.push({ type: event.type, target, submitter: event.submitter });
    if (event.type === "input" || event.type === "change") return;
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  const repeat = ({ type, target, submitter }) => {
    if (type === "click") target.click();
    else if (type === "submit") target.requestSubmit(submitter);
    else target.dispatchEvent(new Event(type, { bubbles: true }));
  };
  const TYPES = ["click", "submit", "input", "change"];
  for (const type of TYPES) document.addEventListener(type, hold, true);
  // Other scripts wait for this event too.
  document.addEventListener("DOMContentLoaded", () => setTimeout(() => {
    for (const type of TYPES) document.removeEventListener(type, hold, true);
    early.forEach(repeat);
  }));
}
