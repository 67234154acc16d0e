// The API reference: search while typing, one language at a time, and requests that the reader tries.

const LANGUAGE_KEY = "reference-language";
const API_KEY = "reference-api-key";
const SHOWN_CHARACTERS = 100_000;

// On a small screen, the groups stay closed until somebody wants them.
if (matchMedia("(max-width: 48rem)").matches) document.querySelector("nav details").open = false;

// Search. The server answers the same search after Enter.
const rows = [...document.querySelectorAll("[data-words]")];
document.querySelector("[role=search] input").addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of rows) row.hidden = !words.every((word) => row.dataset.words.includes(word));
  for (const group of document.querySelectorAll("[data-group]")) group.hidden = !group.querySelector("[data-words]:not([hidden])");
  const number = rows.filter((row) => !row.hidden).length;
  if (rows.length) document.getElementById("found").textContent = `${number} operation${number === 1 ? "" : "s"}`;
});

// Languages.
for (const code of document.querySelectorAll("[data-code]")) {
  const sections = [...code.querySelectorAll("[data-language]")];
  if (sections.length < 2) continue;
  const tabs = Object.assign(document.createElement("div"), { className: "tabs", role: "tablist" });
  for (const section of sections) {
    const name = section.dataset.language;
    const tab = Object.assign(document.createElement("button"), { type: "button", role: "tab", textContent: name });
    tab.addEventListener("click", () => choose(name));
    section.role = "tabpanel";
    section.ariaLabel = name;
    tabs.append(tab);
  }
  const copy = Object.assign(document.createElement("button"), { type: "button", className: "copy", textContent: "Copy" });
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(sections.find((section) => !section.hidden).querySelector("code").textContent);
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy"), 2000);
  });
  tabs.append(copy);
  code.prepend(tabs);
  code.classList.add("has-tabs");
}

function choose(language) {
  localStorage.setItem(LANGUAGE_KEY, language);
  for (const section of document.querySelectorAll("[data-language]")) {
    if (section.closest(".has-tabs")) section.hidden = section.dataset.language !== language;
  }
  for (const tab of document.querySelectorAll("[role=tab]")) tab.ariaSelected = String(tab.textContent === language);
}
choose(localStorage.getItem(LANGUAGE_KEY) ?? "curl");

// Requests.
const keyForm = document.querySelector("[data-key]");
const keyField = document.getElementById("api-key");
if (keyForm) {
  keyForm.hidden = false;
  keyField.value = sessionStorage.getItem(API_KEY) ?? "";
  keyField.addEventListener("input", () => sessionStorage.setItem(API_KEY, keyField.value.trim()));
  keyForm.addEventListener("submit", (event) => event.preventDefault());
}

for (const part of document.querySelectorAll("[data-try]")) {
  part.hidden = false;
  part.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    send(event.target);
  });
}

async function send(form) {
  const { verb, path, mediaType } = form.dataset;
  const problem = form.querySelector("[role=alert]");
  const exchange = form.querySelector(".exchange");
  const [sent, received] = exchange.querySelectorAll("pre");
  const key = sessionStorage.getItem(API_KEY) ?? "";
  const show = (text) => Object.assign(problem, { textContent: text, hidden: !text });
  show("");
  if (!key) {
    show("Enter an API key at the top of the page first.");
    keyField.focus();
    return;
  }
  const body = form.elements.body?.value ?? form.elements.file?.files[0];
  if (mediaType === "application/json" && !isJson(body)) return show("The body is not valid JSON.");
  if (verb === "DELETE" && !confirm(`Send DELETE ${path}? This deletes data.`)) return;
  const url = new URL(location.origin + path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(form.elements[name].value)));
  for (const field of form.querySelectorAll("[data-place=query]")) {
    if (field.value) url.searchParams.append(field.name, field.value);
  }
  const headers = { Authorization: `Bearer ${key}` };
  if (mediaType) headers["Content-Type"] = body instanceof File && body.type ? body.type : mediaType;
  const shownHeaders = Object.entries({ ...headers, Authorization: `Bearer ${key.slice(0, 6)}…` }).map(([name, value]) => `${name}: ${value}`);
  sent.textContent = [`${verb} ${url.pathname}${url.search}`, ...shownHeaders, ...(body instanceof File ? ["", `(${body.name})`] : body ? ["", body] : [])].join("\n");
  received.textContent = "Waiting …";
  exchange.hidden = false;
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const response = await fetch(url, { method: verb, headers, body: mediaType ? body : undefined, redirect: "error" });
    const text = await response.text();
    const content = isJson(text) ? JSON.stringify(JSON.parse(text), null, 2) : text;
    const id = response.headers.get("X-Request-Id");
    received.textContent = [`${response.status} ${response.statusText}`, ...(id ? [`X-Request-Id: ${id}`] : []), "", content.slice(0, SHOWN_CHARACTERS)].join("\n");
  } catch (error) {
    received.textContent = `No response: ${error.message}`;
  } finally {
    button.disabled = false;
  }
}

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
