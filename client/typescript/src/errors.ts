/** Errors of a call. Programs branch on the class and on `code`; people read the message. */

/** One invalid field, under its JSON name. */
export interface FieldProblem {
  readonly field: string;
  readonly code: string;
  readonly message: string;
}

/** A call did not succeed. */
export class MailwrightError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No complete response arrived, so it is unknown whether the server received the request. */
export class NotReached extends MailwrightError {}

/** The API returned an error. `code` is stable; `requestId` identifies the request in the server's log. */
export class ApiError extends MailwrightError {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly errors: readonly FieldProblem[] = [],
    readonly requestId: string | null = null,
    readonly retryAfterSeconds: number | null = null,
  ) {
    super(`${code}: ${detail}`);
  }
}

/** The API key is missing, unknown or revoked. */
export class Unauthorized extends ApiError {}

/** The API key lacks the required scope. */
export class Forbidden extends ApiError {}

/** Nothing with this id exists in this tenant. */
export class NotFound extends ApiError {}

/** The current state does not allow this, or the idempotency key was used with a different body. */
export class Conflict extends ApiError {}

/** The request is invalid; `errors` lists each field with its problem. */
export class Invalid extends ApiError {}

/** The server is busy or cannot store anything. The request had no effect. */
export class Unavailable extends ApiError {}

const CLASSES: Readonly<Record<number, typeof ApiError>> = {
  400: Invalid,
  401: Unauthorized,
  403: Forbidden,
  404: NotFound,
  409: Conflict,
  413: Invalid,
  415: Invalid,
  422: Invalid,
  429: Unavailable,
  503: Unavailable,
};

/** Build the error from a problem document (RFC 9457), or from any other body that arrived instead. */
export function errorOf(response: Response, body: string): ApiError {
  const problem = read(body);
  const errors = Array.isArray(problem["errors"]) ? problem["errors"].map(field) : [];
  return new (CLASSES[response.status] ?? ApiError)(
    response.status,
    text(problem["code"]) || `HTTP_${response.status}`,
    text(problem["detail"]) || "The response did not come from Mailwright.",
    errors,
    response.headers.get("x-request-id"),
    seconds(response.headers.get("retry-after")),
  );
}

function read(body: string): Record<string, unknown> {
  try {
    const found: unknown = JSON.parse(body);
    return typeof found === "object" && found !== null ? (found as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function field(error: unknown): FieldProblem {
  const given = (error ?? {}) as Record<string, unknown>;
  return { field: text(given["field"]), code: text(given["code"]), message: text(given["message"]) };
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function seconds(header: string | null): number | null {
  return header !== null && /^\d+$/.test(header) ? Number(header) : null;
}
