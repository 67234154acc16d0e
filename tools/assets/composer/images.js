// Images of the library: upload by drop, paste or picker, and search.

import { completed, hrefProblem } from "./links.js";
import { announce, ask, h, hideToast, toast } from "./dom.js";

const ACCEPTED = "image/png, image/jpeg, image/gif, image/webp";
// The server refuses more as well, but only after everything was uploaded.
const MAX_BYTES = 20 * 1024 * 1024;

export class Images {
  constructor(api) {
    this.api = api;
  }

  /** The address that a browser can load, or "" for template code and for nothing. */
  url(source) {
    return /^https?:\/\/[^{]*$|^\/[^/{][^{]*$/.test(source ?? "") ? source : "";
  }

  /** Upload a file and resolve with its address and description, or null after it reported why it was refused. */
  async upload(file, report = toast) {
    if (file.size > MAX_BYTES) return void report(t("The image is larger than 20 MB. Choose a smaller one."));
    report(t("Uploading {name} …", { name: file.name || t("image") }));
    try {
      const body = new FormData();
      body.append("file", file, file.name || "pasted.png");
      const image = await this.api.send("POST", "/images", body, { isRaw: true });
      hideToast();
      announce(t("Image uploaded."));
      return image;
    } catch (error) {
      report(error.message);
      return null;
    }
  }

  /** Show the library and resolve with the chosen image, or null. */
  async pick() {
    let chosen = null;
    const search = h("input", { id: "c-image-search", type: "search", placeholder: t("Search"), autocomplete: "off" });
    const grid = h("div", { class: "c-library", role: "list" });
    const more = h("button", { type: "button", class: "button is-small", hidden: true }, t("Show more"));
    const file = h("input", { type: "file", accept: ACCEPTED, id: "c-image-file" });
    const address = h("input", { id: "c-image-address", inputmode: "url", placeholder: "https://", autocomplete: "off" });
    const problem = h("p", { class: "error", role: "alert", hidden: true });
    const report = (text) => {
      problem.textContent = text;
      problem.hidden = false;
    };
    const body = h("div", { class: "stack" },
      problem,
      h("div", { class: "c-upload", "data-upload": "" }, h("label", { for: "c-image-file" }, t("Upload an image, or drop it here")), file),
      h("div", { class: "field" }, h("label", { for: "c-image-search" }, t("Find in the library")), search), grid, more,
      h("details", {}, h("summary", {}, t("Use the address of an image")), h("div", { class: "field" }, h("label", { for: "c-image-address" }, t("Address")), address), h("button", { type: "button", class: "button", onclick: () => take(addressed(address)) }, t("Use address"))));
    const answered = ask({ title: t("Choose image"), body, wide: true, buttons: [["", t("Cancel")]] });
    const dialog = body.closest("dialog");
    const take = (image) => {
      if (!image) return;
      chosen = image;
      dialog.close("chosen");
    };
    const send = async (chosen) => {
      take(await this.upload(chosen, report));
      file.value = "";
    };
    file.addEventListener("change", () => file.files[0] && send(file.files[0]));
    body.addEventListener("dragover", (event) => event.preventDefault());
    body.addEventListener("drop", (event) => {
      event.preventDefault();
      event.stopPropagation();
      if (event.dataTransfer.files[0]) send(event.dataTransfer.files[0]);
    });
    let latest = 0;
    const load = async (cursor = "") => {
      const request = ++latest;
      const query = new URLSearchParams({ q: search.value.trim(), ...(cursor ? { cursor } : {}) });
      const found = await this.api.get(`/images.json?${query}`).catch((error) => (toast(error.message), { images: [] }));
      if (request !== latest) return;
      if (!cursor) grid.replaceChildren();
      grid.append(...(found.images ?? []).map((image) => h("div", { role: "listitem" },
        h("button", { type: "button", class: "c-thumbnail", "aria-label": t("Use {name}", { name: image.alt || image.name }), onclick: () => take(image) }, h("img", { src: image.url, alt: "", loading: "lazy" }), h("span", {}, image.name)))));
      if (!grid.children.length) grid.append(h("p", { class: "muted", role: "listitem" }, search.value ? t("No image matches.") : t("The library is empty. Upload the first image.")));
      more.hidden = !found.nextCursor;
      more.onclick = () => load(found.nextCursor);
    };
    search.addEventListener("input", () => load());
    address.addEventListener("keydown", (event) => event.key === "Enter" && take(addressed(address)));
    load();
    await answered;
    return chosen;
  }
}

/** What an address stands for. An empty field gets the focus. */
function addressed(input) {
  const url = completed(input.value);
  if (!url || hrefProblem(url)) return input.focus();
  return { url, alt: "" };
}

/** The first image file of a drop or paste. */
export function imageFileOf(transfer) {
  return [...(transfer?.files ?? [])].find((file) => file.type.startsWith("image/")) ?? null;
}
