// The email as it will look, with its blocks editable in place.

import { definitionOf, labelOf, NETWORKS } from "./blocks.js";
import { isFixed, isLocked, listsOf, updateBlock, walk } from "./document.js";
import { h, icon, iconButton } from "./dom.js";
import { Look } from "./look.js";
import { RichText } from "./richtext.js";

const PLACEHOLDERS = { heading: t("Write a heading"), text: t("Write your text"), quote: t("Write the quote"), card: t("Write a description"), footer: t("Add a line to the footer (optional)"), slot: t("Write your text") };

export class Canvas {
  #views = new Map();

  constructor(host, store, context) {
    this.store = store;
    this.context = context;
    this.list = h("div", { class: "c-list", "data-slot": "blocks" });
    this.addHere = this.addButton(null, "blocks");
    this.email = h("div", { class: "c-email", dir: isRightToLeft(context.locale) ? "rtl" : "ltr" }, this.list, this.addHere);
    host.append(this.email);
    this.host = host;
    store.addEventListener("change", () => this.render());
    store.addEventListener("select", () => this.#showSelection());
    this.render();
    new ResizeObserver(() => this.#showSelection()).observe(this.email);
  }

  render() {
    this.look = new Look(this.store.document.settings, this.context.brand);
    const { look } = this;
    this.host.style.setProperty("background-color", look.background);
    for (const [name, value] of Object.entries({ "max-width": `${look.width}px`, "background-color": look.contentBackground, color: look.textColor, "font-family": look.font })) this.email.style.setProperty(name, value);
    this.email.style.setProperty("--c-link", look.linkColor);
    this.email.style.setProperty("--c-page", look.background);
    const isRestyled = this.look.key !== this.lookKey;
    this.lookKey = this.look.key;
    this.#reconcile(this.list, this.store.document.blocks, isRestyled);
    const known = new Set([...walk(this.store.document)].map(({ block }) => block.id));
    for (const [id, view] of this.#views) {
      if (known.has(id)) continue;
      view.destroy();
      this.#views.delete(id);
    }
    this.#number();
    this.#showSelection();
  }

  /** Put the elements of `blocks` into a list. Elements that are already in place are not touched, to keep the focus. */
  #reconcile(list, blocks, isRestyled) {
    for (const [index, block] of blocks.entries()) {
      let view = this.#views.get(block.id);
      if (!view) this.#views.set(block.id, (view = new BlockView(this, block)));
      if (list.children[index] !== view.element) list.insertBefore(view.element, list.children[index] ?? null);
      view.update(block, isRestyled);
      for (const [slot, inner] of listsOf(block)) if (view.lists[slot]) this.#reconcile(view.lists[slot], inner, isRestyled);
    }
    while (list.children.length > blocks.length) list.lastElementChild.remove();
    list.classList.toggle("is-empty", blocks.length === 0);
  }

  #number() {
    for (const { block, index, list, parent } of walk(this.store.document)) {
      this.#views.get(block.id)?.element.classList.toggle("is-page", !parent && block.type === "footer" && list.slice(index).every((each) => each.type === "footer"));
      const place = [t("{block}, {index} of {count}", { block: labelOf(block), index: index + 1, count: list.length }), parent && t("inside {block}", { block: labelOf(parent) }), isLocked(this.store.document, block.id) && t("locked")];
      this.#views.get(block.id)?.element.setAttribute("aria-label", place.filter(Boolean).join(", "));
    }
  }

  #showSelection() {
    for (const [id, view] of this.#views) view.showSelected(id === this.store.selected);
  }

  view(id) {
    return this.#views.get(id);
  }

  focus(id) {
    const element = this.#views.get(id)?.element;
    element?.focus({ preventScroll: true });
    element?.scrollIntoView({ block: "nearest" });
  }

