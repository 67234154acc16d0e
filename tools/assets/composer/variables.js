// The picker of variables: attributes that contacts really have, with an example of each.

import { ask, h } from "./dom.js";
import { labelOf } from "./chips.js";

export class Variables {
  constructor(api) {
    this.api = api;
  }

  /** Resolve with `{ name, fallback }`, or null. */
  async pick() {
    const known = await this.#load();
    const search = h("input", { id: "c-variable-search", type: "search", autocomplete: "off", placeholder: t("Search") });
    const fallback = h("input", { id: "c-variable-fallback", autocomplete: "off", placeholder: t("there") });
    const list = h("div", { class: "c-variables", role: "radiogroup", "aria-label": t("Variables") });
    const show = () => {
      const words = search.value.trim().toLowerCase();
      const found = known.filter((each) => labelOf(each.name).toLowerCase().includes(words) || each.name.includes(words));
      list.replaceChildren(...found.map((each, index) => h("label", { class: "c-variable" },
        h("input", { type: "radio", name: "variable", value: each.name, checked: index === 0 }),
        h("span", { class: "c-variable-name" }, labelOf(each.name)),
        h("span", { class: "muted" }, each.example ? t("for example {example}", each) : t("no example yet")))));
      if (!found.length) list.append(h("p", { class: "c-variable muted" }, t("No variable matches. Choose one of the attributes of your contacts.")));
    };
    search.addEventListener("input", show);
    show();
    const body = h("div", { class: "stack" },
      h("div", { class: "field" }, h("label", { for: "c-variable-search" }, t("Find a variable")), search), list,
      h("div", { class: "field" }, h("label", { for: "c-variable-fallback" }, t("If a contact has none, write"), h("span", { class: "muted" }, ` ${t("optional")}`)), fallback));
    const answered = ask({ title: t("Insert variable"), body, buttons: [["insert", t("Insert"), "primary"], ["", t("Cancel")]] });
    const chosen = () => list.querySelector("input:checked")?.value;
    body.closest("form").addEventListener("submit", (event) => event.submitter?.value && !chosen() && event.preventDefault());
    return (await answered) === "insert" ? { name: chosen(), fallback: fallback.value.trim() } : null;
  }

  async #load() {
    this.known ??= await this.api.get("/composer/variables").catch(() => null);
    return this.known ?? [{ name: "name", example: "" }, { name: "email", example: "" }];
  }
}
