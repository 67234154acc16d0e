// Two versions of one email beside each other, with a list of what differs.

import { labelOf } from "./blocks.js";
import { listsOf, walk } from "./document.js";
import { ask, h } from "./dom.js";
import { showInFrame } from "./preview.js";

const MAX_TEXT = 160;

/** Show two versions. `names` are the headings of their sides. */
export async function compare(context, mine, theirs, names) {
  const found = differences(mine, theirs);
  const side = (title, name) => h("section", {}, h("h3", {}, title), h("iframe", { name, title, sandbox: "", class: "c-preview-frame" }));
  const rows = found.map(({ what, mine: own, theirs: other }) => h("tr", {}, h("th", { scope: "row" }, what), h("td", { class: own ? "is-new" : "" }, own || "–"), h("td", { class: other ? "is-old" : "" }, other || "–")));
  const list = found.length
    ? h("div", { class: "c-differences", tabindex: "0", role: "region", "aria-label": t("Differences") }, h("table", {}, h("thead", {}, h("tr", {}, [t("Differences"), ...names].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows)))
    : h("p", { class: "muted" }, t("Both versions are the same."));
  const body = h("div", { class: "stack" }, list, h("div", { class: "c-compare" }, side(names[0], "composer-mine"), side(names[1], "composer-theirs")));
  const closed = ask({ title: t("Compare"), body, wide: true, buttons: [["", t("Back")]] });
  for (const [state, name] of [[mine, "composer-mine"], [theirs, "composer-theirs"]]) showInFrame(body.querySelector(`[name=${name}]`), { state, api: context.api, templateId: context.templateId, locale: context.locale });
  await closed;
}

/** What differs, as `{ what, mine, theirs }` with short texts: the lines above the email, then the blocks in order. */
export function differences(mine, theirs) {
  const lines = [[t("Subject"), mine.subject, theirs.subject], [t("Preview text"), mine.document.preheader ?? "", theirs.document.preheader ?? ""]];
  const found = lines.filter(([, own, other]) => own !== other).map(([what, own, other]) => ({ what, mine: own, theirs: other }));
  if (JSON.stringify(mine.document.settings ?? {}) !== JSON.stringify(theirs.document.settings ?? {})) found.push({ what: t("Design of the email"), mine: t("Changed"), theirs: t("Changed") });
  const [own, other] = [placesOf(mine.document), placesOf(theirs.document)];
  for (const [id, place] of own) {
    const twin = other.get(id);
    if (!twin) found.push({ what: t("{block}, only in one version", { block: labelOf(place.block) }), mine: textOf(place.block), theirs: "" });
    else if (ownFields(place.block) !== ownFields(twin.block)) found.push({ what: labelOf(place.block), ...texts(place.block, twin.block) });
    else if (place.parent !== twin.parent || isMoved(id, own, other)) found.push({ what: t("{block}, at another place", { block: labelOf(place.block) }), mine: textOf(place.block), theirs: textOf(twin.block) });
  }
  for (const [id, { block }] of other) if (!own.has(id)) found.push({ what: t("{block}, only in one version", { block: labelOf(block) }), mine: "", theirs: textOf(block) });
  return found;
}

function placesOf(document) {
  return new Map([...walk(document)].map(({ block, parent, slot, list }) => [block.id, { block, parent: `${parent?.id ?? ""} ${slot}`, list }]));
}

/** Whether the next common block of the same list is another one. */
function isMoved(id, own, other) {
  const next = ({ list }, known) => list.slice(list.findIndex((block) => block.id === id) + 1).find((block) => known.has(block.id))?.id;
  return next(own.get(id), other) !== next(other.get(id), own);
}

/** The fields of a block without the blocks inside it, which are compared themselves. */
function ownFields(block) {
  const inner = new Set(listsOf(block).map(([slot]) => slot));
  const fields = Object.entries(block).map(([key, value]) => (key === "columns" ? [key, value.map(({ width }) => width ?? null)] : [key, inner.has(key) ? null : value]));
  return JSON.stringify(fields.sort(([first], [second]) => (first < second ? -1 : 1)));
}

/** The texts of two blocks, or a remark if only their settings differ. */
function texts(own, other) {
  const [mine, theirs] = [textOf(own), textOf(other)];
  return mine === theirs ? { mine: t("{text} (other settings)", { text: mine }), theirs: t("{text} (other settings)", { text: theirs }) } : { mine, theirs };
}

function textOf(block) {
  const html = block.html ?? block.value ?? "";
  const page = new DOMParser().parseFromString(html.replace(/<\/(p|li)>/g, "$& "), "text/html");
  for (const chip of page.querySelectorAll("[data-variable]")) chip.textContent = `{${chip.dataset.variable}}`;
  const text = [block.title, page.body.textContent, block.label, block.alt, block.src ?? block.image ?? block.thumbnail, block.href].filter(Boolean).join(" · ").replace(/\s+/g, " ").trim();
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT - 1)}…` : text || labelOf(block);
}
