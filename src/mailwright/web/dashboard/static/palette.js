// The command palette: Ctrl+K, Cmd+K or / opens a combobox whose options the server searches while the user types.
{
  const palette = document.getElementById("palette");
  const field = palette?.querySelector("input");
  const list = document.getElementById("palette-list");
  const DEBOUNCE_MS = 120;
  let timer = 0;
  let asked = null;
  let opener = null;

  const options = () => [...list.querySelectorAll("a[role=option]")];

  function select(option) {
    for (const each of options()) each.setAttribute("aria-selected", String(each === option));
    if (!option) return field.removeAttribute("aria-activedescendant");
    field.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  }

  function move(step) {
    const all = options();
    if (!all.length) return;
    const at = all.findIndex((each) => each.getAttribute("aria-selected") === "true");
    select(all[(at + step + all.length) % all.length]);
  }

  async function ask() {
    asked?.abort();
    asked = new AbortController();
    const question = field.value; // the user may type on while the server searches
    const query = new URLSearchParams({ q: question, at: location.pathname });
    try {
      const response = await fetch(`/search?${query}`, { headers: { "HX-Request": "true" }, signal: asked.signal });
      const target = response.headers.get("HX-Redirect");
      if (target) return location.assign(target);
      if (!response.ok) throw new Error(String(response.status));
      list.innerHTML = await response.text();
      select(options()[0]);
      const count = options().length;
      palette.querySelector("[role=status]").textContent = count === 1 ? "1 result" : `${count} results`;
      palette.dataset.answered = question;
    } catch (error) {
      if (error.name !== "AbortError") palette.querySelector("[role=status]").textContent = t("The search failed. Try again.");
    }
  }

  function openPalette() {
    if (palette.open || document.querySelector("dialog[open]")) return;
    opener = document.activeElement;
    field.value = "";
    palette.showModal();
    field.focus();
    ask();
  }

  function isTyping(target) {
    return target.isContentEditable || target.closest("input, textarea, select, [contenteditable]") !== null;
  }

  if (palette) {
    if (/Mac|iPhone|iPad/.test(navigator.platform)) {
      for (const key of document.querySelectorAll("[data-palette] kbd")) key.textContent = "⌘ K";
    }
    document.addEventListener("keydown", (event) => {
      const isShortcut = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
      const isSlash = event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !isTyping(event.target);
      if (!isShortcut && !isSlash) return;
      event.preventDefault();
      if (palette.open) return palette.close();
      openPalette();
    });
    document.addEventListener("click", (event) => {
      if (!event.target.closest("[data-palette]") || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      openPalette();
    });
    field.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(ask, DEBOUNCE_MS);
    });
    field.addEventListener("keydown", async (event) => {
      if (event.key === "ArrowDown") move(1);
      else if (event.key === "ArrowUp") move(-1);
      else if (event.key === "Home" && !field.value) select(options()[0]);
      else if (event.key === "End" && !field.value) select(options().at(-1));
      else if (event.key === "Enter") {
        event.preventDefault();
        if (palette.dataset.answered !== field.value) {
          clearTimeout(timer);
          await ask();
        }
        return options().find((each) => each.getAttribute("aria-selected") === "true")?.click();
      } else return;
      event.preventDefault();
    });
    list.addEventListener("mousemove", (event) => {
      const option = event.target.closest("a[role=option]");
      if (option && option.getAttribute("aria-selected") !== "true") select(option);
    });
    list.addEventListener("click", (event) => {
      if (event.target.closest("a[role=option]") && !event.ctrlKey && !event.metaKey) palette.close();
    });
    palette.addEventListener("click", (event) => {
      if (event.target === palette || event.target.closest("[data-close]")) palette.close();
    });
    palette.addEventListener("close", () => opener?.focus());
  }
}
