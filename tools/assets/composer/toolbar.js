// The toolbar of the text in which the cursor is.

import { openChip } from "./chip_dialog.js";
import { ask, h, icon, iconButton } from "./dom.js";
import { completed, hrefProblem } from "./links.js";

const MARKS = [["strong", t("Bold"), "B", "Ctrl+B"], ["em", t("Italic"), "I", "Ctrl+I"], ["u", t("Underline"), "U", "Ctrl+U"]];
const COLOURS = { primary: t("Text in the primary colour of the brand"), accent: t("Text in the accent colour of the brand"), text: t("Text in the text colour of the brand") };

export class Toolbar {
  constructor(host, context) {
    this.context = context;
    this.host = host;
    this.editor = null;
    const keep = (event) => event.target.closest("button") && event.preventDefault();
    host.addEventListener("mousedown", keep);
    host.append(...this.#buttons());
    // Arrow keys move between the buttons, as in every toolbar.
    host.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Escape") return this.editor?.focus();
      if (!step) return;
      const buttons = [...host.querySelectorAll("button:not([hidden])")];
      buttons[(buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length].focus();
      event.preventDefault();
    });
    document.addEventListener("click", openChip);
  }

  /** Serve an editor. It stays the toolbar's editor while the toolbar itself has the focus. */
  follow(editor) {
    if (editor) this.editor = editor;
    const isShown = Boolean(this.editor) && (editor !== null || this.host.contains(document.activeElement));
    if (editor === null) setTimeout(() => this.#hideUnlessUsed());
    if (isShown) this.host.classList.add("is-active");
    this.refresh();
  }

  #hideUnlessUsed() {
    const active = document.activeElement;
    const isUsed = this.host.contains(active) || active?.closest?.(".c-rich") || document.querySelector("dialog[open]");
    if (!isUsed) this.host.classList.remove("is-active");
  }

  refresh() {
    if (!this.editor) return;
    for (const button of this.host.querySelectorAll("[data-name]")) button.setAttribute("aria-pressed", String(this.editor.isActive(button.dataset.name)));
    for (const button of this.host.querySelectorAll("[data-block]")) button.hidden = this.editor.isLine;
  }

  #buttons() {
    const act = (run) => () => this.editor && run(this.editor);
    const marks = MARKS.map(([name, label, sign, keys]) => h("button", { type: "button", class: `c-icon-button is-${name}`, "data-name": name, "aria-label": label, "aria-pressed": "false", title: `${label} (${keys})`, onclick: act((editor) => editor.toggle(name)) }, sign));
    const colours = Object.entries(COLOURS).map(([name, label]) => h("button", { type: "button", class: "c-icon-button", "aria-label": label, title: label, onclick: act((editor) => editor.setColour(this.context.brand[name])) }, h("span", { class: "c-dot", style: { "background-color": this.context.brand[name] } })));
    return [
      h("span", { class: "c-tool-group" }, marks),
      h("span", { class: "c-tool-group" },
        iconButton("link", t("Link"), act((editor) => this.#askLink(editor)), { "data-name": "link", "aria-pressed": "false", title: `${t("Link")} (Ctrl+K)` }),
        iconButton("bullets", t("Bulleted list"), act((editor) => editor.toggleList("bullet_list")), { "data-name": "bullet_list", "data-block": "", "aria-pressed": "false" }),
        iconButton("numbers", t("Numbered list"), act((editor) => editor.toggleList("ordered_list")), { "data-name": "ordered_list", "data-block": "", "aria-pressed": "false" })),
      h("span", { class: "c-tool-group" }, colours, iconButton("clear", t("Remove formatting"), act((editor) => editor.clear()))),
      h("button", { type: "button", class: "c-icon-button is-wide", onclick: act((editor) => this.#askVariable(editor)) }, icon("variable"), t("Variable")),
    ];
  }

  link() {
    if (this.editor) this.#askLink(this.editor);
  }

  async #askLink(editor) {
    const current = editor.linkHref();
    const { empty } = editor.view.state.selection;
    const problem = h("p", { class: "error", id: "c-link-error", hidden: true });
    const href = h("input", { id: "c-link", inputmode: "url", value: current || "https://", "aria-describedby": "c-link-error", autocomplete: "off" });
    const text = h("input", { id: "c-link-text", value: "", autocomplete: "off" });
    const isNew = empty && !current;
    const body = h("div", { class: "stack" },
      h("div", { class: "field" }, h("label", { for: "c-link" }, t("Address")), href, problem),
      isNew && h("div", { class: "field" }, h("label", { for: "c-link-text" }, t("Text")), text));
    href.addEventListener("blur", () => (href.value = completed(href.value)));
    const answered = ask({ title: current ? t("Change link") : t("Add link"), body, buttons: [["set", current ? t("Change link") : t("Add link"), "primary"], ...(current ? [["remove", t("Remove link")]] : []), ["", t("Cancel")]] });
    const form = body.closest("form");
    form.addEventListener("submit", (event) => {
      if (event.submitter?.value !== "set") return;
      href.value = completed(href.value);
      const wrong = hrefProblem(href.value);
      if (!wrong) return;
      event.preventDefault();
      problem.textContent = wrong;
      problem.hidden = false;
      href.setAttribute("aria-invalid", "true");
      href.focus();
    });
    href.select();
    const choice = await answered;
    if (choice === "set") editor.setLink(href.value, text.value);
    else if (choice === "remove") editor.setLink("", "");
    else editor.focus();
  }

  async #askVariable(editor) {
    const chosen = await this.context.variables.pick();
    if (chosen) editor.insertVariable(chosen.name, chosen.fallback);
    else editor.focus();
  }
}
