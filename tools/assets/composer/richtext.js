// Text that is edited in place: a small ProseMirror schema, so that nothing but the documented elements can get into a
// document, however it was typed or pasted.

import { baseKeymap, chainCommands, toggleMark } from "prosemirror-commands";
import { inputRules, wrappingInputRule } from "prosemirror-inputrules";
import { keymap } from "prosemirror-keymap";
import { DOMParser as ModelParser, DOMSerializer, Schema } from "prosemirror-model";
import { liftListItem, sinkListItem, splitListItem, wrapInList } from "prosemirror-schema-list";
import { EditorState, Plugin, TextSelection } from "prosemirror-state";
import { EditorView } from "prosemirror-view";

import { labelOf, showChip } from "./chips.js";
import { cleanPasted } from "./paste.js";

// Escape leaves the text, so that the keyboard can reach the block.
const { Escape: _selectParent, ...KEYS } = baseKeymap;
const HEX = /^#[0-9a-f]{6}$/;

const MARKS = {
  link: {
    attrs: { href: {} },
    inclusive: false,
    parseDOM: [{ tag: "a[href]", getAttrs: (dom) => ({ href: dom.getAttribute("href") }) }],
    toDOM: (mark) => ["a", { href: mark.attrs.href }, 0],
  },
  strong: {
    parseDOM: [
      { tag: "strong" },
      // Google Docs wraps everything in <b style="font-weight:normal">.
      { tag: "b", getAttrs: (dom) => !/font-weight:\s*(normal|400)/.test(dom.getAttribute("style") ?? "") && null },
      { style: "font-weight", getAttrs: (value) => /^(bold(er)?|[6-9]00)$/.test(value) && null },
    ],
    toDOM: () => ["strong", 0],
  },
  em: { parseDOM: [{ tag: "em" }, { tag: "i" }, { style: "font-style=italic" }], toDOM: () => ["em", 0] },
  u: { parseDOM: [{ tag: "u" }], toDOM: () => ["u", 0] },
  s: { parseDOM: [{ tag: "s" }, { tag: "del" }, { tag: "strike" }], toDOM: () => ["s", 0] },
  color: {
    attrs: { color: {} },
    parseDOM: [{ tag: "span[style]", getAttrs: (dom) => colourOf(dom.getAttribute("style")) }],
    toDOM: (mark) => {
      const dom = document.createElement("span");
      dom.style.color = mark.attrs.color;
      return { dom, contentDOM: dom };
    },
  },
};

const VARIABLE = {
  group: "inline",
  inline: true,
  atom: true,
  attrs: { name: {}, fallback: { default: "" }, label: { default: "" } },
  parseDOM: [
    {
      tag: "span[data-variable]",
      priority: 90,
      getAttrs: (dom) => ({
        name: dom.getAttribute("data-variable"),
        fallback: dom.getAttribute("data-fallback") ?? "",
        label: dom.textContent,
      }),
    },
  ],
  toDOM: ({ attrs }) => [
    "span",
    { "data-variable": attrs.name, ...(attrs.fallback ? { "data-fallback": attrs.fallback } : {}) },
    attrs.label || labelOf(attrs.name),
  ],
};

const BREAK = { group: "inline", inline: true, selectable: false, parseDOM: [{ tag: "br" }], toDOM: () => ["br"] };

/** Paragraphs and lists, for text, quotes and cards. */
const TEXT = new Schema({
  nodes: {
    doc: { content: "block+" },
    paragraph: { group: "block", content: "inline*", parseDOM: [{ tag: "p" }], toDOM: () => ["p", 0] },
    bullet_list: { group: "block", content: "list_item+", parseDOM: [{ tag: "ul" }], toDOM: () => ["ul", 0] },
    ordered_list: { group: "block", content: "list_item+", parseDOM: [{ tag: "ol" }], toDOM: () => ["ol", 0] },
    list_item: { content: "paragraph block*", defining: true, parseDOM: [{ tag: "li" }], toDOM: () => ["li", 0] },
    text: { group: "inline" },
    hard_break: BREAK,
    variable: VARIABLE,
  },
  marks: MARKS,
});

/** One line, for headings. */
const LINE = new Schema({
  nodes: { doc: { content: "inline*" }, text: { group: "inline" }, hard_break: BREAK, variable: VARIABLE },
  marks: MARKS,
});

// Colours are written as attributes at first: the CSSOM would turn #2563eb into rgb(37, 99, 235).
const WRITERS = new Map([TEXT, LINE].map((schema) => [schema, new DOMSerializer(
  DOMSerializer.nodesFromSchema(schema),
  { ...DOMSerializer.marksFromSchema(schema), color: (mark) => ["span", { "data-written-color": mark.attrs.color }, 0] },
)]));

