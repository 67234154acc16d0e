// Many at once: one button ticks every line of the page, and takes the ticks away again.
for (const form of document.querySelectorAll("form[data-ticks]")) {
  const button = form.querySelector("[data-tick-all]");
  const boxes = [...form.querySelectorAll('input[type="checkbox"]')];
  if (!button || boxes.length < 2) continue;
  button.hidden = false;
  const show = () => {
    button.textContent = boxes.every((box) => box.checked) ? "Tick none" : "Tick all on this page";
  };
  button.addEventListener("click", () => {
    const isOn = !boxes.every((box) => box.checked);
    for (const box of boxes) box.checked = isOn;
    show();
  });
  form.addEventListener("change", show);
  show();
}
