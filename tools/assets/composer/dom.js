// Build elements without a framework. Styles are set through the CSSOM, because the Content-Security-Policy forbids
// style attributes.

const SVG = "http://www.w3.org/2000/svg";

/** `h("button", { class: "button", onclick: save, style: { color: "red" } }, "Save")`. False and null children are left out. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) setProperty(element, name, value);
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

function setProperty(element, name, value) {
  if (value == null || value === false) return;
  if (name === "style") for (const [rule, text] of Object.entries(value)) element.style.setProperty(rule, text);
  else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "value" || name === "checked" || name === "selected") element[name] = value;
  else element.setAttribute(name, value === true ? "" : value);
}

const DRAWINGS = {
  heading: "M3.5 3v10M12.5 3v10M3.5 8h9",
  text: "M3 4h10M3 8h10M3 12h6",
  image: "M2.5 3.5h11v9h-11zM2.5 10.5 6 7.5l3 2.5 2-1.7 2.5 2M10.5 6h.1",
  button: "M2.5 5.5h11v5h-11zM5.5 8h5",
  columns: "M2.5 3.5h4.5v9H2.5zM9 3.5h4.5v9H9z",
  divider: "M2.5 8h11",
  spacer: "M3 3h10M3 13h10M8 5.5v5M6.5 7 8 5.5 9.5 7M6.5 9 8 10.5 9.5 9",
  social: "M5.5 8a1.8 1.8 0 1 1-3.6 0 1.8 1.8 0 0 1 3.6 0zM14 4a1.8 1.8 0 1 1-3.6 0A1.8 1.8 0 0 1 14 4zM14 12a1.8 1.8 0 1 1-3.6 0 1.8 1.8 0 0 1 3.6 0zM5.3 7.2l5.2-2.4M5.3 8.8l5.2 2.4",
  video: "M2.5 3.5h11v9h-11zM6.7 6l3.4 2-3.4 2z",
  quote: "M3 5h3v3.5c0 1.4-.8 2.3-2.2 2.6M9 5h3v3.5c0 1.4-.8 2.3-2.2 2.6",
  html: "M6 4.5 2.5 8 6 11.5M10 4.5 13.5 8 10 11.5",
  card: "M2.5 2.5h11v11h-11zM2.5 8h11M5 10.7h5",
  header: "M2.5 3h11v10h-11zM2.5 6.5h11M5 4.8h2",
  footer: "M2.5 3h11v10h-11zM2.5 9.5h11M5 11.3h6",
  condition: "M3 3.5h10L9 8.5v4l-2 1v-5z",
  repeat: "M4 6.5V5h7.5M9.5 3l2 2-2 2M12 9.5V11H4.5M6.5 9l-2 2 2 2",
  slot: "M2.5 5h11v6h-11zM5 6.8v2.4",
  unknown: "M5.6 6A2.5 2.5 0 1 1 9 8.3c-.7.3-1 .8-1 1.6M8 12.4v.1",
  drag: "M6 3.5h.1M10 3.5h.1M6 8h.1M10 8h.1M6 12.5h.1M10 12.5h.1",
  up: "M8 13V3M3.8 7.2 8 3l4.2 4.2",
  down: "M8 3v10M3.8 8.8 8 13l4.2-4.2",
  duplicate: "M5.5 5.5h8v8h-8zM3 10.5H2.5v-8h8V3",
  copy: "M4 3.5h6v9H4zM6.5 3.5v-1h6v9h-2",
  trash: "M3 4.5h10M6 4.5v-2h4v2M4.2 4.5l.6 9h6.4l.6-9M6.8 7v4M9.2 7v4",
  lock: "M4 7.5h8v6H4zM5.5 7.5v-2a2.5 2.5 0 0 1 5 0v2",
  undo: "M5.5 3 2.8 5.7l2.7 2.7M3 5.7h6a3.6 3.6 0 0 1 0 7.2H6",
  redo: "M10.5 3l2.7 2.7-2.7 2.7M13 5.7H7a3.6 3.6 0 0 0 0 7.2h3",
  link: "M7 9a2.5 2.5 0 0 0 3.6.2l2-2A2.5 2.5 0 0 0 9.1 3.6L8 4.7M9 7a2.5 2.5 0 0 0-3.6-.2l-2 2a2.5 2.5 0 0 0 3.5 3.6L8 11.3",
  bullets: "M6 4h7.5M6 8h7.5M6 12h7.5M2.7 4h.1M2.7 8h.1M2.7 12h.1",
  numbers: "M6.5 4h7M6.5 8h7M6.5 12h7M2.5 3h1v3M2.3 9.5h1.7l-1.7 3H4",
  variable: "M5.5 3C3.5 3 4.5 7 2.5 8c2 1 1 5 3 5M10.5 3c2 0 1 4 3 5-2 1-1 5-3 5",
  colour: "M8 2.5c2.7 3 4 5 4 6.7a4 4 0 0 1-8 0c0-1.7 1.3-3.7 4-6.7z",
  clear: "M3.5 4h7M7 4l-1.5 8M9.5 9.5l3.5 3.5M13 9.5 9.5 13",
  phone: "M5 2h6v12H5zM7.5 12h1",
  desktop: "M2 3h12v8H2zM6 13.5h4M8 11v2.5",
  check: "m3.2 8.6 3.2 3.2 6.4-7",
  cross: "m4 4 8 8M12 4l-8 8",
  attention: "M8 2.5 14 13H2zM8 6.5v3M8 11.3v.1",
  settings: "M2.5 4.5h6M11.5 4.5h2M2.5 11.5h2M7.5 11.5h6M11.5 4.5a1.5 1.5 0 1 1-3 0 1.5 1.5 0 0 1 3 0zM7.5 11.5a1.5 1.5 0 1 1-3 0 1.5 1.5 0 0 1 3 0z",
  plus: "M8 3v10M3 8h10",
  eye: "M1.8 8S4 3.8 8 3.8 14.2 8 14.2 8 12 12.2 8 12.2 1.8 8 1.8 8zM9.8 8a1.8 1.8 0 1 1-3.6 0 1.8 1.8 0 0 1 3.6 0z",
};

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" }))
    svg.setAttribute(key, value);
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", DRAWINGS[name] ?? DRAWINGS.unknown);
  svg.append(path);
  return svg;
}

/** A button that shows only an icon. Its label is also its tooltip. */
export function iconButton(name, label, onclick, properties = {}) {
  return h("button", { type: "button", class: "c-icon-button", "aria-label": label, title: label, onclick, ...properties }, icon(name));
}

