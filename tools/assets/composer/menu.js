// The menu of blocks that opens at a place of the email.

import { BLOCKS } from "./blocks.js";
import { h, icon } from "./dom.js";

// The menu has two columns.
const STEPS = { ArrowDown: 2, ArrowRight: 1, ArrowUp: -2, ArrowLeft: -1 };

/** Show the blocks of these types at `anchor`, and call `add` with the chosen type. */
export function openBlockMenu(anchor, types, add) {
  const items = types.map((type) => h("button", { type: "button", role: "menuitem", tabindex: "-1", onclick: () => { menu.hidePopover(); add(type); } }, icon(type), h("span", {}, BLOCKS[type].label)));
  const menu = h("div", { class: "c-block-menu", role: "menu", "aria-label": t("Add block"), popover: "auto" }, items);
  menu.addEventListener("keydown", (event) => {
    const at = items.indexOf(document.activeElement);
    const next = { Home: 0, End: items.length - 1 }[event.key] ?? (event.key in STEPS ? at + STEPS[event.key] : nextNamed(items, event, at));
    if (event.key === "Tab") menu.hidePopover();
    if (next === null) return;
    event.preventDefault();
    items.at(next % items.length).focus();
  });
  menu.addEventListener("toggle", (event) => event.newState === "closed" && menu.remove());
  document.body.append(menu);
  menu.showPopover();
  place(menu, anchor.getBoundingClientRect());
  items[0].focus();
}

/** The next item whose name begins with the typed character, or null. */
function nextNamed(items, { key, ctrlKey, metaKey, altKey }, at) {
  if (key.length !== 1 || ctrlKey || metaKey || altKey) return null;
  const found = items.map((_, index) => (at + 1 + index) % items.length).find((index) => items[index].textContent.toLowerCase().startsWith(key.toLowerCase()));
  return found ?? null;
}

/** Put the menu below its anchor, or above it if there is no space below. */
function place(menu, { left, top, bottom }) {
  const { offsetWidth: width, offsetHeight: height } = menu;
  const fits = bottom + height <= innerHeight;
  menu.style.setProperty("left", `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`);
  menu.style.setProperty("top", `${Math.max(8, fits ? bottom : top - height)}px`);
}
