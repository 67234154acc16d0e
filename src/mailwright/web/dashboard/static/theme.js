// Before anything is drawn: the theme that was chosen on this machine, if one was.
{
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  document.documentElement.classList.add("has-scripts");
}
