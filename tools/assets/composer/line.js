// One line of plain text with variables as chips: the subject and the preview text. The server stores template code.

import { baseKeymap } from "prosemirror-commands";
import { keymap } from "prosemirror-keymap";
import { Fragment, Schema, Slice } from "prosemirror-model";
import { EditorState, Plugin, TextSelection } from "prosemirror-state";
import { EditorView } from "prosemirror-view";

import { labelOf, showChip } from "./chips.js";

const { Escape: _selectParent, ...KEYS } = baseKeymap;
const CODE = /\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}/g;
const TEXT_LITERAL = `"(?:[^"\\\\]|\\\\.)*"`;
const NAME = "[\\p{L}_][\\p{L}\\p{M}\\p{N}_.]*";
const VARIABLE = new RegExp(`^\\{\\{\\s*(?:(${NAME})|\\((${NAME}) if [^)]* else none\\))\\s*(?:\\|\\s*default\\(\\s*(${TEXT_LITERAL})\\s*,\\s*true\\s*\\)\\s*)?\\}\\}$`, "u");

const SCHEMA = new Schema({
  nodes: {
    doc: { content: "inline*" },
    text: { group: "inline" },
    variable: { group: "inline", inline: true, attrs: { code: {} }, toDOM: ({ attrs }) => ["span", {}, attrs.code] },
  },
});

/** The code of a variable, as the server writes it. */
export function codeOf(name, fallback) {
  if (!fallback) return `{{ ${name} }}`;
  const steps = name.split(".");
  const known = steps.slice(1).map((_, index) => steps.slice(0, index + 1).join(".")).map((path) => `${path} is defined and ${path}`).join(" and ");
  return `{{ ${known ? `(${name} if ${known} else none)` : name}|default(${JSON.stringify(fallback)}, true) }}`;
}

/** The variable of a code as `{ name, fallback }`, or null for other template code. */
function variableOf(code) {
  const found = VARIABLE.exec(code);
  if (!found) return null;
  try {
    return { name: found[1] ?? found[2], fallback: found[3] ? JSON.parse(found[3]) : "" };
  } catch {
    return null;
  }
}

function parse(text) {
  const nodes = [];
  let end = 0;
  for (const { 0: code, index } of text.matchAll(CODE)) {
    if (index > end) nodes.push(SCHEMA.text(text.slice(end, index)));
    nodes.push(SCHEMA.nodes.variable.create({ code }));
    end = index + code.length;
  }
  if (end < text.length) nodes.push(SCHEMA.text(text.slice(end)));
  return Fragment.fromArray(nodes);
}

function write(fragment) {
  let text = "";
  fragment.forEach((node) => (text += node.isText ? node.text : node.attrs.code));
  return text;
}

export class Line {
  /** `onChange` gets the text with its template code, `onEnter` is called for the Enter key. */
  constructor(host, { label, maxLength, onChange, onEnter }) {
    Object.assign(this, { onChange, maxLength, text: "" });
    this.view = new EditorView(host, {
      state: this.#state(""),
      attributes: { role: "textbox", "aria-labelledby": label.id, "aria-multiline": "false", tabindex: "0" },
      nodeViews: { variable: ({ attrs }) => ({ dom: chip(attrs.code) }) },
      dispatchTransaction: (transaction) => this.#dispatch(transaction),
      clipboardTextSerializer: (slice) => write(slice.content),
      clipboardTextParser: (text) => new Slice(parse(text.replace(/\s+/g, " ")), 0, 0),
      handlePaste: (view, event) => {
        view.dispatch(view.state.tr.replaceSelection(new Slice(parse(event.clipboardData.getData("text/plain").replace(/\s+/g, " ")), 0, 0)).scrollIntoView());
        return true;
      },
      handleKeyDown: (view, event) => {
        if (event.key !== "Enter") return false;
        onEnter?.();
        return true;
      },
      handleDOMEvents: { blur: () => (this.show(this.text, { isForced: true }), false) },
    });
    this.view.dom.richText = this;
    label.addEventListener("click", () => this.focus());
  }

  #state(text) {
    const empty = new Plugin({ props: { attributes: ({ doc }) => (doc.content.size ? {} : { class: "is-empty" }) } });
    return EditorState.create({ doc: SCHEMA.node("doc", null, parse(text)), plugins: [keymap(KEYS), empty] });
  }

  #dispatch(transaction) {
    const text = write(transaction.doc.content);
    if (transaction.docChanged && text.length > this.maxLength && text.length > this.text.length) return;
    this.view.updateState(this.view.state.apply(transaction));
    if (!transaction.docChanged) return;
    this.text = text;
    this.onChange(text);
  }

  /** Show another text. `isForced` turns code that was typed into chips. */
  show(text, { isForced = false } = {}) {
    if (text === this.text && !isForced) return;
    this.text = text;
    const state = this.#state(text);
    if (state.doc.eq(this.view.state.doc)) return;
    this.view.updateState(state.apply(state.tr.setSelection(TextSelection.atEnd(state.doc))));
  }

  insertVariable(name, fallback) {
    this.view.dispatch(this.view.state.tr.replaceSelectionWith(SCHEMA.nodes.variable.create({ code: codeOf(name, fallback) })).scrollIntoView());
    this.focus();
  }

  /** Change the chip whose element is `dom`, or delete it when `attrs` is null. */
  changeChip(dom, attrs) {
    const at = this.view.posAtDOM(dom, 0);
    const change = this.view.state.tr;
    this.view.dispatch(attrs ? change.setNodeMarkup(at, null, { code: codeOf(dom.dataset.variable, attrs.fallback) }) : change.delete(at, at + 1));
    this.focus();
  }

  focus() {
    this.view.focus();
  }
}

/** Other template code than a variable is shown as it is. */
function chip(code) {
  const variable = variableOf(code);
  if (variable) return showChip(variable);
  const dom = document.createElement("code");
  dom.className = "c-code-chip";
  dom.title = t("Template code");
  dom.textContent = code;
  return dom;
}
