/** The client: addresses, timeouts, retries. */

import type { Call, CallOptions } from "./call.js";
import { ApiError, errorOf, MailwrightError, NotReached, Unavailable } from "./errors.js";
import { Operations } from "./operations.js";

/** Number of attempts and the delays between them. Only calls that are safe to repeat are retried. */
export interface Retries {
  attempts: number;
  firstSeconds: number;
  /** If the server asks for a longer wait than this, the error is thrown with its `retryAfterSeconds`. */
  longestSeconds: number;
}

export interface ClientOptions {
  /** `{ attempts: 1 }` turns retries off. */
  retries?: Partial<Retries>;
  /** For each attempt. */
  timeoutSeconds?: number;
  /** Another implementation of `fetch`, for example one with a proxy. */
  fetch?: typeof fetch;
  /** Waits between attempts. */
  sleep?: (seconds: number, signal: AbortSignal | null) => Promise<void>;
}

const RETRIES: Retries = { attempts: 4, firstSeconds: 0.5, longestSeconds: 30 };
const TIMEOUT_SECONDS = 30;
// Node's codes of failures before anything was sent, so any call can be repeated after them.
const NOTHING_SENT = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"];

type Options = CallOptions & { idempotencyKey?: string };

/** `const client = new Client("https://mail.example.com", key); await client.email.send({ … });` */
export class Client extends Operations {
  constructor(url: string, key: string, options: ClientOptions = {}) {
    const requests = new Requests(url, key, options);
    super((call, given) => requests.send(call, given));
  }
}

class Requests {
  readonly #url: string;
  readonly #key: string;
  readonly #retries: Retries;
  readonly #timeoutSeconds: number;
  readonly #fetch: typeof fetch;
  readonly #sleep: (seconds: number, signal: AbortSignal | null) => Promise<void>;

  constructor(url: string, key: string, options: ClientOptions) {
    this.#url = url.replace(/\/+$/, "");
    this.#key = key;
    this.#retries = { ...RETRIES, ...options.retries };
    this.#timeoutSeconds = options.timeoutSeconds ?? TIMEOUT_SECONDS;
    this.#fetch = options.fetch ?? ((...request) => fetch(...request));
    this.#sleep = options.sleep ?? sleep;
  }

  async send(call: Call, options: Options): Promise<unknown> {
    const request = this.#request(call, options);
    const signal = options.signal ?? null;
    for (let attempt = 1; ; attempt++) {
      signal?.throwIfAborted();
      try {
        return await this.#attempt(call, request, signal);
      } catch (error) {
        signal?.throwIfAborted();
        const delay = this.#delay(call, error, attempt);
        if (delay === null) throw error;
        await this.#sleep(delay, signal);
      }
    }
  }

  /** Build the request once per call, so that every attempt has the same idempotency key. */
  #request(call: Call, options: Options): { url: string; init: RequestInit } {
    const headers = new Headers({ Authorization: `Bearer ${this.#key}`, Accept: "application/json, */*" });
    const isJson = call.body !== undefined;
    if (isJson) headers.set("Content-Type", "application/json");
    if (call.contentType !== undefined) headers.set("Content-Type", call.contentType);
    if (call.takesKey) headers.set("Idempotency-Key", options.idempotencyKey ?? crypto.randomUUID());
    const body = isJson ? JSON.stringify(call.body) : (call.content as BodyInit | undefined);
    // Redirects are not followed: they would send the API key to another host.
    const init: RequestInit = { method: call.method, headers, body: body ?? null, redirect: "manual" };
    return { url: `${this.#url}${call.path}${queryString(call.query ?? {})}`, init };
  }

  async #attempt(
    call: Call,
    { url, init }: { url: string; init: RequestInit },
    signal: AbortSignal | null,
  ): Promise<unknown> {
    const timeout = AbortSignal.timeout(this.#timeoutSeconds * 1000);
    let response: Response;
    let body: ArrayBuffer;
    try {
      response = await this.#fetch(url, { ...init, signal: signal ? AbortSignal.any([signal, timeout]) : timeout });
      body = await response.arrayBuffer();
    } catch (error) {
      // The query may contain addresses of people.
      throw new NotReached(`${url.split("?")[0]}: ${reasonOf(error)}`, { cause: error });
    }
    if (response.ok && call.reads === "bytes") return new Uint8Array(body);
    if (response.ok && call.reads === "nothing") return undefined;
    const text = new TextDecoder().decode(body);
    if (!response.ok) throw errorOf(response, text);
    try {
      return JSON.parse(text) as unknown;
    } catch {
      throw new ApiError(response.status, `HTTP_${response.status}`, "The response did not come from Mailwright.");
    }
  }

  /** Return the delay, or null to throw the error. The API answers 429 or 503 only if it has stored nothing. */
  #delay(call: Call, error: unknown, attempt: number): number | null {
    const { attempts, firstSeconds, longestSeconds } = this.#retries;
    const asked = error instanceof Unavailable ? (error.retryAfterSeconds ?? 0) : 0;
    if (attempt >= attempts || asked > longestSeconds || !canRepeat(call, error)) return null;
    // Jitter spreads clients that failed together.
    const own = Math.min(firstSeconds * 2 ** (attempt - 1), longestSeconds) * (0.5 + Math.random() / 2);
    return Math.max(own, asked);
  }
}

function canRepeat(call: Call, error: unknown): boolean {
  if (error instanceof Unavailable) return true;
  if (!(error instanceof NotReached)) return false;
  return call.method === "GET" || call.takesKey === true || NOTHING_SENT.includes(codeOf(error.cause));
}

/** Return the code of the operating system, which some runtimes put into the cause of the error. */
function codeOf(error: unknown): string {
  const cause = (error as { cause?: { code?: unknown } } | null)?.cause;
  return typeof cause?.code === "string" ? cause.code : "";
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return [error.name, codeOf(error) || error.message].join(": ");
}

function queryString(query: object): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query) as [string, unknown][]) {
    for (const each of Array.isArray(value) ? (value as unknown[]) : [value]) {
      if (each !== undefined && each !== null) found.append(name, each instanceof Date ? each.toISOString() : String(each));
    }
  }
  return found.size > 0 ? `?${found}` : "";
}

function sleep(seconds: number, signal: AbortSignal | null): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason instanceof Error ? signal.reason : new MailwrightError("The call was aborted."));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, seconds * 1000);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
