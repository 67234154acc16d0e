// The settings of the selected block, or of the whole email.

import { definitionOf, FONTS, labelOf, NETWORKS, SAMPLE_HREF } from "./blocks.js";
import { find, isLocked, updateBlock } from "./document.js";
import { h, icon, iconButton } from "./dom.js";
import { completed, hrefProblem } from "./links.js";

const BRAND_COLOURS = { primary: t("Primary colour of the brand"), accent: t("Accent colour of the brand"), text: t("Text colour of the brand"), background: t("Background colour of the brand") };
const ALIGNMENTS = [["", t("Automatic")], ["left", t("Left")], ["center", t("Centre")], ["right", t("Right")]];
const HIDDEN = [["", t("Everywhere")], ["phone", t("Not on phones")], ["desktop", t("Only on phones")]];

let lastId = 0;

/** A labelled control. `build` gets the id for its control. */
function field(label, build, { hint, isOptional } = {}) {
  const id = `c-field-${++lastId}`;
  const about = hint ? h("p", { class: "hint", id: `${id}-hint` }, hint) : null;
  return h("div", { class: "field" }, h("label", { for: id }, label, isOptional && h("span", { class: "muted" }, ` ${t("optional")}`)), build(id, about ? `${id}-hint` : null), about);
}

const CONTROLS = "input, textarea, select, button, summary";

export class Settings {
  constructor(host, store, context) {
    Object.assign(this, { host, store, context });
    store.addEventListener("select", () => this.render());
    store.addEventListener("change", () => this.refresh());
    this.render();
  }

  /** Show the values again, but do not replace the field in which the user types. */
  refresh() {
    if (this.isCompleting || this.host.contains(document.activeElement) && document.activeElement.matches("input, textarea, select") && this.shownId === this.store.selected) return;
    this.render();
  }

  render() {
    const place = this.store.selected && find(this.store.document, this.store.selected);
    const id = place ? this.store.selected : null;
    const focused = id === this.shownId ? [...this.host.querySelectorAll(CONTROLS)].indexOf(document.activeElement) : -1;
    this.shownId = id;
    this.host.replaceChildren(...(place ? this.#block(place.block) : this.#email()));
    if (focused >= 0) this.host.querySelectorAll(CONTROLS)[focused]?.focus();
  }

  /** Add the scheme that people leave out, and store the address. The field that they go to next stays. */
  #complete(input, store) {
    const href = completed(input.value);
    if (href === input.value) return;
    input.value = href;
    this.isCompleting = true;
    store(href);
    this.isCompleting = false;
  }

  #set(values, merge) {
    this.store.change({ document: updateBlock(this.store.document, this.shownId, values) }, { merge: merge && `${this.shownId}.${merge}` });
  }

