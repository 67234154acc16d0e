// The colours, fonts and distances of an email, as the compiler uses them: what a document does not set comes from the
// brand.

const STACKS = {
  system: "-apple-system, BlinkMacSystemFont, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif",
  arial: "Arial, Helvetica, sans-serif",
  helvetica: "'Helvetica Neue', Helvetica, Arial, sans-serif",
  verdana: "Verdana, Geneva, sans-serif",
  tahoma: "Tahoma, Verdana, Segoe, sans-serif",
  trebuchet: "'Trebuchet MS', 'Lucida Grande', 'Lucida Sans', Tahoma, sans-serif",
  georgia: "Georgia, Times, 'Times New Roman', serif",
  times: "'Times New Roman', Times, serif",
  palatino: "'Palatino Linotype', Palatino, 'Book Antiqua', Georgia, serif",
  courier: "'Courier New', Courier, monospace",
};
const HEADINGS = { 1: "30px", 2: "22px", 3: "18px" };
const CENTRED = new Set(["image", "video", "footer", "social"]);
// Above and below a block.
const PADDINGS = {
  text: [8, 8], image: [8, 8], button: [12, 12], divider: [16, 16], social: [12, 12], video: [8, 12], quote: [12, 12], html: [8, 8],
  card: [12, 16], header: [28, 12], footer: [24, 32], columns: [8, 8], slot: [8, 8],
};

export class Look {
  constructor(settings = {}, brand = {}) {
    this.brand = brand;
    this.width = settings?.width ?? 600;
    this.background = this.colour(settings?.background) ?? brand.background ?? "#f4f4f5";
    this.contentBackground = this.colour(settings?.contentBackground) ?? "#ffffff";
    this.textColor = this.colour(settings?.textColor) ?? brand.text ?? "#18181b";
    this.primary = brand.primary ?? "#2563eb";
    this.linkColor = this.colour(settings?.linkColor) ?? this.primary;
    this.font = STACKS[settings?.font ?? brand.font] ?? STACKS.system;
    this.headingFont = STACKS[settings?.font ?? brand.headingFont] ?? this.font;
    this.key = JSON.stringify([settings, brand]);
  }

  colour(value) {
    if (!value) return null;
    return value.startsWith("brand:") ? (this.brand[value.slice(6)] ?? null) : value;
  }

  /** Black or white, whichever is easier to read on a colour. */
  onPrimary(value) {
    const hex = this.colour(value) ?? this.primary;
    const [red, green, blue] = [1, 3, 5].map((at) => (Number.parseInt(hex.slice(at, at + 2), 16) / 255) ** 2.2);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.4 ? "#18181b" : "#ffffff";
  }

  heading(level) {
    return { "font-family": this.headingFont, "font-size": HEADINGS[level] ?? HEADINGS[1], "line-height": "1.25", "font-weight": "700" };
  }

  paddingOf(block) {
    const [top, bottom] = block.type === "heading" ? [block.level === 1 ? 24 : 20, 8] : (PADDINGS[block.type] ?? [0, 0]);
    return { top: block.padding?.top ?? top, bottom: block.padding?.bottom ?? bottom };
  }

  alignOf(block) {
    return CENTRED.has(block.type) ? "center" : "start";
  }
}
