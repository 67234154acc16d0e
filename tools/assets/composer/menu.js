// The menu of blocks that opens at a place of the email.

import { BLOCKS } from "./blocks.js";
import { h, icon } from "./dom.js";

const STEPS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };

/** Show the blocks of these types at `anchor`, and call `add` with the chosen type. */
export function openBlockMenu(anchor, types, add) {
  const items = types.map((type) => h("button", { type: "button", role: "menuitem", tabindex: "-1", onclick: () => { menu.hidePopover(); add(type); } }, icon(type), h("span", {}, BLOCKS[type].label)));
  const menu = h("div", { class: "c-block-menu", role: "menu", "aria-label": "Add block", popover: "auto" }, items);
  menu.addEventListener("keydown", (event) => {
    const at = items.indexOf(document.activeElement);
    const next = { Home: 0, End: items.length - 1 }[event.key] ?? (event.key in STEPS ? at + STEPS[event.key] : null);
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

/** Put the menu below its anchor, or above it if there is no space below. */
function place(menu, { left, top, bottom }) {
  const { offsetWidth: width, offsetHeight: height } = menu;
  const fits = bottom + height <= innerHeight;
  menu.style.setProperty("left", `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`);
  menu.style.setProperty("top", `${Math.max(8, fits ? bottom : top - height)}px`);
}
