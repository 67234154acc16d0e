// Save every change: at first in this browser, so that a crash or a lost connection loses nothing, then on the server.

import { ask, h, toast } from "./dom.js";

const PAUSE_MS = 700;
const RETRY_MS = 5_000;
const PRESENCE_MS = 5_000;

export class Autosave {
  constructor(store, context, { path, locale, revision, baseVersion, user, tenant, templateId, hasDraft }) {
    Object.assign(this, { store, context, path, locale, revision, baseVersion, user });
    this.key = `mailwright.draft:${tenant}:${templateId}:${locale}`;
    // A reloaded page counts as the same editor.
    this.editor = sessionStorage.getItem("mailwright.editor") ?? Math.random().toString(36).slice(2);
    sessionStorage.setItem("mailwright.editor", this.editor);
    // Whether the screen shows the last saved version.
    this.isPublished = !hasDraft;
    this.isDirty = false;
    this.isBlocked = false;
    this.saving = null;
    // What the server may have although it did not confirm it. Saving exactly this again is not a conflict.
    this.unconfirmed = null;
    store.addEventListener("change", () => this.#changed());
    addEventListener("online", () => this.isDirty && this.save());
    addEventListener("beforeunload", (event) => this.isDirty && event.preventDefault());
    addEventListener("pagehide", () => this.#leave());
    // A second tab may have signed in again while this one waited.
    addEventListener("focus", () => this.isSignedOut && this.#resume());
    this.#watchOthers();
  }

  /** What this browser kept and the server does not have, or null. */
  kept(state) {
    try {
      const kept = JSON.parse(localStorage.getItem(this.key));
      const isNews = kept && JSON.stringify([kept.document, kept.subject]) !== JSON.stringify([state.document, state.subject]);
      if (!isNews) localStorage.removeItem(this.key);
      return isNews ? kept : null;
    } catch {
      return null;
    }
  }

  forget() {
    localStorage.removeItem(this.key);
  }

  #changed() {
    this.isDirty = true;
    this.isPublished = false;
    try {
      localStorage.setItem(this.key, JSON.stringify({ ...this.store.state, revision: this.revision, at: Date.now() }));
    } catch {
      // A full or disabled storage must not stop the work; the server still saves.
    }
    if (this.isBlocked || this.isSignedOut) return;
    if (!this.saving) this.context.showState("pending", t("Unsaved changes"));
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.save(), PAUSE_MS);
  }

  /** Save now. Resolves with whether the server has everything. */
  async save() {
    clearTimeout(this.timer);
    if (this.saving) await this.saving;
    if (!this.isDirty) return true;
    if (this.isBlocked) return false;
    this.saving = this.#put();
    await this.saving;
    this.saving = null;
    return !this.isDirty;
  }

  async #put() {
    const isRepeat = this.unconfirmed !== null;
    const state = this.unconfirmed ?? this.store.state;
    this.unconfirmed = state;
    this.context.showState("saving", t("Saving…"));
    try {
      const saved = await this.context.api.send("PUT", `${this.path}/autosave`, { document: state.document, subject: state.subject, locale: this.locale, baseRevision: this.revision, baseVersion: this.baseVersion });
      this.revision = saved.revision;
      this.unconfirmed = null;
      this.isSignedOut = false;
      if (this.store.state === state) this.#settled(t("Draft saved {time}", { time: saved.savedAtText }));
      else if (isRepeat) await this.#put();
      else this.#changed();
    } catch (error) {
      this.failed(error);
    }
  }