  /** Put the cursor into the first text of a block, or focus the block. */
  edit(id) {
    const editor = Object.values(this.#views.get(id)?.editors ?? {})[0];
    if (editor && !isLocked(this.store.document, id)) editor.focus();
    else this.focus(id);
  }

  addButton(parent, slot) {
    return h("button", { type: "button", class: "c-add-here", "aria-haspopup": "menu", onclick: (event) => this.context.actions.chooseAt(event.currentTarget, parent, slot) }, icon("plus"), t("Add block"));
  }

  setValues(id, values, merge) {
    this.store.change({ document: updateBlock(this.store.document, id, values) }, { merge });
  }
}

class BlockView {
  constructor(canvas, block) {
    this.canvas = canvas;
    this.id = block.id;
    this.editors = {};
    this.lists = {};
    this.content = h("div", { class: "c-content" });
    this.element = h("div", { class: "c-block", tabindex: "0", role: "group", "data-id": block.id, "data-type": block.type }, this.content);
    // For the mouse: the keyboard has "/", and the tools of the block.
    if (!canvas.store.document.mjml) this.element.append(h("button", { type: "button", class: "c-insert", tabindex: "-1", title: t("Add a block here"), "aria-hidden": "true", onclick: (event) => this.#insertBelow(event) }, icon("plus")));
    this.tools = null;
  }

  update(block, isRestyled) {
    if (block === this.block && !isRestyled) return;
    const { document } = this.canvas.store;
    const rich = Object.keys(definitionOf(block).rich ?? {});
    const shape = JSON.stringify([block, isLocked(document, block.id)], (key, value) => (rich.includes(key) || key === "blocks" || key === "otherwise" ? (Array.isArray(value) ? "list" : typeof value) : value)) + this.canvas.look.key;
    this.block = block;
    if (shape === this.shape) {
      for (const key of rich) this.editors[key]?.show(block[key] ?? "");
      return;
    }
    const focused = rich.find((key) => this.editors[key]?.view.hasFocus());
    this.shape = shape;
    this.#destroyEditors();
    this.#build(block);
    if (focused) this.editors[focused]?.focus();
  }

  #build(block) {
    const { look, context } = this.canvas;
    const definition = definitionOf(block);
    this.element.classList.toggle("is-locked", isLocked(this.canvas.store.document, block.id));
    this.element.classList.toggle("is-hidden-somewhere", Boolean(block.hideOn));
    const padding = look.paddingOf(block);
    this.content.removeAttribute("style");
    for (const [name, value] of Object.entries({ "padding-top": `${padding.top}px`, "padding-bottom": `${padding.bottom}px`, "background-color": look.colour(block.background) ?? "", "text-align": block.align ?? look.alignOf(block) })) this.content.style.setProperty(name, value);
    const render = definition.isUnknown ? unknown : RENDERERS[block.type];
    this.content.replaceChildren(...[render(block, this, look, context)].flat().filter(Boolean));
    if (this.element.classList.contains("is-locked") && !definition.isSlot) this.content.append(h("span", { class: "c-lock", title: t("Locked by a developer") }, icon("lock")));
    if (block.hideOn) this.content.append(h("span", { class: "c-note" }, icon(block.hideOn), block.hideOn === "phone" ? t("Not on phones") : t("Only on phones")));
  }

  /** A text of the block that is edited in place. */
  rich(key, properties = {}) {
    const { block, canvas } = this;
    const host = h("div", { class: "c-rich", "data-placeholder": PLACEHOLDERS[block.type] ?? "", ...properties });
    const isLine = definitionOf(block).rich[key] === "line";
    const isEditable = block.type === "slot" || !isLocked(canvas.store.document, block.id);
    this.editors[key] = new RichText(host, {
      html: block[key] ?? "",
      label: t("{block}: text", { block: labelOf(block) }),
      isLine,
      isLocked: !isEditable,
      onChange: (html) => canvas.setValues(this.id, { [key]: html }, `${this.id}.${key}`),
      onState: (editor) => canvas.context.toolbar.follow(editor),
      onPasteBlocks: (event) => canvas.context.actions.paste(event, { id: this.id, key }),
    });
    return host;
  }

  list(slot, properties = {}) {
    this.lists[slot] = h("div", { class: "c-list", "data-parent": this.id, "data-slot": slot });
    return h("div", { class: "c-cell", ...properties }, this.lists[slot], isLocked(this.canvas.store.document, this.id) ? null : this.canvas.addButton(this.id, slot));
  }

  #insertBelow(event) {
    event.stopPropagation();
    this.canvas.context.actions.chooseBelow(event.currentTarget, this.id);
  }

  showSelected(isSelected) {
    this.element.classList.toggle("is-selected", isSelected);
    if (!isSelected) {
      this.tools?.remove();
      this.tools = null;
    } else {
      this.tools ??= this.#makeTools();
      this.#placeTools();
    }
  }

  /** Put the tools beside the email, where they cover no text, and not below the screen. */
  #placeTools() {
    const { host, email } = this.canvas;
    const place = this.element.getBoundingClientRect();
    const lift = Math.max(0, place.top + this.tools.offsetHeight - host.getBoundingClientRect().bottom);
    this.tools.style.setProperty("--c-distance", `${email.getBoundingClientRect().right - place.right}px`);
    this.tools.style.setProperty("--c-lift", `${lift}px`);
  }

