// Forms with data-passkey ask the device for a passkey, and submit its answer in the field "credential".
const decode = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (each) => each.charCodeAt(0));
const encode = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
const withIds = (list) => (list ?? []).map((each) => ({ ...each, id: decode(each.id) }));

const askDevice = async ({ publicKey }) => {
  const options = { ...publicKey, challenge: decode(publicKey.challenge) };
  if (options.user) {
    options.user = { ...options.user, id: decode(options.user.id) };
    options.excludeCredentials = withIds(options.excludeCredentials);
    return navigator.credentials.create({ publicKey: options });
  }
  options.allowCredentials = withIds(options.allowCredentials);
  return navigator.credentials.get({ publicKey: options });
};

const toJson = ({ id, rawId, type, response }) => {
  const parts = {};
  for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (response[name]) parts[name] = encode(response[name]);
  }
  return JSON.stringify({ id, rawId: encode(rawId), type, response: parts, clientExtensionResults: {} });
};

const explain = (error) => {
  if (error.name === "NotAllowedError") return t("The device did not confirm in time, or you cancelled.");
  if (error.name === "InvalidStateError") return t("This device has a passkey for your account already.");
  if (error.name === "SecurityError") return t("Passkeys do not work at this address. Open Mailwright at its public URL.");
  return error.message || t("This did not work. Try again.");
};

const forms = window.PublicKeyCredential ? document.querySelectorAll("form[data-passkey]") : [];
for (const part of forms.length ? document.querySelectorAll("[data-passkey-part]") : []) part.hidden = false;
for (const form of forms) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    const problem = form.querySelector("[data-passkey-error]");
    problem.hidden = true;
    button.disabled = true;
    try {
      const answer = await fetch(form.dataset.passkey, { method: "POST", body: new URLSearchParams(new FormData(form)) });
      const content = await answer.json();
      if (!answer.ok) throw new Error(content.detail);
      form.elements.credential.value = toJson(await askDevice(content));
      form.submit();
    } catch (error) {
      problem.textContent = explain(error);
      problem.hidden = false;
      button.disabled = false;
    }
  });
}