/** Tell users of screen readers what happened. */
export function announce(text) {
  document.getElementById("composer-announcements").textContent = text;
}

/** Show a dialog and resolve with the value of the pressed button, or "" when it was closed. */
export function ask({ title, body, buttons, wide = false }) {
  return new Promise((resolve) => {
    const name = `dialog-${Math.random().toString(36).slice(2)}`;
    const dialog = h(
      "dialog",
      { class: `c-dialog${wide ? " is-wide" : ""}`, "aria-labelledby": name, tabindex: "-1" },
      h("form", { method: "dialog" }, h("h2", { id: name }, title), body, h("div", { class: "actions" }, buttons.map(([value, label, tone]) =>
        h("button", { class: `button${tone ? ` is-${tone}` : ""}`, value, formnovalidate: !value }, label),
      ))),
    );
    // Without a main action, Enter confirms a field and does not close the dialog.
    const closes = (event) => event.key === "Enter" && event.target.matches("input:not([type=file])") && !buttons[0][0];
    dialog.addEventListener("keydown", (event) => {
      if (!closes(event)) return;
      event.preventDefault();
      event.target.dispatchEvent(new Event("change"));
    });
    // A click into a frame would take the focus away, and with it the keys of the dialog. Tab may go there, to scroll.
    let isTabbing = false;
    const keepFocus = () => setTimeout(() => !isTabbing && dialog.contains(document.activeElement) && document.activeElement.matches("iframe") && dialog.focus());
    addEventListener("blur", keepFocus);
    dialog.addEventListener("keydown", (event) => (isTabbing = event.key === "Tab"));
    dialog.addEventListener("pointermove", () => (isTabbing = false));
    dialog.addEventListener("close", () => {
      removeEventListener("blur", keepFocus);
      dialog.remove();
      resolve(dialog.returnValue);
    });
    document.body.append(dialog);
    dialog.returnValue = "";
    dialog.showModal();
  });
}

let timer;
export function hideToast() {
  document.getElementById("composer-toast").hidden = true;
}

/** Show a message for some seconds, optionally with one action such as "Undo". */
export function toast(text, action) {
  const box = document.getElementById("composer-toast");
  box.replaceChildren(
    h("span", {}, text),
    action ? h("button", { type: "button", class: "button is-small", onclick: () => (hideToast(), action.run()) }, action.label) : "",
    iconButton("cross", t("Close message"), hideToast),
  );
  box.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(hideToast, action ? 12_000 : 6_000);
}
