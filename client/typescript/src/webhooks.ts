/** Verify that a request to your webhook comes from your Mailwright. */

import { MailwrightError } from "./errors.js";

/** The body of a webhook request. The manual lists the types and their metadata. */
export interface WebhookEvent {
  /** The same in each attempt: process an id once. */
  readonly id: string;
  readonly webhookId: string;
  readonly type: string;
  readonly createdAt: string;
  readonly message: {
    readonly outboxId: string;
    readonly to: string;
    readonly recipientId: string | null;
    readonly externalId: string | null;
    readonly requestId: string;
    readonly source: string;
    readonly listKey: string | null;
  } | null;
  readonly contact: { readonly contactId: string; readonly email: string } | null;
  readonly campaign: { readonly campaignId: string; readonly name: string } | null;
  readonly metadata: Readonly<Record<string, unknown>>;
}

export interface WebhookOptions {
  /** The largest difference between your clock and the time of the signature. */
  toleranceSeconds?: number;
  now?: Date;
}

/** The request is not a genuine one, or too old. Answer 400 and process nothing. */
export class WebhookInvalid extends MailwrightError {}

/**
 * Return the event of a genuine request. `header` is the value of `Mailwright-Signature`, and `body` is what arrived,
 * not parsed JSON that was written again. During the rotation of a secret, pass the new one and the old one.
 */
export async function verifyWebhook(
  secret: string | readonly string[],
  header: string | null | undefined,
  body: string | Uint8Array,
  options: WebhookOptions = {},
): Promise<WebhookEvent> {
  const parts = (header ?? "").split(",").map((part) => part.trim().split("=", 2) as [string, string?]);
  const times = parts.filter(([name]) => name === "t").map(([, value]) => value ?? "");
  const [time] = times;
  if (time === undefined || times.length > 1 || !/^\d{1,12}$/.test(time)) {
    throw new WebhookInvalid("The header Mailwright-Signature is missing or malformed.");
  }
  const now = (options.now ?? new Date()).getTime() / 1000;
  if (Math.abs(now - Number(time)) > (options.toleranceSeconds ?? 300)) {
    throw new WebhookInvalid("The signature is too old, or a clock is wrong.");
  }
  const content = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const signed = new Uint8Array([...new TextEncoder().encode(`${time}.`), ...content]);
  const signatures = parts.flatMap(([name, value]) => (name === "v1" ? (bytesOf(value ?? "") ?? []) : []));
  for (const each of typeof secret === "string" ? [secret] : secret) {
    const key = await importKey(each);
    for (const signature of signatures) {
      if (await crypto.subtle.verify("HMAC", key, signature, signed)) return parse(content);
    }
  }
  throw new WebhookInvalid("The signature does not match the secret and the body.");
}

function importKey(secret: string): Promise<CryptoKey> {
  const usages: KeyUsage[] = ["verify"];
  return crypto.subtle.importKey("raw", new TextEncoder().encode(secret), { name: "HMAC", hash: "SHA-256" }, false, usages);
}

function bytesOf(hexadecimal: string): Uint8Array<ArrayBuffer> | null {
  if (!/^[0-9a-f]{64}$/.test(hexadecimal)) return null;
  return Uint8Array.from({ length: 32 }, (_, at) => parseInt(hexadecimal.slice(2 * at, 2 * at + 2), 16));
}

function parse(content: Uint8Array): WebhookEvent {
  return JSON.parse(new TextDecoder().decode(content)) as WebhookEvent;
}
