// A button that selects or clears every checkbox of a form.
for (const form of document.querySelectorAll("form[data-select-all]")) {
  const button = form.querySelector("[data-select-all-button]");
  const boxes = [...form.querySelectorAll('input[type="checkbox"]')];
  if (!button || boxes.length < 2) continue;
  button.hidden = false;
  const show = () => {
    button.textContent = boxes.every((box) => box.checked) ? "Clear selection" : "Select all on this page";
  };
  button.addEventListener("click", () => {
    const isOn = !boxes.every((box) => box.checked);
    for (const box of boxes) box.checked = isOn;
    show();
  });
  form.addEventListener("change", show);
  show();
}
