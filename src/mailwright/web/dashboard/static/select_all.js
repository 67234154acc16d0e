// A button that selects or clears every checkbox of a form, the number of selected ones, and the actions for them.
for (const form of document.querySelectorAll("form[data-select-all]")) {
  const button = form.querySelector("[data-select-all-button]");
  const boxes = [...form.elements].filter((each) => each.type === "checkbox");
  const number = form.querySelector("[data-selected]");
  const actions = form.querySelector("[data-for-selected]");
  const show = () => {
    const count = boxes.filter((box) => box.checked).length;
    if (button) {
      button.hidden = boxes.length < 2;
      button.textContent = count === boxes.length ? t("Clear selection") : t("Select all on this page");
    }
    if (number) number.textContent = count ? t("{count} selected", { count }) : "";
    if (actions) actions.hidden = !count;
    for (const each of form.querySelectorAll("[data-counts]")) {
      const word = each.dataset.counts;
      each.dataset.question ??= each.dataset.confirm;
      each.dataset.confirm = each.dataset.question.replace("{count}", LANGUAGE === "en" ? `${count} ${word}${count === 1 ? "" : "s"}` : count);
    }
  };
  button?.addEventListener("click", () => {
    const isOn = !boxes.every((box) => box.checked);
    for (const box of boxes) box.checked = isOn;
    show();
  });
  for (const box of boxes) box.addEventListener("change", show);
  addEventListener("pageshow", show);
  show();
}