/** An editor in place. `onChange` gets the HTML, `onState` is called whenever the toolbar may have to change. */
export class RichText {
  constructor(host, { html, label, isLine = false, isLocked = false, onChange, onState, onPasteBlocks }) {
    this.schema = isLine ? LINE : TEXT;
    this.isLine = isLine;
    this.onChange = onChange;
    this.html = html;
    this.view = new EditorView(host, {
      state: this.stateFor(html),
      editable: () => !isLocked,
      attributes: { role: "textbox", "aria-label": label, "aria-multiline": String(!isLine), "aria-readonly": String(isLocked), tabindex: "0" },
      nodeViews: { variable: ({ attrs }) => ({ dom: showChip(attrs) }) },
      dispatchTransaction: (transaction) => this.dispatch(transaction, onState),
      transformPastedHTML: cleanPasted,
      handlePaste: (view, event) => onPasteBlocks?.(event) ?? false,
      handleDOMEvents: { focus: () => (onState(this), false), blur: () => (onState(null, this), false) },
    });
    this.view.dom.richText = this;
  }

  stateFor(html) {
    const { schema } = this;
    const parsed = new DOMParser().parseFromString(html ?? "", "text/html").body;
    const lists = this.isLine ? [] : [
      inputRules({ rules: [wrappingInputRule(/^\s*[-*]\s$/, schema.nodes.bullet_list), wrappingInputRule(/^1[.)]\s$/, schema.nodes.ordered_list)] }),
      keymap({ Enter: splitListItem(schema.nodes.list_item), Tab: sinkListItem(schema.nodes.list_item), "Shift-Tab": liftListItem(schema.nodes.list_item) }),
    ];
    return EditorState.create({
      doc: ModelParser.fromSchema(schema).parse(parsed),
      plugins: [
        ...lists,
        keymap({
          "Mod-b": toggleMark(schema.marks.strong),
          "Mod-i": toggleMark(schema.marks.em),
          "Mod-u": toggleMark(schema.marks.u),
          "Shift-Enter": insertBreak,
          ...(this.isLine ? { Enter: insertBreak } : {}),
        }),
        keymap(KEYS),
        new Plugin({ props: { attributes: (state) => (isEmpty(state.doc) ? { class: "is-empty" } : {}) } }),
      ],
    });
  }

  dispatch(transaction, onState) {
    this.view.updateState(this.view.state.apply(transaction));
    if (transaction.docChanged) {
      this.html = this.read();
      this.onChange(this.html);
    }
    onState(this.view.hasFocus() ? this : undefined);
  }

  read() {
    const { doc } = this.view.state;
    if (isEmpty(doc)) return "";
    const written = WRITERS.get(this.schema).serializeFragment(doc.content, { document: document.implementation.createHTMLDocument("") });
    const box = document.implementation.createHTMLDocument("").createElement("div");
    box.append(written);
    return box.innerHTML
      .replace(/ data-written-color="(#[0-9a-f]{6})"/g, ' style="color:$1"')
      // A list item without nested blocks needs no paragraph.
      .replace(/<li><p>((?:(?!<\/?p>).)*)<\/p><\/li>/g, "<li>$1</li>");
  }

  /** Show other HTML, for undo, redo and changes of other people. The cursor goes to the end of the difference. */
  show(html) {
    if (html === this.html) return;
    this.html = html;
    const state = this.stateFor(html);
    const [before, after] = [this.view.state.doc.content, state.doc.content];
    const place = Math.max(after.findDiffStart(before) ?? 0, after.findDiffEnd(before)?.a ?? 0);
    this.view.updateState(state.apply(state.tr.setSelection(TextSelection.near(state.doc.resolve(place)))));
  }

  isActive(name) {
    const { state } = this.view;
    const { from, $from, to, empty } = state.selection;
    const mark = state.schema.marks[name];
    if (mark) return empty ? Boolean(mark.isInSet(state.storedMarks ?? $from.marks())) : state.doc.rangeHasMark(from, to, mark);
    for (let depth = $from.depth; depth > 0; depth--) if ($from.node(depth).type.name === name) return true;
    return false;
  }

  toggle(name) {
    this.run(toggleMark(this.schema.marks[name]));
  }

  toggleList(name) {
    const { nodes } = this.schema;
    if (this.isActive(name)) this.run(liftListItem(nodes.list_item));
    else this.run(chainCommands(wrapInList(nodes[name]), switchList(nodes[name])));
  }

  /** The address of the link at the cursor, or "". */
  linkHref() {
    const { $from, from, to } = this.view.state.selection;
    let found = this.schema.marks.link.isInSet($from.marks())?.attrs.href ?? "";
    this.view.state.doc.nodesBetween(from, to, (node) => void (found ||= this.schema.marks.link.isInSet(node.marks)?.attrs.href ?? ""));
    return found;
  }

  /** Link the selection, the word of the link at the cursor, or insert `text`. An empty `href` removes the link. */
  setLink(href, text) {
    const { state } = this.view;
    const mark = this.schema.marks.link;
    let { from, to } = state.selection;
    if (from === to) [from, to] = linkRange(state, mark) ?? [from, to];
    let change = state.tr;
    if (from === to && href) {
      change.insertText(text || href, from);
      to = from + (text || href).length;
    }
    change.removeMark(from, to, mark);
    if (href) change.addMark(from, to, mark.create({ href }));
    this.view.dispatch(change);
    this.view.focus();
  }

  setColour(colour) {
    const { color } = this.schema.marks;
    const { from, to, empty } = this.view.state.selection;
    const change = this.view.state.tr;
    if (empty) colour ? change.addStoredMark(color.create({ color: colour })) : change.removeStoredMark(color);
    else {
      change.removeMark(from, to, color);
      if (colour) change.addMark(from, to, color.create({ color: colour }));
    }
    this.view.dispatch(change);
    this.view.focus();
  }

  clear() {
    const { from, to } = this.view.state.selection;
    const change = this.view.state.tr;
    for (const mark of Object.values(this.schema.marks)) change.removeMark(from, to, mark);
    this.view.dispatch(change);
    this.view.focus();
  }

  insertVariable(name, fallback) {
    const chip = this.schema.nodes.variable.create({ name, fallback, label: labelOf(name) });
    this.view.dispatch(this.view.state.tr.replaceSelectionWith(chip, true).scrollIntoView());
    this.view.focus();
  }

  /** Change the chip whose element is `dom`, or delete it when `attrs` is null. */
  changeChip(dom, attrs) {
    const at = this.view.posAtDOM(dom, 0);
    const node = this.view.state.doc.nodeAt(at);
    const change = this.view.state.tr;
    this.view.dispatch(attrs ? change.setNodeMarkup(at, null, { ...node.attrs, ...attrs }) : change.delete(at, at + 1));
    this.view.focus();
  }

  /** Delete the selected text. Return whether there was any. */
  deleteSelection() {
    const { state } = this.view;
    if (state.selection.empty) return false;
    this.view.dispatch(state.tr.deleteSelection());
    return true;
  }

  run(command) {
    command(this.view.state, (transaction) => this.view.dispatch(transaction), this.view);
    this.view.focus();
  }

  focus() {
    this.view.focus();
  }

  destroy() {
    this.view.destroy();
  }
}

