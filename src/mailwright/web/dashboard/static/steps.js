// The steps of a campaign: links of the error summary focus their fields, and unsaved changes are marked.

const summary = document.querySelector(".error-summary");
summary?.focus();

function focusField(name) {
  const target = document.getElementById(name);
  if (!target) return;
  for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  // Fields of content types that are not chosen are hidden.
  if (!target.offsetParent && !target.editor) return document.querySelector('[name="way"]:checked')?.focus();
  const field = target.matches("fieldset") ? target.querySelector("input") ?? target : target;
  (target.editor ?? field).focus();
  field.scrollIntoView({ block: "center" });
}
summary?.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (!link) return;
  event.preventDefault();
  focusField(decodeURIComponent(link.hash.slice(1)));
});
// A link of the pre-send check leads to a field of a step.
if (location.hash && !summary) focusField(decodeURIComponent(location.hash.slice(1)));

const step = document.querySelector("form[data-step]");
if (step) {
  let isChanged = Boolean(summary);
  const mark = step.querySelector("[data-unsaved]");
  step.addEventListener("input", () => {
    isChanged = true;
    mark.hidden = false;
  });
  step.addEventListener("submit", () => (isChanged = false));
  addEventListener("beforeunload", (event) => isChanged && event.preventDefault());
}
