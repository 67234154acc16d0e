// Check the address of a link while it is typed. The server checks it again.

const SCHEMES = new Set(["http:", "https:", "mailto:", "tel:", "sms:"]);

/** Return what is wrong with an address, or "". Addresses with template code can only be checked in the preview. */
export function hrefProblem(text) {
  const href = text.trim();
  if (/\{\{|\{%/.test(href)) return "";
  if (!href || href === "https://" || href === "http://") return t("Enter an address, for example https://example.com.");
  let address;
  try {
    address = new URL(href);
  } catch {
    return t("Addresses begin with https://. Did you mean {address}?", { address: `https://${href.replace(/^\/+/, "")}` });
  }
  if (!SCHEMES.has(address.protocol)) return t("Use an address that begins with https://, http://, mailto:, tel: or sms:.");
  if (address.protocol.startsWith("http") && !/\.[a-z\d-]{2,}$|^localhost$|^[\d.]+$|^\[/i.test(address.hostname)) return t("{domain} is not a complete domain, such as example.com.", { domain: address.hostname });
  if (address.protocol === "mailto:" && !/^[^@\s]+@[^@\s]+$/.test(address.pathname)) return t("Enter an email address after mailto:.");
  return "";
}

/** Complete an address without a scheme, because people type example.com. */
export function completed(text) {
  const href = text.trim();
  if (/^[^\s@:/]+@[^\s@/]+\.[a-z]{2,}$/i.test(href)) return `mailto:${href}`;
  return /^[\w-]+(\.[\w-]+)+([/?#].*)?$/.test(href) ? `https://${href}` : href;
}
