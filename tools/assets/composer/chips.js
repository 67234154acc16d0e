// Variables as users see them: a chip with the name and what contacts without a value see instead.

export function labelOf(name) {
  return name.replaceAll("_", " ");
}

export function showChip({ name, fallback }) {
  const values = { variable: labelOf(name), fallback };
  const dom = document.createElement("span");
  dom.className = "c-chip";
  dom.dataset.variable = name;
  dom.dataset.fallback = fallback;
  dom.title = fallback ? t("{variable}, or “{fallback}” if a contact has none. Click to change it.", values) : t("{variable}. Click to set a text for contacts who have none.", values);
  dom.textContent = fallback ? t("{variable} or “{fallback}”", values) : values.variable;
  return dom;
}
