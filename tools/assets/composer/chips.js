// Variables as users see them: a chip with the name and what contacts without a value see instead.

export function labelOf(name) {
  return name.replaceAll("_", " ");
}

export function showChip({ name, fallback }) {
  const dom = document.createElement("span");
  dom.className = "c-chip";
  dom.dataset.variable = name;
  dom.dataset.fallback = fallback;
  dom.title = fallback ? `${labelOf(name)}, or “${fallback}” if a contact has none. Click to change it.` : `${labelOf(name)}. Click to set what contacts without one see.`;
  dom.textContent = fallback ? `${labelOf(name)} or “${fallback}”` : labelOf(name);
  return dom;
}