function colourOf(style) {
  const value = /(?:^|;)\s*color:\s*([^;]+)/i.exec(style ?? "")?.[1].trim().toLowerCase() ?? "";
  if (HEX.test(value)) return { color: value };
  const parts = /^rgb\((\d+),\s*(\d+),\s*(\d+)\)$/.exec(value);
  return parts ? { color: `#${parts.slice(1).map((part) => Math.min(Number(part), 255).toString(16).padStart(2, "0")).join("")}` } : false;
}

function insertBreak(state, dispatch) {
  dispatch?.(state.tr.replaceSelectionWith(state.schema.nodes.hard_break.create()).scrollIntoView());
  return true;
}

function isEmpty(doc) {
  return doc.childCount === 0 || (doc.childCount === 1 && doc.firstChild.isTextblock && doc.firstChild.content.size === 0);
}

/** Turn the list around the cursor into another kind of list. */
function switchList(type) {
  return (state, dispatch) => {
    const { $from } = state.selection;
    for (let depth = $from.depth; depth > 0; depth--) {
      if (!/_list$/.test($from.node(depth).type.name)) continue;
      dispatch?.(state.tr.setNodeMarkup($from.before(depth), type));
      return true;
    }
    return false;
  };
}

function linkRange(state, mark) {
  const { $from } = state.selection;
  const parent = $from.parent;
  const start = $from.start();
  let range = null;
  parent.forEach((node, offset) => {
    const from = start + offset;
    if (mark.isInSet(node.marks) && from <= $from.pos && $from.pos <= from + node.nodeSize) range = [from, from + node.nodeSize];
  });
  return range;
}