  #block(block) {
    const definition = definitionOf(block);
    const title = h("h2", {}, icon(block.type), labelOf(block));
    if (definition.isUnknown) return [title, h("p", { class: "muted" }, t("This version does not know this kind of block. It is kept as it is, and shows nothing in the email."))];
    if (isLocked(this.store.document, block.id) && !definition.isSlot) return [title, h("p", { class: "c-lock-note" }, icon("lock"), t("A developer locked this block. It cannot be changed here."))];
    const fields = definition.fields.filter(({ key, of }) => !of || block[of]).map((each) => this.#field(block, each));
    if (definition.isSlot) return [title, h("p", { class: "muted" }, t("A developer designed this email. You fill in this field.")), ...fields];
    const hasText = definition.rich && fields.length === 0;
    return [title, hasText ? h("p", { class: "muted" }, t("Click into the text to edit it.")) : null, ...fields, this.#box(block)].filter(Boolean);
  }

  /** What every block has: alignment, spacing, background and visibility. */
  #box(block) {
    const padding = this.context.look().paddingOf(block);
    return h("details", { class: "c-more", open: this.isMoreOpen, ontoggle: (event) => (this.isMoreOpen = event.target.open) },
      h("summary", {}, t("Spacing, background and visibility")),
      this.#select(t("Alignment"), ALIGNMENTS, block.align ?? "", (value) => this.#set({ align: value || undefined })),
      h("div", { class: "row" }, ["top", "bottom"].map((side) =>
        this.#number(side === "top" ? t("Space above") : t("Space below"), padding[side], { min: 0, max: 200 }, (value) => this.#set({ padding: { ...block.padding, [side]: value ?? undefined } }, `padding.${side}`)))),
      this.#colour(t("Background"), block.background, (value) => this.#set({ background: value })),
      this.#select(t("Visible"), HIDDEN, block.hideOn ?? "", (value) => this.#set({ hideOn: value || undefined })));
  }

  #email() {
    const { settings = {}, mjml } = this.store.document;
    const title = h("h2", {}, icon("settings"), t("Email"));
    if (mjml) return [title, h("p", { class: "muted" }, t("A developer designed this email. Select a field to fill it in."))];
    const set = (values, merge) => {
      const next = { ...this.store.document.settings, ...values };
      for (const key of Object.keys(next)) if (next[key] === undefined) delete next[key];
      this.store.change({ document: { ...this.store.document, settings: next } }, { merge: merge && `settings.${merge}` });
    };
    return [
      title,
      h("p", { class: "muted" }, t("Select a block to change it. These settings apply to the whole email; what you leave empty comes from your brand.")),
      this.#select(t("Font"), [["", t("From the brand")], ...Object.entries(FONTS)], settings?.font ?? "", (value) => set({ font: value || undefined })),
      this.#number(t("Width in pixels"), settings?.width ?? 600, { min: 320, max: 900 }, (value) => set({ width: value ?? undefined }, "width")),
      ...[[t("Background"), "background"], [t("Content background"), "contentBackground"], [t("Text colour"), "textColor"], [t("Link colour"), "linkColor"]].map(([label, key]) =>
        this.#colour(label, settings?.[key], (value) => set({ [key]: value }, key), this.context.look()[key])),
    ];
  }

  #field(block, each) {
    const { key, label, kind, hint } = each;
    const value = block[key];
    const set = (next) => this.#set({ [key]: next }, key);
    const about = { hint, isOptional: each.optional };
    switch (kind) {
      case "text":
      case "name":
        return field(label, (id, described) => h("input", { id, value: value ?? "", "aria-describedby": described, oninput: ({ target }) => set(target.value || (each.optional ? undefined : "")) }), about);
      case "href":
        return this.#href(label, value, set, about);
      case "number":
        return this.#number(label, value ?? "", each, (next) => set(next ?? undefined), about);
      case "choice":
        return this.#select(label, each.options, value, (next) => set(each.isNumber ? Number(next) : next));
      case "checkbox":
        return this.#checkbox(label, value ?? Boolean(each.isOnByDefault), set, hint);
      case "colour":
        return this.#colour(label, value, set, key === "color" && block.type === "button" ? this.context.brand.primary : undefined);
      case "image":
        return this.#image(block, each);
      case "alt":
        return this.#alt(block, each);
      case "code":
        return field(label, (id) => h("textarea", { id, rows: 12, class: "c-code", spellcheck: "false", value: value ?? "", oninput: ({ target }) => set(target.value) }), about);
      case "segment":
        return this.#select(label, [["", t("Choose a segment")], ...this.context.segments.map((segment) => [segment.key, segment.name])], value ?? "", set, this.context.segments.length ? undefined : t("There are no segments yet. Create one under Segments."));
      case "otherwise":
        return this.#checkbox(label, Boolean(value), (isOn) => this.#set({ otherwise: isOn ? [] : undefined }));
      case "columns":
        return this.#columns(block);
      case "links":
        return this.#links(block);
      default:
        return h("p", { class: "muted" }, hint ?? "");
    }
  }

  #select(label, options, value, set, hint) {
    return field(label, (id, described) => h("select", { id, "aria-describedby": described, onchange: ({ target }) => set(target.value) }, options.map(([key, text]) => h("option", { value: String(key), selected: String(key) === String(value ?? "") }, text))), { hint });
  }

  #number(label, value, { min, max }, set, about) {
    return field(label, (id) => h("input", {
      id, type: "number", inputmode: "numeric", min, max, value: String(value ?? ""),
      oninput: ({ target }) => {
        if (target.value === "") set(null);
        else if (target.validity.valid) set(Number(target.value));
      },
    }), about);
  }

