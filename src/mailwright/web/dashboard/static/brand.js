// The brand kit: preview and contrast follow the form, and a chosen logo is uploaded at once.

const form = document.querySelector("[data-brand]");
const frame = document.querySelector("[data-preview]");
let scheme = "light";
let timer;

function show() {
  const fields = new FormData(form);
  for (const name of ["logo", "form_token"]) fields.delete(name);
  fields.set("scheme", scheme);
  const query = new URLSearchParams(fields).toString();
  frame.src = `/settings/brand/preview?${query}`;
  htmx.ajax("GET", `/settings/brand/contrast?${query}`, "#contrast");
}

function showSoon() {
  clearTimeout(timer);
  timer = setTimeout(show, 350);
}

form.addEventListener("input", ({ target }) => {
  const picker = form.querySelector(`[data-picker="${target.id}"]`);
  if (target.dataset.picker) form.elements[target.dataset.picker].value = target.value;
  else if (picker && /^#[0-9a-f]{6}$/i.test(target.value)) picker.value = target.value;
  if (target.name !== "logo") showSoon();
});

for (const button of document.querySelectorAll("[data-scheme]")) {
  button.addEventListener("click", () => {
    scheme = button.dataset.scheme;
    for (const each of document.querySelectorAll("[data-scheme]")) each.setAttribute("aria-pressed", String(each === button));
    show();
  });
}

const logo = form.elements.logo;
const problem = document.getElementById("logo-error");
logo.addEventListener("change", async () => {
  const file = logo.files[0];
  if (!file) return;
  problem.hidden = true;
  const headers = { Accept: "application/json", "X-Form-Token": form.dataset.token, "X-File-Name": encodeURIComponent(file.name), "Content-Type": file.type || "application/octet-stream" };
  const response = await fetch("/images", { method: "POST", headers, body: file }).catch(() => null);
  const answer = await response?.json().catch(() => null);
  logo.value = "";
  if (!response?.ok) {
    problem.textContent = answer?.detail ?? t("The server cannot be reached. Try again in a moment.");
    problem.hidden = false;
    return;
  }
  form.elements.logo_url.value = answer.url;
  const shown = form.querySelector("[data-logo-preview]");
  shown.src = answer.previewUrl;
  shown.parentElement.hidden = false;
  show();
});
