// The dialog of a variable in a text: what contacts without a value see, or its removal.

import { labelOf } from "./chips.js";
import { ask, h } from "./dom.js";

/** Open the dialog if a click was on a chip that can be edited. */
export async function openChip(event) {
  const dom = event.target.closest?.(".c-chip");
  const editor = dom?.closest(".ProseMirror")?.richText;
  if (!editor || editor.view.editable === false) return;
  const variable = labelOf(dom.dataset.variable);
  const fallback = h("input", { id: "c-chip-fallback", value: dom.dataset.fallback ?? "", autocomplete: "off" });
  const body = h("div", { class: "field" }, h("label", { for: "c-chip-fallback" }, t("If a contact has no {variable}, write", { variable })), fallback);
  const choice = await ask({ title: t("Variable {variable}", { variable }), body, buttons: [["set", t("Save"), "primary"], ["remove", t("Remove variable")], ["", t("Cancel")]] });
  if (choice === "set") editor.changeChip(dom, { fallback: fallback.value });
  else if (choice === "remove") editor.changeChip(dom, null);
}
