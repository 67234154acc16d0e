// The panes beside the email. On a wide screen all are visible; on a phone each is a sheet at the bottom, one at a time.

export const PHONE = matchMedia("(max-width: 62rem)");

export class Sheets {
  constructor(root) {
    this.root = root;
    for (const button of document.querySelectorAll("[data-opens]")) button.addEventListener("click", () => this.#toggle(button));
    for (const button of document.querySelectorAll("[data-closes]")) button.addEventListener("click", () => this.close());
    document.addEventListener("keydown", (event) => event.key === "Escape" && !document.querySelector("dialog[open]") && root.dataset.sheet && this.close());
    this.#tab("settings");
  }

  #toggle(button) {
    const name = button.dataset.opens;
    const isTab = button.closest("[role=tablist]");
    if (!isTab && this.root.dataset.sheet === name) return this.close();
    this.opener = isTab ? this.opener : button;
    this.open(name, { isFocused: !isTab });
  }

  /** Show a pane, as a sheet on phones. */
  open(name, { isFocused = false } = {}) {
    if (name !== "palette") this.#tab(name);
    if (PHONE.matches) this.root.dataset.sheet = name;
    for (const button of document.querySelectorAll(".c-phone-bar [data-opens]")) button.setAttribute("aria-expanded", String(button.dataset.opens === name));
    if (isFocused) this.#pane(name)?.querySelector("input, select, textarea, button:not([data-closes])")?.focus();
  }

  /** Show a pane that is useful now. On a phone it opens only when the user asked for it. */
  show(name, { isFocused }) {
    this.open(name, { isFocused });
  }

  note(name) {
    if (!PHONE.matches) this.#tab(name);
  }

  close() {
    if (!this.root.dataset.sheet) return;
    delete this.root.dataset.sheet;
    for (const button of document.querySelectorAll(".c-phone-bar [data-opens]")) button.setAttribute("aria-expanded", "false");
    this.opener?.focus();
  }

  #pane(name) {
    return document.getElementById(`composer-${name}`);
  }

  #tab(name) {
    for (const tab of document.querySelectorAll("[role=tab]")) {
      const isCurrent = tab.dataset.opens === name;
      tab.setAttribute("aria-selected", String(isCurrent));
      this.#pane(tab.dataset.opens).hidden = !isCurrent;
    }
  }
}
