// The kinds of blocks: their names, first content and settings. The server's models decide what a document may contain.

export const SAMPLE_HREF = "https://";
const COLOUR = { kind: "colour" };
const HREF = { kind: "href", label: "Link", placeholder: SAMPLE_HREF };

export const NETWORKS = {
  facebook: "Facebook", instagram: "Instagram", x: "X", linkedin: "LinkedIn", youtube: "YouTube", tiktok: "TikTok",
  telegram: "Telegram", whatsapp: "WhatsApp", github: "GitHub", mastodon: "Mastodon", bluesky: "Bluesky", web: "Website",
};

export const FONTS = {
  system: "System", arial: "Arial", helvetica: "Helvetica", verdana: "Verdana", tahoma: "Tahoma", trebuchet: "Trebuchet",
  georgia: "Georgia", times: "Times", palatino: "Palatino", courier: "Courier",
};

/** `rich` names the fields edited in place. `fields` are shown in the settings. */
export const BLOCKS = {
  heading: {
    label: "Heading", group: "Content", rich: { html: "line" },
    make: () => ({ level: 2, html: "" }),
    fields: [{ key: "level", label: "Size", kind: "choice", options: [[1, "Large"], [2, "Medium"], [3, "Small"]], isNumber: true }],
  },
  text: { label: "Text", group: "Content", rich: { html: "text" }, make: () => ({ html: "" }), fields: [] },
  image: {
    label: "Image", group: "Content", make: () => ({ src: "", alt: "" }),
    fields: [{ key: "src", kind: "image", label: "Image" }, { key: "alt", kind: "alt", label: "Alternative text" }, { key: "href", ...HREF, optional: true },
      { key: "width", kind: "number", label: "Width in pixels", min: 16, max: 1200, optional: true }],
  },
  button: {
    label: "Button", group: "Content", make: () => ({ label: "Read more", href: SAMPLE_HREF, align: "center" }),
    fields: [{ key: "label", kind: "text", label: "Label" }, { key: "href", ...HREF }, { key: "color", label: "Button colour", ...COLOUR },
      { key: "textColor", label: "Label colour", ...COLOUR }, { key: "fullWidth", kind: "checkbox", label: "Full width" }],
  },
  card: {
    label: "Card", group: "Content", hint: "Product or article", rich: { html: "text" },
    make: () => ({ image: "", alt: "", title: "Title", html: "", href: SAMPLE_HREF, label: "Read more" }),
    fields: [{ key: "image", kind: "image", label: "Image" }, { key: "alt", kind: "alt", label: "Alternative text", of: "image" }, { key: "title", kind: "text", label: "Title" },
      { key: "href", ...HREF, optional: true }, { key: "label", kind: "text", label: "Button label", optional: true }],
  },
  quote: { label: "Quote", group: "Content", rich: { html: "text" }, make: () => ({ html: "" }), fields: [{ key: "cite", kind: "text", label: "Who said it", optional: true }] },
  video: {
    label: "Video", group: "Content", make: () => ({ href: SAMPLE_HREF, thumbnail: "", alt: "" }),
    fields: [{ key: "thumbnail", kind: "image", label: "Picture" }, { key: "alt", kind: "alt", label: "Alternative text", of: "thumbnail" }, { key: "href", ...HREF, label: "Address of the video" }],
  },
  social: { label: "Social links", group: "Content", make: (brand) => ({ links: brand.social?.length ? brand.social : [{ network: "web", href: SAMPLE_HREF }], align: "center" }), fields: [{ key: "links", kind: "links", label: "Links" }] },
  columns: {
    label: "Columns", group: "Layout", make: () => ({ columns: [{ blocks: [] }, { blocks: [] }] }),
    fields: [{ key: "columns", kind: "columns", label: "Columns" }, { key: "stackOnPhone", kind: "checkbox", label: "One below the other on phones", isOnByDefault: true }],
  },
  divider: { label: "Divider", group: "Layout", make: () => ({}), fields: [{ key: "color", label: "Colour", ...COLOUR }, { key: "thickness", kind: "number", label: "Thickness in pixels", min: 1, max: 20, optional: true }] },
  spacer: { label: "Spacer", group: "Layout", make: () => ({ height: 24 }), fields: [{ key: "height", kind: "number", label: "Height in pixels", min: 1, max: 400 }] },
  header: { label: "Header", group: "Layout", hint: "Logo", make: () => ({}), fields: [{ key: "logo", kind: "image", label: "Logo", hint: "Leave empty for the logo of the brand.", optional: true }, { key: "alt", kind: "text", label: "Alternative text", optional: true }, { key: "href", ...HREF, optional: true }] },
  footer: { label: "Footer", group: "Layout", hint: "Address and unsubscribe link", rich: { html: "text" }, make: () => ({}), fields: [{ key: "transactional", kind: "checkbox", label: "Without unsubscribe link", hint: "Only for email about what one person did, such as a receipt." }] },
  condition: {
    label: "Condition", group: "Advanced", hint: "Only for a segment", make: () => ({ segment: "", blocks: [] }),
    fields: [{ key: "segment", kind: "segment", label: "Segment" }, { key: "otherwise", kind: "otherwise", label: "Show other blocks to everyone else" }],
  },
  repeat: {
    label: "Repeat", group: "Advanced", hint: "For each item of a list", make: () => ({ over: "items", as: "item", blocks: [] }),
    fields: [{ key: "over", kind: "name", label: "List variable" }, { key: "as", kind: "name", label: "Name of one item", hint: "Use {{ item.title }} in the blocks inside." }, { key: "limit", kind: "number", label: "At most", min: 1, max: 100, optional: true }],
  },
  html: { label: "HTML", group: "Advanced", make: () => ({ html: "<p>HTML</p>" }), fields: [{ key: "html", kind: "code", label: "HTML" }] },
};

const SLOT = {
  text: { kind: "text" }, richText: { kind: "hint", hint: "Edit the text in the email." }, image: { kind: "image" }, link: { kind: "href" },
};

/** The definition of a block. A slot has only the field that its developer opened. */
export function definitionOf(block) {
  if (block.type === "slot") {
    const field = { key: "value", label: block.label || block.name, ...(SLOT[block.kind] ?? SLOT.text) };
    return { label: block.label || "Field", rich: block.kind === "richText" ? { value: "text" } : {}, fields: [field], isSlot: true };
  }
  return BLOCKS[block.type] ?? { label: "Unknown block", fields: [], isUnknown: true };
}

export function labelOf(block) {
  const { label, isUnknown } = definitionOf(block);
  return isUnknown ? `${label} “${block.type}”` : label;
}
