// Drag and drop, by mouse and touch: blocks within the email, blocks from the palette, and image files.

import Sortable from "sortablejs";

import { find, isFixed, mayContain } from "./document.js";
import { imageFileOf } from "./images.js";

const GROUP = "blocks";
// The fallback behaves the same with a mouse and with touch; the browser's own drag does not exist on phones.
const SHARED = { animation: 150, forceFallback: true, fallbackOnBody: true, fallbackTolerance: 4, ghostClass: "is-ghost", dragClass: "is-dragged", chosenClass: "is-chosen", scroll: true, bubbleScroll: true, emptyInsertThreshold: 12, onMove: beside };

/** Above the middle of a block means before it. Otherwise the place would depend on how the pointer came there. */
function beside({ related, relatedRect }, { clientY }) {
  if (!related.matches(".c-block") || clientY === undefined) return undefined;
  return clientY < relatedRect.top + relatedRect.height / 2 ? -1 : 1;
}

export class Drag {
  #lists = new WeakSet();

  constructor(store, context) {
    Object.assign(this, { store, context });
    store.addEventListener("change", () => this.attach());
    this.attach();
    this.#dropImages();
  }

  /** Make every list of the canvas sortable. */
  attach() {
    for (const list of this.context.canvas.host.querySelectorAll(".c-list")) {
      if (this.#lists.has(list)) continue;
      this.#lists.add(list);
      Sortable.create(list, {
        ...SHARED,
        draggable: ".c-block",
        handle: ".c-handle",
        group: { name: GROUP, put: (to, from, element) => this.#mayDrop(to.el, element) },
        onStart: ({ item }) => (this.home = { parent: item.parentNode, next: item.nextSibling }),
        onEnd: (event) => this.#moved(event),
        onAdd: (event) => event.item.dataset.adds && this.#added(event),
      });
    }
  }

  palette(host) {
    Sortable.create(host, { ...SHARED, sort: false, draggable: "[data-adds]", delay: 120, delayOnTouchOnly: true, group: { name: GROUP, pull: "clone", put: false } });
  }

  #mayDrop(list, element) {
    const parent = list.dataset.parent ?? null;
    const { document } = this.store;
    if (document.mjml) return false;
    if (element.dataset.adds) return mayContain(document, parent, [{ type: element.dataset.adds }]);
    const place = find(document, element.dataset.id);
    return Boolean(place) && !element.contains(list) && !isFixed(document, element.dataset.id) && mayContain(document, parent, [place.block]);
  }

  /** The document decides what the canvas shows, so the element goes back before the document changes. */
  #moved({ item, from, to, newIndex }) {
    const { home } = this;
    home.parent.insertBefore(item, home.next);
    const place = { parent: to.dataset.parent ?? null, slot: to.dataset.slot, index: newIndex };
    const before = find(this.store.document, item.dataset.id);
    const isSame = from === to && before.index === place.index;
    if (!isSame) this.context.actions.moveTo(item.dataset.id, place);
  }

  #added({ item, to, newIndex }) {
    const type = item.dataset.adds;
    item.remove();
    this.context.actions.add(type, { parent: to.dataset.parent ?? null, slot: to.dataset.slot, index: newIndex });
  }

  #dropImages() {
    const { host } = this.context.canvas;
    host.addEventListener("dragover", (event) => {
      if ([...event.dataTransfer.types].includes("Files")) event.preventDefault();
    });
    host.addEventListener("drop", async (event) => {
      const file = imageFileOf(event.dataTransfer);
      if (!file) return;
      event.preventDefault();
      const field = event.target.closest?.("[data-drop]");
      const block = event.target.closest?.(".c-block");
      if (field && block) return this.context.actions.useImage(block.dataset.id, field.dataset.drop, await this.context.images.upload(file));
      if (block) this.store.select(block.dataset.id);
      await this.context.actions.insertImage(file);
    });
  }
}
