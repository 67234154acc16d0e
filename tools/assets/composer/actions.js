// What users do with blocks: add, move, duplicate, delete, copy and paste, by mouse and by keyboard.

import { BLOCKS, definitionOf, labelOf } from "./blocks.js";
import { find, insertAt, isFixed, mayContain, moveTo, removeBlock, renew, stepFrom, updateBlock, walk } from "./document.js";
import { announce, hideToast, toast } from "./dom.js";
import { imageFileOf } from "./images.js";
import { openBlockMenu } from "./menu.js";
import { cleanPasted, hasBlocks } from "./paste.js";
import { PHONE } from "./sheets.js";

const LOCAL_CLIPBOARD = "mailwright.blocks";
const NEWS = {
  added: (block) => t("{block} added.", { block }),
  inserted: (block) => t("{block} inserted.", { block }),
  pasted: (block) => t("{block} pasted.", { block }),
};

export class Actions {
  constructor(store, context) {
    Object.assign(this, { store, context });
  }

  get canvas() {
    return this.context.canvas;
  }

  /** The place for new blocks: the chosen one, below the selected block, or above the footer. */
  #place(blocks) {
    const { document, selected } = this.store;
    if (this.store.place && mayContain(document, this.store.place.parent, blocks)) return this.store.place;
    let place = selected && find(document, selected);
    while (place) {
      const parent = place.parent?.id ?? null;
      if (mayContain(document, parent, blocks)) return { parent, slot: place.slot, index: place.index + 1 };
      place = find(document, parent);
    }
    const { blocks: list } = document;
    let end = list.length;
    while (end && list[end - 1].type === "footer") end--;
    return { parent: null, slot: "blocks", index: end };
  }

  /** Remember where the next block goes, and open a menu there; on a phone the palette. */
  chooseAt(anchor, parent, slot) {
    this.store.select(parent);
    const { document } = this.store;
    const place = parent === null ? null : { parent, slot, index: slotOf(find(document, parent).block, slot).length };
    this.store.place = place;
    if (PHONE.matches) return this.choose();
    const types = Object.keys(BLOCKS).filter((type) => mayContain(document, parent, [{ type }]));
    openBlockMenu(anchor, types, (type) => this.add(type, place));
    announce(t("Choose a block to add."));
  }

  /** Open a menu of blocks to add directly below a block; on a phone the palette. */
  chooseBelow(anchor, id) {
    const { document } = this.store;
    if (document.mjml) return this.choose();
    const { parent, slot, index } = find(document, id);
    const place = { parent: parent?.id ?? null, slot, index: index + 1 };
    this.store.select(id);
    this.store.place = place;
    if (PHONE.matches) return this.choose();
    const types = Object.keys(BLOCKS).filter((type) => mayContain(document, place.parent, [{ type }]));
    openBlockMenu(anchor, types, (type) => this.add(type, place));
    announce(t("Choose a block to add below."));
  }

  choose() {
    this.context.openPalette();
    announce(t("Choose a block to add."));
  }

  make(type) {
    return { id: "", type, ...BLOCKS[type].make(this.context.brand) };
  }

  add(type, place) {
    return this.insert([this.make(type)], { place, verb: "added" });
  }

  insert(blocks, { place, verb = "pasted", instead = null, merge = null } = {}) {
    if (this.store.document.mjml) return toast(t("A developer designed this email. It has fields, but no place for blocks."));
    const made = renew(this.store.document, blocks);
    const target = place && mayContain(this.store.document, place.parent, made) ? place : this.#place(made);
    const inserted = insertAt(this.store.document, target, made);
    this.store.change({ document: instead ? removeBlock(inserted, instead) : inserted }, { merge });
    this.store.select(made.at(-1).id);
    announce(NEWS[verb](made.length === 1 ? labelOf(made[0]) : t("{count} blocks", { count: made.length })));
    this.context.closeSheets();
    if (made.length === 1 && definitionOf(made[0]).rich) this.canvas.edit(made[0].id);
    else this.canvas.focus(made.at(-1).id);
    return made;
  }

  move(id, step) {
    const { document } = this.store;
    if (isFixed(document, id)) return announce(t("This block is locked."));
    const place = stepFrom(document, id, step);
    if (!place) return announce(step < 0 ? t("This is the first block.") : t("This is the last block."));
    this.moveTo(id, place);
  }

  moveTo(id, place) {
    this.store.change({ document: moveTo(this.store.document, id, place) });
    this.store.select(id);
    this.canvas.focus(id);
    const { index, list, parent, block } = find(this.store.document, id);
    const values = { block: labelOf(block), index: index + 1, count: list.length, parent: parent && labelOf(parent) };
    announce(parent ? t("{block} moved to {index} of {count} inside {parent}.", values) : t("{block} moved to {index} of {count}.", values));
  }

  duplicate(id) {
    const { document } = this.store;
    if (isFixed(document, id)) return;
    const { block, parent, slot, index } = find(document, id);
    const [copy] = renew(document, [block]);
    this.store.change({ document: insertAt(document, { parent: parent?.id ?? null, slot, index: index + 1 }, [copy]) });
    this.store.select(copy.id);
    this.canvas.focus(copy.id);
    announce(t("{block} duplicated.", { block: labelOf(copy) }));
  }

  remove(id) {
    const { document } = this.store;
    if (isFixed(document, id)) return announce(t("This block is locked."));
    const { block, list, index, parent } = find(document, id);
    const next = list[index + 1] ?? list[index - 1] ?? parent;
    this.store.change({ document: removeBlock(document, id) });
    this.store.select(next?.id ?? null);
    if (next) this.canvas.focus(next.id);
    else this.canvas.host.focus();
    const text = t("{block} deleted.", { block: labelOf(block) });
    announce(text);
    toast(text, { label: t("Undo"), run: () => this.undo() });
  }

  undo() {
    announce(this.#travel(() => this.store.undo()) ? t("Undone.") : t("Nothing to undo."));
  }

  redo() {
    announce(this.#travel(() => this.store.redo()) ? t("Redone.") : t("Nothing to redo."));
  }

  /** Go one step through the history. The cursor follows to the text that changed, and an older offer to undo ends. */
  #travel(step) {
    const isTyping = document.activeElement?.matches(".c-rich .ProseMirror");
    const isChanged = step();
    if (!isChanged) return false;
    hideToast();
    const { selected } = this.store;
    if (isTyping && selected && document.activeElement?.closest(".c-block")?.dataset.id !== selected) this.canvas.edit(selected);
    return true;
  }

  /** Copy to the clipboard as JSON, so that blocks can be pasted into another email or a text file. */
  async copy(id) {
    const text = this.#copied(id);
    localStorage.setItem(LOCAL_CLIPBOARD, text);
    await navigator.clipboard?.writeText(text).catch(() => null);
    toast(t("Block copied. Paste it here or in another email with Ctrl+V."));
  }

  #copied(id) {
    const { block } = find(this.store.document, id);
    return JSON.stringify({ mailwright: "blocks", version: 1, blocks: [block] });
  }

  /** Paste what a button has no event for. */
  async pasteFromMenu() {
    const text = (await navigator.clipboard?.readText?.().catch(() => "")) || "";
    const blocks = blocksIn(text) ?? blocksIn(localStorage.getItem(LOCAL_CLIPBOARD) ?? "");
    if (blocks) this.insert(blocks);
    else toast(t("There are no copied blocks."));
  }

  onCopy(event) {
    const id = this.store.selected;
    if (!id || isTyping(event.target) || !getSelection().isCollapsed || this.store.document.mjml) return;
    event.clipboardData.setData("text/plain", this.#copied(id));
    localStorage.setItem(LOCAL_CLIPBOARD, this.#copied(id));
    event.preventDefault();
    if (event.type === "cut") this.remove(id);
    else announce(t("Block copied."));
  }

  /** Handle what one text cannot hold. Return whether that was the case. */
  paste(event, cursor = null) {
    const isInText = cursor !== null;
    const data = event.clipboardData;
    const image = imageFileOf(data);
    const text = data.getData("text/plain");
    const html = data.getData("text/html");
    const blocks = blocksIn(text);
    if (blocks) this.insert(blocks);
    else if (image && !text) this.insertImage(image);
    else if (html && (!isInText || hasBlocks(html))) this.#convert({ from: "html", text: cleanPasted(html) }, cursor);
    else if (!isInText && text.trim()) this.#convert({ from: "markdown", text });
    else return false;
    event.preventDefault();
    return true;
  }

  async #convert(source, cursor = null) {
    try {
      const { blocks, warnings } = await this.context.api.post("/composer/convert", source);
      if (blocks.length) this.insert(blocks, cursor ? this.#replaceSelection(cursor) : {});
      const text = blocks.length ? warnings.join(" ") : t("The clipboard has nothing that an email can show.");
      if (text) toast(text);
    } catch (error) {
      toast(error.message);
    }
  }

  /** Delete the selected part of a text in which something is pasted, and the block if nothing is left of it. */
  #replaceSelection({ id, key }) {
    const editor = this.canvas.view(id)?.editors[key];
    if (!editor?.deleteSelection()) return {};
    const { block } = find(this.store.document, id);
    const isEmpty = Object.keys(definitionOf(block).rich).every((name) => !block[name]);
    const isText = block.type === "text" || block.type === "heading";
    return { merge: `${id}.${key}`, instead: isEmpty && isText && !isFixed(this.store.document, id) ? id : null };
  }

  async insertImage(file, place) {
    const image = await this.context.images.upload(file);
    if (image) this.insert([{ type: "image", ...imageFields(image) }], { place, verb: "added" });
  }

  /** Choose an image for the field `key` of a block. */
  async chooseImage(id, key) {
    this.useImage(id, key, await this.context.images.pick());
  }

  useImage(id, key, image) {
    if (!image) return this.canvas.focus(id);
    const place = find(this.store.document, id);
    if (!place) return;
    const alt = "alt" in place.block && !place.block.alt && image.alt ? { alt: image.alt } : {};
    this.store.change({ document: updateBlock(this.store.document, id, { [key]: image.url, ...alt }) });
    this.store.select(id);
    this.context.showSettings();
  }

  /** Keys that work while a block, not its text, has the focus, and undo and redo everywhere. */
  onKey(event) {
    const id = this.store.selected;
    const isControl = event.ctrlKey || event.metaKey;
    const key = keyOf(event);
    // The text editor claims these keys although it does nothing with them: it has no history of its own.
    const isClaimed = key === "escape" || (isControl && (key === "z" || key === "y"));
    if ((event.defaultPrevented && !isClaimed) || document.querySelector("dialog[open]")) return;
    const isBlock = event.target.classList?.contains("c-block");
    const isEmail = event.target === this.canvas.host;
    const run = () => {
      if (isControl && key === "z" && !isPlainField(event.target)) return event.shiftKey ? () => this.redo() : () => this.undo();
      if (isControl && key === "y" && !isPlainField(event.target)) return () => this.redo();
      if (isControl && key === "k" && event.target.closest?.(".c-rich .ProseMirror")) return () => this.context.toolbar.link();
      if (isControl && key === "s") return () => this.context.publish();
      if (event.altKey && key === "f10") return () => this.context.focusToolbar();
      if (event.altKey && (key === "arrowup" || key === "arrowdown") && id && event.target.closest?.(".c-block")) return () => this.move(id, key === "arrowup" ? -1 : 1);
      if (key === "escape" && id && event.target.closest?.(".c-rich, .c-side, .c-palette")) return () => this.canvas.focus(id);
      if (isEmail && key === "/") return () => this.canvas.addHere.click();
      if (isEmail && ["arrowdown", "arrowup", "enter"].includes(key)) return () => this.#enter(key === "arrowup" ? -1 : 0);
      if (!isBlock || !id) return null;
      if (key === "/") return () => this.chooseBelow(event.target, id);
      if (isControl && key === "d") return () => this.duplicate(id);
      if (key === "delete" || key === "backspace") return () => this.remove(id);
      if (key === "enter" || key === "f2") return () => this.#edit(id);
      if (key === "arrowup" || key === "arrowdown") return () => this.#step(id, key === "arrowup" ? -1 : 1);
      return null;
    };
    const action = run();
    if (!action) return;
    event.preventDefault();
    action();
  }

  #edit(id) {
    const { block } = find(this.store.document, id);
    if (definitionOf(block).rich && Object.keys(definitionOf(block).rich).length) this.canvas.edit(id);
    else this.context.showSettings({ isFocused: true });
  }

  #step(id, step) {
    const ids = this.#ids();
    this.#go(ids[ids.indexOf(id) + step]);
  }

  /** Go from the email as a whole to its first (0) or last (-1) block. */
  #enter(at) {
    this.#go(this.#ids().at(at));
  }

  #ids() {
    return [...walk(this.store.document)].map(({ block }) => block.id);
  }

  #go(id) {
    if (!id) return;
    this.store.select(id);
    this.canvas.focus(id);
  }
}

