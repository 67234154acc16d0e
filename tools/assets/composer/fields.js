// Fields of ordinary forms that show variables as chips, such as the subject of a campaign. The form submits the input,
// which has the template code. Without scripts, it is a plain field.

import { Api } from "./api.js";
import { openChip } from "./chip_dialog.js";
import { h, iconButton } from "./dom.js";
import { Line } from "./line.js";
import { Variables } from "./variables.js";

const variables = new Variables(new Api(""));

function enhance(input) {
  const label = input.form.querySelector(`label[for="${CSS.escape(input.id)}"]`);
  label.id = `${input.id}-label`;
  label.removeAttribute("for");
  const host = h("div", { class: "c-line-input", "data-placeholder": input.placeholder });
  const add = iconButton("variable", t("Insert a variable into the {field}", { field: label.firstChild.textContent.trim().toLowerCase() }), pick);
  input.after(h("div", { class: "c-line-field is-field" }, host, add));
  const isFocused = document.activeElement === input;
  input.hidden = true;
  const line = new Line(host, { label, maxLength: input.maxLength > 0 ? input.maxLength : 2_000, onChange: write, onEnter: () => input.form.querySelector("[type=submit], button:not([type])").click() });
  for (const name of ["aria-describedby", "aria-invalid"]) if (input.hasAttribute(name)) line.view.dom.setAttribute(name, input.getAttribute(name));
  line.show(input.value);
  input.editor = line;
  if (isFocused) line.focus();

  function write(text) {
    input.value = text;
    input.dispatchEvent(new Event("input", { bubbles: true }));
  }

  async function pick() {
    const chosen = await variables.pick();
    if (chosen) line.insertVariable(chosen.name, chosen.fallback);
    else line.focus();
  }
}

for (const input of document.querySelectorAll("input[data-variables]")) enhance(input);
document.addEventListener("click", openChip);