  #checkbox(label, isOn, set, hint) {
    const id = `c-field-${++lastId}`;
    return h("div", { class: "checkbox" }, h("input", { id, type: "checkbox", checked: isOn, onchange: ({ target }) => set(target.checked) }), h("label", { for: id }, label, hint && h("span", { class: "hint" }, hint)));
  }

  #href(label, value, set, about = {}) {
    return field(label, (id) => {
      const problem = h("p", { class: "error", id: `${id}-error`, hidden: true });
      const store = (text) => set(text || (about.isOptional ? undefined : ""));
      const check = (input) => {
        const text = input.value && hrefProblem(input.value);
        problem.textContent = text || "";
        problem.hidden = !text;
        text ? input.setAttribute("aria-invalid", "true") : input.removeAttribute("aria-invalid");
      };
      const input = h("input", { id, inputmode: "url", value: value ?? "", placeholder: "https://", "aria-describedby": `${id}-error`, oninput: ({ target }) => store(target.value), onchange: ({ target }) => { this.#complete(target, store); check(target); } });
      if (value !== SAMPLE_HREF) check(input);
      return h("div", {}, input, problem);
    }, about);
  }

  /** A colour of the brand by its name, so that it follows the brand, or any other colour. */
  #colour(label, value, set, shown = "#ffffff") {
    const look = this.context.look();
    const swatches = Object.entries(BRAND_COLOURS).map(([name, text]) =>
      h("button", { type: "button", class: "c-swatch", "aria-label": text, title: text, "aria-pressed": String(value === `brand:${name}`), style: { "background-color": look.colour(`brand:${name}`) ?? "transparent" }, onclick: () => (set(`brand:${name}`), this.render()) }));
    return field(label, (id) => h("div", { class: "c-colours" }, h("input", { id, type: "color", value: look.colour(value) ?? shown, class: value ? "" : "is-unset", oninput: ({ target }) => set(target.value) }), swatches,
      value && h("button", { type: "button", class: "button is-small is-link", onclick: () => (set(undefined), this.render()) }, t("Reset"))));
  }

  #image(block, { key, label, hint }) {
    const address = this.context.images.url(block[key]);
    return h("fieldset", { class: "c-image-field" }, h("legend", {}, label),
      address && h("img", { src: address, alt: "" }),
      h("div", { class: "actions" },
        h("button", { type: "button", class: "button is-small", onclick: () => this.context.actions.chooseImage(block.id, key) }, block[key] ? t("Replace image") : t("Choose image")),
        block[key] && h("button", { type: "button", class: "button is-small is-link", onclick: () => (this.#set({ [key]: "" }), this.render()) }, t("Remove"))),
      hint && h("p", { class: "hint" }, hint));
  }

  /** Alternative text is asked for. An image that carries no information is marked as decorative instead. */
  #alt(block, { key, label }) {
    const isMissing = !block[key] && !block.decorative;
    return h("div", { class: "c-alt" },
      field(label, (id) => h("input", { id, value: block[key] ?? "", disabled: Boolean(block.decorative), "aria-describedby": `${id}-why`, oninput: ({ target }) => this.#set({ [key]: target.value }, key) }), { hint: t("What the image says, for people who do not see it.") }),
      this.#checkbox(t("Decoration only: needs no description"), Boolean(block.decorative), (isOn) => { this.#set(isOn ? { decorative: true, [key]: "" } : { decorative: undefined }); this.render(); }),
      isMissing && h("p", { class: "c-warning" }, icon("attention"), t("Describe the image, or mark it as decoration.")));
  }

  #columns(block) {
    const widths = block.columns.map((column) => column.width ?? Math.round(100 / block.columns.length));
    const set = (columns) => { this.#set({ columns }); this.render(); };
    const count = (number) => {
      const kept = block.columns.slice(0, number).map(({ width, ...column }) => column);
      const lost = block.columns.slice(number).flatMap((column) => column.blocks ?? []);
      if (lost.length) kept[number - 1] = { ...kept[number - 1], blocks: [...(kept[number - 1].blocks ?? []), ...lost] };
      while (kept.length < number) kept.push({ blocks: [] });
      set(kept);
    };
    return h("div", {},
      this.#select(t("Number of columns"), [[2, "2"], [3, "3"]], block.columns.length, (value) => count(Number(value))),
      block.columns.length === 2 && this.#select(t("Widths"), [["50", t("Half and half")], ["33", t("One third and two thirds")], ["67", t("Two thirds and one third")]], String(widths[0]), (value) => set(block.columns.map((column, index) => ({ ...column, width: index === 0 ? Number(value) : 100 - Number(value) })))));
  }

  #links(block) {
    const set = (links, isRebuilt) => { this.#set({ links }, "links"); if (isRebuilt) this.render(); };
    const store = (index) => (href) => set(find(this.store.document, block.id).block.links.map((each, at) => (at === index ? { ...each, href } : each)));
    const change = (index, values) => block.links.map((link, at) => (at === index ? { ...link, ...values } : link));
    return h("fieldset", { class: "c-links" }, h("legend", {}, t("Links")),
      block.links.map((link, index) => h("div", { class: "c-link-row" },
        h("select", { "aria-label": t("Network {number}", { number: index + 1 }), onchange: ({ target }) => set(change(index, { network: target.value }), true) }, Object.entries(NETWORKS).map(([key, text]) => h("option", { value: key, selected: key === link.network }, text))),
        h("input", { "aria-label": t("Address {number}", { number: index + 1 }), inputmode: "url", value: link.href, oninput: ({ target }) => store(index)(target.value), onchange: ({ target }) => this.#complete(target, store(index)) }),
        iconButton("trash", t("Remove link {number}", { number: index + 1 }), () => set(find(this.store.document, block.id).block.links.filter((_, at) => at !== index), true)))),
      h("button", { type: "button", class: "button is-small", onclick: () => set([...find(this.store.document, block.id).block.links, { network: "web", href: "https://" }], true) }, icon("plus"), t("Add link")));
  }
}