  #makeTools() {
    const { actions } = this.canvas.context;
    const isMovable = !isFixed(this.canvas.store.document, this.id);
    const buttons = isMovable
      ? [
          h("span", { class: "c-handle", title: t("Drag to move") }, icon("drag")),
          iconButton("up", t("Move up"), () => actions.move(this.id, -1)),
          iconButton("down", t("Move down"), () => actions.move(this.id, 1)),
          iconButton("plus", t("Insert below"), (event) => actions.chooseBelow(event.currentTarget, this.id)),
          iconButton("duplicate", t("Duplicate"), () => actions.duplicate(this.id)),
          iconButton("copy", t("Copy"), () => actions.copy(this.id)),
          iconButton("trash", t("Delete"), () => actions.remove(this.id)),
        ]
      : [lockNote(this.block.type === "slot" ? t("Only this field can be changed") : t("Locked"))];
    const tools = h("div", { class: "c-tools", role: "toolbar", "aria-label": t("{block} tools", { block: labelOf(this.block) }) }, h("span", { class: "c-tools-name" }, labelOf(this.block)), buttons);
    this.element.prepend(tools);
    return tools;
  }

  #destroyEditors() {
    for (const editor of Object.values(this.editors)) editor.destroy();
    this.editors = {};
    this.lists = {};
  }

  destroy() {
    this.#destroyEditors();
    this.element.remove();
  }
}