  #settled(text) {
    this.isDirty = false;
    this.forget();
    this.context.showState("saved", text);
  }

  /** The server published or discarded the draft: what is on the screen is what it has. */
  settle(revision, baseVersion, text) {
    Object.assign(this, { revision, baseVersion, isPublished: true });
    this.#settled(text);
  }

  failed(error) {
    const retry = () => (this.timer = setTimeout(() => this.save(), RETRY_MS));
    switch (error.kind) {
      case "offline":
        this.context.showState("offline", t("Offline: kept in this browser"));
        return retry();
      case "signIn":
        return this.#askSignIn();
      case "conflict":
        this.unconfirmed = null;
        this.isBlocked = true;
        this.context.showState("conflict", this.#isOwn(error.body) ? t("Not saved: changed in another tab") : t("Not saved: changed by someone else"));
        return this.#resolve(error.body);
      case "refused":
        this.unconfirmed = null;
        this.context.showState("problem", error.message);
        return undefined;
      default:
        this.context.showState("problem", `${error.message} ${t("Kept in this browser.")}`);
        return retry();
    }
  }

  #askSignIn() {
    this.isSignedOut = true;
    this.context.showState("offline", t("Signed out: kept in this browser"));
    if (this.signInBox) return;
    const next = encodeURIComponent("/composer/signed-in");
    this.signInBox = h("div", { class: "c-banner is-warning", role: "alert" },
      h("span", {}, t("Your session has ended. Nothing is lost: sign in, and your changes are saved.")),
      h("a", { class: "button is-small is-primary", href: `/sign-in?next=${next}`, target: "_blank", rel: "opener" }, t("Sign in")),
      h("button", { type: "button", class: "button is-small", onclick: () => this.#resume() }, t("I have signed in")));
    this.context.banners.append(this.signInBox);
  }

  async #resume() {
    try {
      await this.context.api.renew();
    } catch {
      return;
    }
    this.signInBox?.remove();
    this.signInBox = null;
    this.isSignedOut = false;
    this.isDirty = true;
    await this.save();
  }

  // Two editors.

  /** Whether the same user saved in another tab or browser. */
  #isOwn({ savedBy }) {
    return savedBy === this.user || savedBy.startsWith(`${this.user}, `);
  }

  /** Nothing is lost: mine becomes a copy, or theirs is taken and mine stays in the history of this browser. */
  async #resolve(theirs) {
    const mine = this.store.state;
    const isOwn = this.#isOwn(theirs);
    const body = h("div", { class: "stack" }, h("p", {}, this.#news(theirs), " ", t("Your changes are kept in this browser until you decide.")));
    const [title, copy, take, names] = isOwn
      ? [t("You changed this email in another tab"), t("Keep this version as a copy"), t("Take the other tab’s version"), [t("This tab"), t("The other tab")]]
      : [t("Two people changed this email"), t("Keep mine as a copy"), t("Take theirs"), [t("Mine"), t("From {who}", { who: theirs.savedBy })]];
    for (;;) {
      const choice = await ask({ title, body, buttons: [["copy", copy, "primary"], ["theirs", take], ["compare", t("Compare")], ["", t("Decide later")]] });
      if (choice === "compare") {
        await this.context.compare(mine, theirs, names);
        continue;
      }
      if (choice === "copy") return this.#copy(mine, theirs);
      if (choice === "theirs") return this.#take(theirs);
      return this.#postpone(theirs);
    }
  }

  #news(theirs) {
    const values = { who: theirs.savedBy.replace(/^(the|another) /, (word) => word[0].toUpperCase() + word.slice(1)), time: theirs.savedAtText };
    if (this.#isOwn(theirs)) return theirs.isPublished ? t("You published this email in another tab or window at {time}, after you opened it here.", values) : t("You saved this email in another tab or window at {time}, after you opened it here.", values);
    return theirs.isPublished ? t("{who} published this email at {time}, after you opened it.", values) : t("{who} saved this email at {time}, after you opened it.", values);
  }

  async #copy(mine, theirs) {
    try {
      const made = await this.context.api.post(`${this.path}/copy`, { ...mine, locale: this.locale, baseVersion: this.baseVersion });
      this.isDirty = false;
      this.forget();
      location.assign(made.path);
    } catch (error) {
      toast(error.message);
      await this.#resolve(theirs);
    }
  }

  /** Show what the server has. It is not saved again, because that would be a change in the eyes of the others. */
  #take(theirs) {
    this.isBlocked = false;
    this.store.change({ document: theirs.document, subject: theirs.subject });
    clearTimeout(this.timer);
    this.settle(theirs.revision, theirs.baseVersion, theirs.isPublished ? t("Version {version}", { version: theirs.baseVersion }) : t("Draft saved {time}", { time: theirs.savedAtText }));
    this.isPublished = theirs.isPublished;
    toast(this.#isOwn(theirs) ? t("This is what you saved in the other tab. Undo brings yours back.") : t("This is what {who} saved. Undo brings yours back.", { who: theirs.savedBy }));
  }

  #postpone(theirs) {
    const box = h("div", { class: "c-banner is-warning", role: "alert" },
      h("span", {}, this.#isOwn(theirs) ? t("Not saved: you changed this email in another tab too.") : t("Not saved: {who} changed this email too.", { who: theirs.savedBy })),
      h("button", { type: "button", class: "button is-small", onclick: () => (box.remove(), this.#resolve(theirs)) }, t("Decide")));
    this.context.banners.append(box);
  }

  /** Tell who else has this email open, before there is a conflict. */
  async #watchOthers() {
    for (;;) {
      if (!document.hidden && !this.isSignedOut) {
        const seen = await this.context.api.post(`${this.path}/presence`, { editor: this.editor, locale: this.locale }).catch(() => null);
        if (seen) this.#showOthers(seen);
      }
      await new Promise((resolve) => setTimeout(resolve, PRESENCE_MS));
    }
  }

  /** Others need no warning about a closed tab. */
  #leave() {
    const headers = { "Content-Type": "application/json", "X-Form-Token": this.context.api.formToken };
    fetch(`${this.path}/presence`, { method: "POST", headers, keepalive: true, body: JSON.stringify({ editor: this.editor, locale: this.locale, isLeaving: true }) }).catch(() => null);
  }

  #showOthers({ others, revision, savedBy }) {
    const names = [...new Set(others)].filter((name) => name !== this.user);
    const values = { names: new Intl.ListFormat(LANGUAGE).format(names), who: savedBy };
    const alone = others.length ? t("You have this email open in another tab or browser.") : "";
    const text = names.length === 0 ? alone : names.length > 1 ? t("{names} are editing this email too.", values) : t("{names} is editing this email too.", values);
    const isBehind = revision > this.revision && !this.saving && !this.isBlocked;
    const news = !isBehind ? "" : this.#isOwn({ savedBy }) ? t("You saved a newer draft there: reload to see it.") : t("{who} saved a newer draft: reload to see it.", values);
    this.othersBox ??= h("div", { class: "c-banner is-info", role: "status" });
    if (!this.othersBox.isConnected) this.context.banners.append(this.othersBox);
    const all = `${text} ${news}`.trim();
    if (this.othersBox.textContent !== all) this.othersBox.textContent = all;
    this.othersBox.hidden = !all;
  }
}
