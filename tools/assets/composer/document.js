// Pure functions over block documents. A document never changes; each function returns a new one that shares its
// unchanged blocks, so that undo keeps references and the canvas sees what changed.

/** The lists of blocks inside a block, as [slot, blocks]. */
export function listsOf(block) {
  if (block.type === "columns") return (block.columns ?? []).map((column, index) => [String(index), column.blocks ?? []]);
  if (block.type === "condition") return block.otherwise ? [["blocks", block.blocks ?? []], ["otherwise", block.otherwise]] : [["blocks", block.blocks ?? []]];
  if (block.type === "repeat") return [["blocks", block.blocks ?? []]];
  return [];
}

function withList(block, slot, blocks) {
  if (block.type !== "columns") return { ...block, [slot]: blocks };
  return { ...block, columns: block.columns.map((column, index) => (String(index) === slot ? { ...column, blocks } : column)) };
}

/** Yield every block with its place: `{ block, parent, slot, index, list, ancestors }`. */
export function* walk(document, blocks = document.blocks, parent = null, slot = "blocks", ancestors = []) {
  for (const [index, block] of blocks.entries()) {
    yield { block, parent, slot, index, list: blocks, ancestors };
    for (const [name, inner] of listsOf(block)) yield* walk(document, inner, block, name, [...ancestors, block]);
  }
}

export function find(document, id) {
  for (const place of walk(document)) if (place.block.id === id) return place;
  return null;
}

/** Replace the list `slot` of the block `parentId` (null: of the document) by `change(list)`. */
function changeList(document, parentId, slot, change) {
  if (parentId === null) return { ...document, blocks: change(document.blocks) };
  const inside = (blocks) => {
    let isChanged = false;
    const next = blocks.map((block) => {
      let result = block;
      for (const [name, inner] of listsOf(block)) {
        const changed = block.id === parentId && name === slot ? change(inner) : inside(inner);
        if (changed !== inner) result = withList(result, name, changed);
      }
      isChanged ||= result !== block;
      return result;
    });
    return isChanged ? next : blocks;
  };
  return { ...document, blocks: inside(document.blocks) };
}

export function updateBlock(document, id, values) {
  const place = find(document, id);
  if (!place) return document;
  const next = { ...place.block, ...values };
  for (const [key, value] of Object.entries(next)) if (value === undefined) delete next[key];
  return changeList(document, place.parent?.id ?? null, place.slot, (list) => list.map((block) => (block.id === id ? next : block)));
}

export function insertAt(document, { parent, slot, index }, blocks) {
  return changeList(document, parent, slot, (list) => [...list.slice(0, index), ...blocks, ...list.slice(index)]);
}

export function removeBlock(document, id) {
  const place = find(document, id);
  return place ? changeList(document, place.parent?.id ?? null, place.slot, (list) => list.filter((block) => block.id !== id)) : document;
}

/** Move a block to a place whose index is counted without the block itself. */
export function moveTo(document, id, place) {
  const { block } = find(document, id);
  return insertAt(removeBlock(document, id), place, [block]);
}

/** Return whether blocks may be put into the block `parentId`: there are no columns inside columns. */
export function mayContain(document, parentId, blocks) {
  if (parentId === null) return true;
  const place = find(document, parentId);
  if (!place || place.block.locked || place.ancestors.some((each) => each.locked)) return false;
  const isInColumns = [place.block, ...place.ancestors].some((each) => each.type === "columns");
  return !isInColumns || ![...walk({ blocks })].some(({ block }) => block.type === "columns");
}

/** The place one step up or down, into and out of containers, or null at the end of the email. */
export function stepFrom(document, id, step) {
  const { block, parent, slot, index, list } = find(document, id);
  const here = parent?.id ?? null;
  const next = list[index + step];
  if (next) {
    const lists = listsOf(next).filter(() => mayContain(document, next.id, [block]));
    if (lists.length) {
      const [name, inner] = step > 0 ? lists[0] : lists.at(-1);
      return { parent: next.id, slot: name, index: step > 0 ? 0 : inner.length };
    }
    return { parent: here, slot, index: index + step };
  }
  if (!parent) return null;
  const slots = listsOf(parent);
  const beside = slots[slots.findIndex(([name]) => name === slot) + step];
  if (beside) return { parent: parent.id, slot: beside[0], index: step > 0 ? 0 : beside[1].length };
  const outer = find(document, parent.id);
  return { parent: outer.parent?.id ?? null, slot: outer.slot, index: outer.index + (step > 0 ? 1 : 0) };
}

/** A locked block can neither be changed, moved nor deleted, and neither can the blocks inside it; slots keep their field. */
export function isLocked(document, id) {
  const place = find(document, id);
  return Boolean(place && (place.block.locked || place.ancestors.some((each) => each.locked)));
}

export function isFixed(document, id) {
  return find(document, id)?.block.type === "slot" || isLocked(document, id);
}

/** Copy blocks with new ids, so that ids stay unique in the document. */
export function renew(document, blocks) {
  const taken = new Set([...walk(document)].map(({ block }) => block.id));
  const copy = (block) => {
    const made = { ...block, id: newId(taken) };
    return listsOf(made).reduce((result, [slot, inner]) => withList(result, slot, inner.map(copy)), made);
  };
  return blocks.map(copy);
}

export function newId(taken = new Set()) {
  for (;;) {
    const id = `b${Math.random().toString(36).slice(2, 8)}`;
    if (!taken.has(id)) {
      taken.add(id);
      return id;
    }
  }
}
