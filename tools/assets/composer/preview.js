// What the server makes of the document: warnings while editing, and the email as a contact would get it.

import { find } from "./document.js";
import { ask, h, icon } from "./dom.js";
import { labelOf } from "./blocks.js";

const PAUSE_MS = 600;
// Gmail clips larger emails.
const GMAIL_BYTES = 102 * 1024;

/** Check the document after every change and list what to improve. */
export class Checks {
  constructor(host, store, context) {
    Object.assign(this, { host, store, context, warnings: [] });
    store.addEventListener("change", () => this.schedule());
    this.check();
  }

  schedule() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(), PAUSE_MS);
  }

  async check() {
    const asked = this.store.state;
    try {
      const { warnings, sizeBytes } = await this.context.api.post("/composer/preview", { ...asked, templateId: this.context.templateId, locale: this.context.locale });
      if (asked === this.store.state) this.#show(warnings, sizeBytes);
    } catch (error) {
      if (error.kind === "refused" && asked === this.store.state) this.#show([{ blockIds: error.body.blockId ? [error.body.blockId] : [], message: error.message, isError: true }], null);
    }
  }

  #show(warnings, sizeBytes) {
    this.warnings = warnings;
    const items = warnings.map((each) => this.#item(each));
    this.host.replaceChildren(
      warnings.length ? h("ul", { class: "c-warnings" }, items) : h("p", { class: "c-fine" }, icon("check"), t("Nothing to improve.")),
      sizeBytes == null ? "" : this.#size(sizeBytes));
    this.context.showWarnings(warnings.length);
  }

  /** An issue of one block is a button that leads to it; one of several blocks has a button for each. */
  #item({ message, advice, isError, blockIds, path, label }) {
    const places = blockIds.map((id) => find(this.store.document, id)).filter(Boolean);
    const [place] = places;
    const go = (id) => () => {
      this.store.select(id);
      this.context.closeSheets();
      this.context.canvas.focus(id);
    };
    const fix = path && [" ", h("a", { href: path, target: "_blank" }, label)];
    const isOne = places.length === 1 && !fix;
    const jumps = !isOne && places.map(({ block }, index) => [" ", h("button", { type: "button", class: "button is-small", onclick: go(block.id) }, places.length > 1 ? `${labelOf(block)} ${index + 1}` : t("Show the {block}", { block: labelOf(block).toLowerCase() }))]);
    const text = [icon(isError ? "cross" : "attention"), h("span", {}, isOne && h("b", {}, `${labelOf(place.block)}: `), message, advice && !path && ` ${advice}`, fix, jumps)];
    return h("li", { class: isError ? "is-bad" : "is-warning" }, isOne ? h("button", { type: "button", class: "c-jump", onclick: go(place.block.id) }, text) : h("div", { class: "c-jump" }, text));
  }

  #size(bytes) {
    const share = Math.min(bytes / GMAIL_BYTES, 1);
    const text = t("Size: {size} KB of 102 KB", { size: Math.ceil(bytes / 1024) });
    return h("div", { class: "c-size" }, h("p", {}, text), h("div", { class: `c-meter${share >= 1 ? " is-bad" : ""}`, role: "img", "aria-label": text }, h("span", { style: { width: `${share * 100}%` } })), h("p", { class: "hint" }, t("Gmail cuts off what exceeds 102 KB.")));
  }
}

/** Post the document into a frame, because the policy of this page forbids the styles of an email. */
export function showInFrame(frame, { state, api, contact = "", scheme = "light", templateId = "", locale = "" }) {
  const fields = { document: JSON.stringify(state.document), subject: state.subject, contact, scheme, templateId, locale, form_token: api.formToken };
  const form = h("form", { method: "post", action: "/composer/frame", target: frame.name, hidden: true }, Object.entries(fields).map(([name, value]) => h("input", { type: "hidden", name, value })));
  document.body.append(form);
  form.submit();
  form.remove();
}

/** The preview dialog: desktop or phone, light or dark, as a real contact, HTML or plain text. */
export async function preview(store, context) {
  const view = { screen: "desktop", scheme: "light", contact: context.contacts[0]?.email ?? "", kind: "html" };
  const frame = h("iframe", { name: "composer-preview", title: t("Preview of the email"), sandbox: "allow-popups allow-popups-to-escape-sandbox", class: "c-preview-frame" });
  const text = h("pre", { class: "c-preview-text", tabindex: "0", hidden: true });
  const subject = h("p", { class: "c-preview-subject" });
  const stage = h("div", { class: "c-stage" }, frame, text);
  const show = async () => {
    stage.dataset.screen = view.screen;
    stage.dataset.scheme = view.scheme;
    frame.hidden = view.kind !== "html";
    text.hidden = view.kind === "html";
    const { state } = store;
    showInFrame(frame, { state, api: context.api, contact: view.contact, scheme: view.scheme, templateId: context.templateId, locale: context.locale });
    const made = await context.api.post("/composer/preview", { ...state, contact: view.contact, templateId: context.templateId, locale: context.locale }).catch((error) => ({ subject: "", text: error.message }));
    subject.textContent = made.subject || t("No subject");
    text.textContent = made.text ?? "";
  };
  const choose = (name, options) => h("div", { class: "c-segmented", role: "group", "aria-label": name }, options.map(([key, value, label, drawing]) => {
    const button = h("button", { type: "button", "aria-pressed": String(view[key] === value), onclick: () => {
      view[key] = value;
      for (const each of button.parentElement.children) each.setAttribute("aria-pressed", String(each === button));
      show();
    } }, drawing && icon(drawing), label);
    return button;
  }));
  const contact = h("input", { id: "c-preview-contact", list: "c-preview-contacts", value: view.contact, placeholder: t("sample values"), autocomplete: "off", onchange: ({ target }) => ((view.contact = target.value.trim()), show()) });
  const body = h("div", { class: "c-preview" },
    h("div", { class: "c-preview-bar" },
      choose(t("Screen"), [["screen", "desktop", t("Desktop"), "desktop"], ["screen", "phone", t("Phone"), "phone"]]),
      choose(t("Colour scheme"), [["scheme", "light", t("Light")], ["scheme", "dark", t("Dark")]]),
      choose(t("Format"), [["kind", "html", "HTML"], ["kind", "text", t("Plain text")]]),
      h("div", { class: "c-preview-as" }, h("label", { for: "c-preview-contact" }, t("As contact")), contact, h("datalist", { id: "c-preview-contacts" }, context.contacts.map((each) => h("option", { value: each.email }, each.name))))),
    subject, stage);
  const closed = ask({ title: t("Preview"), body, wide: true, buttons: [["", t("Close")]] });
  show();
  await closed;
}
