// The composer: edits the block document of a template. Loaded only on its own page.

import { Actions } from "./actions.js";
import { Api } from "./api.js";
import { Autosave } from "./autosave.js";
import { BLOCKS } from "./blocks.js";
import { Canvas } from "./canvas.js";
import { compare } from "./compare.js";
import { ask, h, icon, toast } from "./dom.js";
import { Drag } from "./drag.js";
import { Images } from "./images.js";
import { insertFrom } from "./insert.js";
import { Line } from "./line.js";
import { Look } from "./look.js";
import { Checks, preview } from "./preview.js";
import { Settings } from "./settings.js";
import { Sheets } from "./sheets.js";
import { Store } from "./store.js";
import { Toolbar } from "./toolbar.js";
import { Variables } from "./variables.js";

const TEST_ADDRESS = "mailwright.test-address";
const $ = (id) => document.getElementById(id);

function start() {
  const data = JSON.parse($("composer-data").textContent);
  const store = new Store({ document: data.document, subject: data.subject });
  const api = new Api(data.formToken);
  const context = { ...data, api, store, banners: $("composer-banners"), look: () => new Look(store.document.settings, data.brand), showState, showWarnings };
  context.images = new Images(api);
  context.variables = new Variables(api);
  context.actions = new Actions(store, context);
  context.toolbar = new Toolbar($("composer-toolbar"), context);
  context.canvas = new Canvas($("composer-canvas"), store, context);
  context.sheets = new Sheets($("composer"));
  context.openPalette = () => context.sheets.open("palette", { isFocused: true });
  context.closeSheets = () => context.sheets.close();
  context.showSettings = ({ isFocused = false } = {}) => context.sheets.show("settings", { isFocused });
  context.focusToolbar = () => $("composer-toolbar").querySelector("button").focus();
  context.compare = (mine, theirs, names) => compare(context, mine, theirs, names);
  context.publish = () => publish(context);
  new Settings($("composer-settings"), store, context);
  context.checks = new Checks($("composer-warnings"), store, context);
  const drag = new Drag(store, context);
  buildPalette(context, drag);
  connectSelection(context);
  connectLines(context);
  context.autosave = new Autosave(store, context, data);
  connectButtons(context);
  offerRecovery(context);
  if (data.insert) insertFrom(context, data.insert);
  document.addEventListener("keydown", (event) => context.actions.onKey(event));
  for (const name of ["copy", "cut"]) document.addEventListener(name, (event) => context.actions.onCopy(event));
  document.addEventListener("paste", (event) => {
    const isElsewhere = event.target.closest?.("input, textarea, select, dialog, .ProseMirror");
    if (!isElsewhere && !event.defaultPrevented) context.actions.paste(event);
  });
  $("composer").dataset.ready = "yes";
}

function buildPalette(context, drag) {
  const host = $("composer-palette");
  if (context.store.document.mjml) {
    host.append(h("p", { class: "muted" }, t("A developer designed this email. Fill in its fields.")));
    return;
  }
  const groups = Map.groupBy(Object.entries(BLOCKS), ([, definition]) => definition.group);
  for (const [group, entries] of groups) {
    const grid = h("div", { class: "c-palette-grid" }, entries.map(([type, { label, hint }]) =>
      h("button", { type: "button", "data-adds": type, title: hint ?? "", onclick: () => context.actions.add(type) }, icon(type), h("span", {}, label))));
    host.append(h("h2", { class: "c-palette-group" }, group), grid);
    drag.palette(grid);
  }
}

function connectSelection({ store, canvas, sheets }) {
  const select = (event) => {
    const block = event.target.closest?.(".c-block");
    if (block && canvas.host.contains(block)) store.select(block.dataset.id);
    else if (event.type === "mousedown" && event.target === canvas.host) store.select(null);
  };
  canvas.host.addEventListener("focusin", select);
  canvas.host.addEventListener("mousedown", select);
  store.addEventListener("select", () => store.selected && sheets.note("settings"));
}

