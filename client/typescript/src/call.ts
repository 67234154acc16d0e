/** One request to the API as a value. */

import { MailwrightError } from "./errors.js";

export interface Call {
  method: string;
  path: string;
  reads: "json" | "bytes" | "nothing";
  query?: object;
  /** Sent as JSON. */
  body?: unknown;
  content?: Uint8Array | ArrayBuffer | Blob | string;
  contentType?: string;
  /** Whether the API accepts an idempotency key once, so that the call can be repeated. */
  takesKey?: boolean;
}

export interface CallOptions {
  /** Ends the call, also while it waits for another attempt. */
  signal?: AbortSignal | null;
}

export type Send = (call: Call, options: CallOptions & { idempotencyKey?: string }) => Promise<unknown>;

/** Fill in ids, encoded so that each stays one segment of the path. */
export function path(template: string, ...values: string[]): string {
  const waiting = [...values];
  return template.replace(/\{\}/g, () => {
    const value = waiting.shift() ?? "";
    // Servers and URL parsers would take such a segment away, and the call would reach another address.
    if (["", ".", ".."].includes(value)) throw new MailwrightError(`"${value}" is not an id.`);
    return encodeURIComponent(value);
  });
}
