// The kinds of blocks: their names, first content and settings. The server's models decide what a document may contain.

export const SAMPLE_HREF = "https://";
const COLOUR = { kind: "colour" };
const HREF = { kind: "href", label: t("Link"), placeholder: SAMPLE_HREF };

export const NETWORKS = {
  facebook: "Facebook", instagram: "Instagram", x: "X", linkedin: "LinkedIn", youtube: "YouTube", tiktok: "TikTok",
  telegram: "Telegram", whatsapp: "WhatsApp", github: "GitHub", mastodon: "Mastodon", bluesky: "Bluesky", web: t("Website"),
};

export const FONTS = {
  system: t("System", { context: "font" }), arial: "Arial", helvetica: "Helvetica", verdana: "Verdana", tahoma: "Tahoma", trebuchet: "Trebuchet",
  georgia: "Georgia", times: "Times", palatino: "Palatino", courier: "Courier",
};

/** `rich` names the fields edited in place. `fields` are shown in the settings. */
export const BLOCKS = {
  heading: {
    label: t("Heading"), group: t("Content"), rich: { html: "line" },
    make: () => ({ level: 2, html: "" }),
    fields: [{ key: "level", label: t("Size"), kind: "choice", options: [[1, t("Large")], [2, t("Medium")], [3, t("Small")]], isNumber: true }],
  },
  text: { label: t("Text"), group: t("Content"), rich: { html: "text" }, make: () => ({ html: "" }), fields: [] },
  image: {
    label: t("Image"), group: t("Content"), make: () => ({ src: "", alt: "" }),
    fields: [{ key: "src", kind: "image", label: t("Image") }, { key: "alt", kind: "alt", label: t("Alternative text") }, { key: "href", ...HREF, optional: true },
      { key: "width", kind: "number", label: t("Width in pixels"), min: 16, max: 1200, optional: true }],
  },
  button: {
    label: t("Button"), group: t("Content"), make: () => ({ label: t("Read more"), href: SAMPLE_HREF, align: "center" }),
    fields: [{ key: "label", kind: "text", label: t("Label") }, { key: "href", ...HREF }, { key: "color", label: t("Button colour"), ...COLOUR },
      { key: "textColor", label: t("Label colour"), ...COLOUR }, { key: "fullWidth", kind: "checkbox", label: t("Full width") }],
  },
  card: {
    label: t("Card"), group: t("Content"), hint: t("Product or article"), rich: { html: "text" },
    make: () => ({ image: "", alt: "", title: t("Title"), html: "", href: SAMPLE_HREF, label: t("Read more") }),
    fields: [{ key: "image", kind: "image", label: t("Image") }, { key: "alt", kind: "alt", label: t("Alternative text"), of: "image" }, { key: "title", kind: "text", label: t("Title") },
      { key: "href", ...HREF, optional: true }, { key: "label", kind: "text", label: t("Button label"), optional: true }],
  },
  quote: { label: t("Quote"), group: t("Content"), rich: { html: "text" }, make: () => ({ html: "" }), fields: [{ key: "cite", kind: "text", label: t("Who said it"), optional: true }] },
  video: {
    label: t("Video"), group: t("Content"), make: () => ({ href: SAMPLE_HREF, thumbnail: "", alt: "" }),
    fields: [{ key: "thumbnail", kind: "image", label: t("Picture") }, { key: "alt", kind: "alt", label: t("Alternative text"), of: "thumbnail" }, { key: "href", ...HREF, label: t("Address of the video") }],
  },
  social: { label: t("Social links", { context: "block" }), group: t("Content"), make: (brand) => ({ links: brand.social?.length ? brand.social : [{ network: "web", href: SAMPLE_HREF }], align: "center" }), fields: [{ key: "links", kind: "links", label: t("Links") }] },
  columns: {
    label: t("Columns", { context: "layout" }), group: t("Layout"), make: () => ({ columns: [{ blocks: [] }, { blocks: [] }] }),
    fields: [{ key: "columns", kind: "columns", label: t("Columns", { context: "layout" }) }, { key: "stackOnPhone", kind: "checkbox", label: t("One below the other on phones"), isOnByDefault: true }],
  },
  divider: { label: t("Divider"), group: t("Layout"), make: () => ({}), fields: [{ key: "color", label: t("Colour"), ...COLOUR }, { key: "thickness", kind: "number", label: t("Thickness in pixels"), min: 1, max: 20, optional: true }] },
  spacer: { label: t("Spacer"), group: t("Layout"), make: () => ({ height: 24 }), fields: [{ key: "height", kind: "number", label: t("Height in pixels"), min: 1, max: 400 }] },
  header: { label: t("Header"), group: t("Layout"), hint: t("Logo"), make: () => ({}), fields: [{ key: "logo", kind: "image", label: t("Logo"), hint: t("Leave empty for the logo of the brand."), optional: true }, { key: "alt", kind: "text", label: t("Alternative text"), optional: true }, { key: "href", ...HREF, optional: true }] },
  footer: { label: t("Footer"), group: t("Layout"), hint: t("Address and unsubscribe link"), rich: { html: "text" }, make: () => ({}), fields: [{ key: "transactional", kind: "checkbox", label: t("Without unsubscribe link"), hint: t("Only for transactional email, such as a receipt.") }] },
  condition: {
    label: t("Condition"), group: t("Advanced"), hint: t("Only for a segment"), make: () => ({ segment: "", blocks: [] }),
    fields: [{ key: "segment", kind: "segment", label: t("Segment") }, { key: "otherwise", kind: "otherwise", label: t("Show other blocks to everyone else") }],
  },
  repeat: {
    label: t("Repeat"), group: t("Advanced"), hint: t("For each item of a list"), make: () => ({ over: "items", as: "item", blocks: [] }),
    fields: [{ key: "over", kind: "name", label: t("List variable") }, { key: "as", kind: "name", label: t("Name of one item"), hint: t("Use {example} in the blocks inside.", { example: "{{ item.title }}" }) }, { key: "limit", kind: "number", label: t("At most"), min: 1, max: 100, optional: true }],
  },
  html: { label: "HTML", group: t("Advanced"), make: () => ({ html: "<p>HTML</p>" }), fields: [{ key: "html", kind: "code", label: "HTML" }] },
};

const SLOT = {
  text: { kind: "text" }, richText: { kind: "hint", hint: t("Edit the text in the email.") }, image: { kind: "image" }, link: { kind: "href" },
};

/** The definition of a block. A slot has only the field that its developer opened. */
export function definitionOf(block) {
  if (block.type === "slot") {
    const field = { key: "value", label: block.label || block.name, ...(SLOT[block.kind] ?? SLOT.text) };
    return { label: block.label || t("Field"), rich: block.kind === "richText" ? { value: "text" } : {}, fields: [field], isSlot: true };
  }
  return BLOCKS[block.type] ?? { label: t("Unknown block"), fields: [], isUnknown: true };
}

export function labelOf(block) {
  const { label, isUnknown } = definitionOf(block);
  return isUnknown ? `${label} “${block.type}”` : label;
}
