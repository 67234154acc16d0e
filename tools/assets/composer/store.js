// The state of the editor: the document, the subject, the selected block, and the history for undo and redo.

const MAX_STEPS = 300;
// Typing within this time is one step of the history.
const SAME_STEP_MS = 1_000;

export class Store extends EventTarget {
  #undo = [];
  #redo = [];
  #lastMerge = { key: null, at: 0 };

  constructor({ document, subject }) {
    super();
    this.state = { document, subject };
    this.selected = null;
    this.place = null;
  }

  get document() {
    return this.state.document;
  }

  get canUndo() {
    return this.#undo.length > 0;
  }

  get canRedo() {
    return this.#redo.length > 0;
  }

  /** Change the document or subject in one step. Changes with the same `merge` key that follow each other are one step. */
  change(values, { merge = null } = {}) {
    const next = { ...this.state, ...values };
    if (next.document === this.state.document && next.subject === this.state.subject) return;
    const isSame = merge !== null && merge === this.#lastMerge.key && Date.now() - this.#lastMerge.at < SAME_STEP_MS;
    if (!isSame) this.#undo.push({ ...this.state, selected: this.selected });
    if (this.#undo.length > MAX_STEPS) this.#undo.shift();
    this.#lastMerge = { key: merge, at: Date.now() };
    this.#redo = [];
    this.#set(next);
  }

  undo() {
    return this.#travel(this.#undo, this.#redo);
  }

  redo() {
    return this.#travel(this.#redo, this.#undo);
  }

  select(id) {
    this.place = null;
    if (id === this.selected) return;
    this.selected = id;
    this.dispatchEvent(new Event("select"));
  }

  #travel(from, to) {
    const step = from.pop();
    if (!step) return false;
    to.push({ ...this.state, selected: this.selected });
    this.#lastMerge = { key: null, at: 0 };
    const { selected, ...state } = step;
    this.selected = selected;
    this.#set(state);
    this.dispatchEvent(new Event("select"));
    return true;
  }

  #set(state) {
    this.state = state;
    this.dispatchEvent(new Event("change"));
  }
}