/** Subject and preview text, which is the text after the subject in an inbox. */
function connectLines({ store, variables, canvas }) {
  const preheader = new Line($("composer-preheader"), { label: $("composer-preheader-label"), maxLength: 300, onChange: (text) => store.change({ document: { ...store.document, preheader: text } }, { merge: "preheader" }), onEnter: () => canvas.list.firstElementChild?.focus() });
  const subject = new Line($("composer-subject"), { label: $("composer-subject-label"), maxLength: 500, onChange: (text) => store.change({ subject: text }, { merge: "subject" }), onEnter: () => preheader.focus() });
  for (const [line, name] of [[subject, "subject"], [preheader, "preheader"]])
    $(`composer-${name}-variable`).addEventListener("click", async () => {
      const chosen = await variables.pick();
      if (chosen) line.insertVariable(chosen.name, chosen.fallback);
      else line.focus();
    });
  const show = () => {
    subject.show(store.state.subject);
    preheader.show(store.document.preheader ?? "");
    $("composer-undo").disabled = !store.canUndo;
    $("composer-redo").disabled = !store.canRedo;
  };
  store.addEventListener("change", show);
  show();
}

function connectButtons(context) {
  const { store, actions } = context;
  const run = { undo: () => actions.undo(), redo: () => actions.redo(), preview: () => preview(store, context), test: () => sendTest(context), publish: () => publish(context), discard: () => discard(context), source: () => switchToSource(context), paste: () => actions.pasteFromMenu(), insert: () => insertFrom(context), keys: () => showKeys() };
  for (const [name, act] of Object.entries(run)) {
    $(`composer-${name}`)?.addEventListener("click", () => {
      $("composer-menu").open = false;
      act();
    });
  }
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#composer-menu")) $("composer-menu").open = false;
  });
  // Leave only after everything is saved. A campaign or a sequence sends the published version, so ask before going back.
  for (const link of document.querySelectorAll("[data-leaves]"))
    link.addEventListener("click", async (event) => {
      const { autosave } = context;
      const asks = (context.campaign || context.sequence) && !autosave.isPublished;
      if (!autosave.isDirty && !asks) return;
      event.preventDefault();
      if (!(await autosave.save())) return toast(t("Not saved yet. Your changes are kept in this browser."));
      if (asks && !(await offerToPublish(context))) return;
      location.assign(link.href);
    });
}

/** Ask whether to publish the draft. Resolves with whether to return to the campaign or the sequence. */
async function offerToPublish(context) {
  const body = h("p", {}, context.sequence ? t("The sequence sends the published version, without the changes in this draft.") : t("The campaign sends the published version, without the changes in this draft."));
  const choice = await ask({ title: t("Publish your changes?"), body, buttons: [["publish", t("Publish and return"), "primary"], ["leave", t("Return without publishing")], ["", t("Stay", { context: "button" })]] });
  if (choice !== "publish") return choice === "leave";
  await publish(context);
  return context.autosave.isPublished;
}

function showState(kind, text) {
  const state = $("composer-state");
  state.dataset.state = kind;
  state.textContent = text;
}

function showWarnings(count) {
  for (const badge of document.querySelectorAll("[data-warnings]")) {
    badge.textContent = count ? String(count) : "";
    badge.hidden = !count;
  }
}

