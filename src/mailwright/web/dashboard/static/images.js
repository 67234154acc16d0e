// The image library: upload by drop, paste or picker, and save alt texts in place.

const form = document.querySelector("[data-upload]");
const state = form?.querySelector("[data-upload-state]");

async function upload(file) {
  const headers = { Accept: "application/json", "X-Form-Token": form.dataset.token, "X-File-Name": encodeURIComponent(file.name), "Content-Type": file.type || "application/octet-stream" };
  const response = await fetch("/images", { method: "POST", headers, body: file });
  const answer = await response.json().catch(() => ({ detail: t("The server cannot be reached. Try again in a moment.") }));
  if (!response.ok) throw new Error(`${file.name}: ${answer.detail}`);
  return answer;
}

async function uploadAll(files) {
  if (!files.length || form.getAttribute("aria-busy") === "true") return;
  form.setAttribute("aria-busy", "true");
  state.classList.remove("is-bad");
  const stored = [];
  const problems = [];
  for (const [number, file] of files.entries()) {
    state.textContent = files.length === 1 ? t("Uploading {name} …", { name: file.name }) : t("Uploading {number} of {count} …", { number: number + 1, count: files.length });
    try {
      stored.push(await upload(file));
    } catch (error) {
      problems.push(error.message);
    }
  }
  form.removeAttribute("aria-busy");
  form.querySelector("input[type=file]").value = "";
  state.textContent = problems.join("\n");
  state.classList.toggle("is-bad", problems.length > 0);
  if (stored.length && !problems.length) location.assign(`/images?added=${encodeURIComponent(stored.at(-1).name)}`);
  else if (stored.length) state.textContent += `\n${t("{stored} of {count} images were uploaded. Reload the page to see them.", { stored: stored.length, count: files.length })}`;
}

if (form) {
  form.querySelector("input[type=file]").addEventListener("change", (event) => uploadAll([...event.target.files]));
  document.addEventListener("dragover", (event) => {
    if (![...event.dataTransfer.types].includes("Files")) return;
    event.preventDefault();
    form.classList.add("is-over");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) form.classList.remove("is-over");
  });
  document.addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    form.classList.remove("is-over");
    uploadAll([...event.dataTransfer.files]);
  });
  document.addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files];
    if (!files.length) return;
    event.preventDefault();
    uploadAll(files);
  });
}

// Ask for the alt text of a new image first.
const added = document.querySelector("[data-added]");
added?.scrollIntoView({ block: "nearest" });
added?.querySelector("input[name=alt]")?.focus();

document.addEventListener("input", ({ target }) => target.closest("[data-alt]")?.classList.add("is-changed"));
document.addEventListener("submit", async (event) => {
  const alt = event.target.closest("[data-alt]");
  if (!alt) return;
  event.preventDefault();
  const button = alt.querySelector("button");
  const fields = new URLSearchParams(new FormData(alt));
  const response = await fetch(alt.action, { method: "POST", headers: { Accept: "application/json" }, body: fields }).catch(() => null);
  if (!response?.ok) return alt.submit();
  alt.classList.remove("is-changed");
  alt.closest(".picture").querySelector("img").alt = fields.get("alt");
  alt.querySelector("input[name=alt]").focus();
  showMessage(t("Alt text saved."), "good");
  button.blur();
});
