// Runs before the first paint: the texts of scripts, and the theme that was chosen in this browser.

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
