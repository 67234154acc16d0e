// Bring what already exists into the email as blocks: HTML, Markdown, the items of a feed, a page of Notion.

import { ask, h, toast } from "./dom.js";

const SOURCES = { html: "HTML", markdown: "Markdown", feed: t("RSS or Atom feed"), notion: t("Notion page") };

/** Ask for the source and insert its blocks. A refusal is shown beside what was entered, which stays. */
export async function insertFrom(context, kind = "html") {
  const source = h("select", { id: "c-insert-source" }, Object.entries(SOURCES).map(([value, label]) => h("option", { value, selected: value === kind }, label)));
  const text = h("textarea", { id: "c-insert-text", rows: "10", class: "c-code", spellcheck: "false" });
  const file = h("input", { id: "c-insert-file", type: "file", accept: ".html,.htm,.md,.markdown,text/html,text/markdown,text/plain" });
  const url = h("input", { id: "c-insert-url", inputmode: "url", placeholder: "https://example.com/feed.xml", autocomplete: "off" });
  const limit = h("input", { id: "c-insert-limit", type: "number", min: "1", max: "50", value: "5" });
  const page = h("input", { id: "c-insert-page", placeholder: "https://www.notion.so/…", autocomplete: "off" });
  const problem = h("p", { class: "error", role: "alert", hidden: true });
  const field = (label, control, hint) => h("div", { class: "field" }, h("label", { for: control.id }, label), control, hint && h("p", { class: "hint" }, hint));
  const parts = {
    html: [field(t("Text"), text, t("Scripts, forms and other elements that emails cannot contain are removed.")), field(t("Or a file"), file)],
    feed: [field(t("Address of the feed"), url), field(t("Number of items"), limit)],
    notion: [field(t("Address or id of the page"), page, t("Mailwright needs access to the page: see Mailouts in the manual."))],
  };
  const fields = h("div", { class: "stack" });
  const show = () => fields.replaceChildren(...(parts[source.value] ?? parts.html));
  source.addEventListener("change", show);
  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    if (!chosen) return;
    text.value = await chosen.text();
    source.value = /\.(md|markdown)$/i.test(chosen.name) ? "markdown" : "html";
  });
  show();
  const body = h("div", { class: "stack" }, field(t("From", { context: "source" }), source), fields, problem);
  const answered = ask({ title: t("Insert content"), body, buttons: [["insert", t("Insert"), "primary"], ["", t("Cancel")]] });
  const dialog = body.closest("dialog");
  dialog.querySelector("form").addEventListener("submit", async (event) => {
    if (event.submitter?.value !== "insert") return;
    event.preventDefault();
    try {
      const { blocks, warnings } = await context.api.post("/composer/convert", requestOf(source.value, { text, url, limit, page }));
      if (!blocks.length) throw new Error(t("There is nothing in it that an email can show."));
      dialog.close("inserted");
      context.actions.insert(blocks, { verb: "inserted" });
      toast([blocks.length === 1 ? t("One block inserted.") : t("{count} blocks inserted.", { count: blocks.length }), ...warnings].join(" "));
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
  });
  await answered;
}

function requestOf(kind, { text, url, limit, page }) {
  if (kind === "feed") return { from: kind, url: url.value.trim(), limit: Number(limit.value) || 5 };
  if (kind === "notion") return { from: kind, page: page.value.trim() };
  return { from: kind, text: text.value };
}