export function imageFields(image) {
  return { src: image.url, alt: image.alt ?? "" };
}

function slotOf(block, slot) {
  return (block.type === "columns" ? block.columns[Number(slot)].blocks : block[slot]) ?? [];
}

function blocksIn(text) {
  if (!text.startsWith("{")) return null;
  try {
    const { mailwright, blocks } = JSON.parse(text);
    const isOurs = mailwright === "blocks" && Array.isArray(blocks) && blocks.length > 0 && blocks.every((block) => typeof block?.type === "string");
    return isOurs ? blocks.map(({ locked, ...block }) => block) : null;
  } catch {
    return null;
  }
}

function isTyping(element) {
  return Boolean(element.closest?.("input, textarea, select, [contenteditable=true]"));
}

/** The key in lower case. Shortcuts are where they are on a Latin keyboard, also if the keyboard writes another script. */
function keyOf({ key, code, ctrlKey, metaKey }) {
  const isOtherScript = (ctrlKey || metaKey) && /^[^\0-\x7f]$/.test(key) && /^Key[A-Z]$/.test(code);
  return (isOtherScript ? code.slice(3) : key).toLowerCase();
}

/** A field with its own undo, which the browser does. */
function isPlainField(element) {
  return Boolean(element.closest?.("textarea")) && !element.closest("#composer");
}