function offerRecovery({ store, autosave, banners }) {
  const kept = autosave.kept(store.state);
  if (!kept) return;
  const at = new Date(kept.at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
  const box = h("div", { class: "c-banner is-warning", role: "alert" },
    h("span", {}, t("This browser has changes from {at} that were not saved.", { at }), kept.revision < autosave.revision && ` ${t("Someone saved a newer draft since then.")}`),
    h("button", { type: "button", class: "button is-small is-primary", onclick: () => { box.remove(); store.change({ document: kept.document, subject: kept.subject }); toast(t("Restored."), { label: t("Undo"), run: () => store.undo() }); } }, t("Restore")),
    h("button", { type: "button", class: "button is-small", onclick: () => { box.remove(); autosave.forget(); } }, t("Discard")));
  banners.append(box);
}

async function publish(context) {
  const { store, autosave, api } = context;
  if (!(await autosave.save())) return;
  showState("saving", t("Publishing…"));
  try {
    const made = await api.post(`${context.path}/publish`, { ...store.state, locale: context.locale, baseRevision: autosave.revision, baseVersion: autosave.baseVersion });
    autosave.settle(made.revision, made.version, t("Published as version {version}", made));
    context.checks.check();
    if (made.isUnchanged) toast(t("Nothing has changed since version {version}, so no new version was published.", made));
    else toast(context.sequence ? t("Published as version {version}. The sequence uses it.", made) : context.campaign ? t("Published as version {version}. The campaign uses it.", made) : t("Published as version {version}. Campaigns and API requests use it from now on.", made));
    $("composer-discard").hidden = true;
  } catch (error) {
    if (error.kind === "refused") {
      showState("problem", t("Draft saved, not published"));
      toast(error.message);
      if (error.body.blockId) store.select(error.body.blockId);
    } else autosave.failed(error);
  }
}

/** Go back to the published version. Undo brings the draft back. */
async function discard(context) {
  const { store, autosave, api } = context;
  await autosave.save();
  try {
    const published = await api.post(`${context.path}/discard`, { locale: context.locale, baseRevision: autosave.revision });
    store.change({ document: published.document, subject: published.subject });
    autosave.settle(published.revision, published.version, t("Version {version}", published));
    clearTimeout(autosave.timer);
    toast(t("Draft discarded."), { label: t("Undo"), run: () => store.undo() });
  } catch (error) {
    autosave.failed(error);
  }
}

async function sendTest(context) {
  const { store, api } = context;
  const to = h("input", { id: "c-test-to", type: "email", required: true, value: localStorage.getItem(TEST_ADDRESS) || context.userEmail, autocomplete: "email" });
  const contact = h("input", { id: "c-test-contact", list: "c-test-contacts", value: context.contacts[0]?.email ?? "", autocomplete: "off" });
  const body = h("div", { class: "stack" },
    h("div", { class: "field" }, h("label", { for: "c-test-to" }, t("To")), to),
    h("div", { class: "field" }, h("label", { for: "c-test-contact" }, t("With the data of"), h("span", { class: "muted" }, ` ${t("optional")}`)), contact, h("datalist", { id: "c-test-contacts" }, context.contacts.map((each) => h("option", { value: each.email }, each.name))), h("p", { class: "hint" }, t("Leave empty to use sample values."))));
  const choice = await ask({ title: t("Send test email"), body, buttons: [["send", t("Send test email"), "primary"], ["", t("Cancel")]] });
  if (choice !== "send") return;
  localStorage.setItem(TEST_ADDRESS, to.value.trim());
  try {
    await api.post("/composer/test", { ...store.state, to: to.value.trim(), contact: contact.value.trim(), templateId: context.templateId, locale: context.locale });
    toast(t("Test email sent to {address}.", { address: to.value.trim() }));
  } catch (error) {
    toast(error.message);
  }
}

async function switchToSource(context) {
  const { store, autosave, api } = context;
  const body = h("div", { class: "stack" },
    h("p", {}, t("The email becomes MJML source that you edit as text. What cannot come back:")),
    h("ul", {}, [t("blocks, drag and drop, and editing in place"), t("locks and fields of developers"), t("colours that follow the brand: they become fixed values"), t("warnings for single blocks")].map((text) => h("li", {}, text))),
    h("p", {}, t("The last version with blocks stays in the history of the template. Open it there to continue with blocks.")));
  const choice = await ask({ title: t("Switch to source?"), body, buttons: [["switch", t("Switch to source"), "primary"], ["", t("Cancel")]] });
  if (choice !== "switch" || !(await autosave.save())) return;
  try {
    const made = await api.post(`${context.path}/source`, { ...store.state, locale: context.locale, baseRevision: autosave.revision, baseVersion: autosave.baseVersion });
    autosave.settle(made.revision, made.version, t("Saved"));
    location.assign(made.path);
  } catch (error) {
    if (error.kind === "refused") toast(error.message);
    else autosave.failed(error);
  }
}

const KEYS = [["↑ ↓", t("Select the block above or below")], ["Enter", t("Edit the text or the settings of a block")], ["/", t("Choose a block to add below")], ["Esc", t("Leave the text or the settings")], ["Alt + ↑ ↓", t("Move the block")], ["Ctrl + D", t("Duplicate the block")], ["Delete", t("Delete the block")], ["Ctrl + C, X, V", t("Copy, cut and paste blocks, also between emails")], ["Ctrl + Z, Ctrl + Y", t("Undo and redo")], ["Alt + F10", t("Go to the formatting toolbar")], ["Ctrl + K", t("Link")], ["Ctrl + S", t("Publish as a new version")]];

function showKeys() {
  ask({ title: t("Keyboard shortcuts"), body: h("dl", { class: "c-keys" }, KEYS.map(([keys, what]) => h("div", {}, h("dt", {}, h("kbd", {}, keys)), h("dd", {}, what)))), buttons: [["", t("Close")]] });
}

start();