const RENDERERS = {
  heading: (block, view, look) => view.rich("html", { style: look.heading(block.level) }),
  text: (block, view) => view.rich("html"),
  image: (block, view, look, context) => picture(block, "src", view, context, block.width ? { width: `${block.width}px` } : {}),
  button: (block, view, look) => buttonLike(block, look),
  columns: (block, view) => h("div", { class: "c-columns" }, (block.columns ?? []).map((column, index) => view.list(String(index), { style: { flex: `${column.width ?? 100 / block.columns.length} 1 0` } }))),
  divider: (block, view, look) => h("div", { class: "c-line", style: { "border-top": `${block.thickness ?? 1}px solid ${look.colour(block.color) ?? "#e4e4e7"}` } }),
  spacer: (block) => h("div", { class: "c-spacer", style: { height: `${block.height ?? 24}px` } }),
  social: (block, view, look, context) => h("div", { class: "c-social" }, (block.links ?? []).map((link) => (context.hasIcons ? h("img", { src: `/assets/social/mailwright-social-${link.network}.png`, alt: NETWORKS[link.network] ?? link.network, width: "32", height: "32" }) : h("span", { style: { color: look.linkColor } }, NETWORKS[link.network] ?? link.network)))),
  video: (block, view, look, context) => [picture(block, "thumbnail", view, context), h("p", { class: "c-caption", style: { color: look.linkColor } }, `▶  ${block.alt || t("Watch the video")}`)],
  quote: (block, view, look) => h("blockquote", { class: "c-quote", style: { "border-inline-start-color": look.primary } }, view.rich("html"), block.cite && h("p", { class: "c-cite" }, block.cite)),
  html: (block) => h("div", { class: "c-html" }, h("span", { class: "c-frame-title" }, icon("html"), t("HTML, shown in the preview")), h("pre", {}, (block.html ?? "").slice(0, 400))),
  card: (block, view, look, context) => [
    picture(block, "image", view, context),
    h("p", { class: "c-card-title", style: { ...look.heading(3), margin: "12px 0 4px" } }, block.title || t("Title")),
    view.rich("html"),
    block.label && h("p", { class: "c-card-link", style: { color: look.linkColor } }, `${block.label} →`),
  ],
  header: (block, view, look, context) => {
    const logo = context.images.url(block.logo) || context.brand.logoUrl;
    const name = block.alt ?? context.brand.name;
    return logo
      ? h("img", { src: logo, alt: name, class: "c-logo", style: { width: `${context.brand.logoWidth}px` } })
      : h("span", { class: "c-logo-text", style: { ...look.heading(3), "font-size": "20px", ...(name ? {} : { opacity: "0.5" }) } }, name || t("No logo or name yet"));
  },
  footer: (block, view, look, context) => h("div", { class: "c-footer" }, view.rich("html"), !block.html && context.brand.footerHtml && plain(context.brand.footerHtml), h("p", {}, context.postalAddress || t("Your postal address")), !block.transactional && h("p", {}, h("u", {}, t("Unsubscribe", { context: "link" })), "  ·  ", h("u", {}, t("Preferences")))),
  condition: (block, view, look, context) => {
    const name = context.segments.find((each) => each.key === block.segment)?.name ?? block.segment;
    return h("div", { class: "c-frame is-condition" },
      h("p", { class: "c-frame-title" }, icon("condition"), name ? t("Only for segment {name}", { name }) : t("Choose a segment")),
      view.list("blocks"),
      block.otherwise && [h("p", { class: "c-frame-title" }, icon("condition"), t("For everyone else")), view.list("otherwise")]);
  },
  repeat: (block, view) => h("div", { class: "c-frame is-repeat" }, h("p", { class: "c-frame-title" }, icon("repeat"), block.limit ? t("For each {as} of {over}, at most {limit}", block) : t("For each {as} of {over}", block)), view.list("blocks")),
  slot: (block, view, look, context) => {
    const shown = { richText: () => view.rich("value"), image: () => picture(block, "value", view, context), link: () => h("span", { style: { color: look.linkColor } }, block.value || t("No link yet")), text: () => h("p", {}, block.value || t("No text yet")) };
    return h("div", { class: "c-frame is-slot" }, h("p", { class: "c-frame-title" }, icon("slot"), block.label || block.name), (shown[block.kind] ?? shown.text)());
  },
};

function lockNote(text) {
  return h("span", { class: "c-lock-note", role: "img", "aria-label": text, title: text }, icon("lock"), h("span", { class: "c-tools-name" }, text));
}

function unknown(block) {
  return h("div", { class: "c-frame is-unknown" }, h("p", { class: "c-frame-title" }, icon("unknown"), t("“{type}” is not known to this version. It is kept, and shows nothing in the email.", block)));
}

function buttonLike(block, look) {
  return h("span", { class: `c-button${block.fullWidth ? " is-full" : ""}`, style: { "background-color": look.colour(block.color) ?? look.primary, color: look.colour(block.textColor) ?? look.onPrimary(block.color) } }, block.label || t("Button"));
}

function picture(block, key, view, context, style = {}) {
  const address = context.images.url(block[key]);
  if (address) return h("img", { src: address, alt: block.alt ?? "", class: "c-picture", style });
  if (block[key]) return h("p", { class: "c-frame-title" }, icon("image"), t("Image from {source}", { source: block[key] }));
  const isLockedNow = view.block.type !== "slot" && isLocked(view.canvas.store.document, view.id);
  return h("div", { class: "c-drop", "data-drop": key },
    icon("image"), h("span", {}, t("Drop or paste an image")),
    h("button", { type: "button", class: "button is-small", disabled: isLockedNow, onclick: () => context.actions.chooseImage(view.id, key) }, t("Choose image")));
}

function isRightToLeft(locale) {
  const { script } = new Intl.Locale(locale || "en").maximize();
  return ["Arab", "Hebr", "Syrc", "Thaa", "Nkoo", "Adlm"].includes(script);
}

function plain(html) {
  return h("p", {}, new DOMParser().parseFromString(html, "text/html").body.textContent);
}
