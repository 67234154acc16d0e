// Runs before the first paint: apply the theme that was chosen in this browser.
{
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  document.documentElement.classList.add("has-scripts");
}
