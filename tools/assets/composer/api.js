// Requests of the composer. Every failure is one of a few kinds, because each needs another reaction.

export class RequestFailed extends Error {
  /** `kind`: offline, signIn, conflict, refused or failed. `body` is what the server answered, if anything. */
  constructor(kind, message, body = {}) {
    super(message);
    this.kind = kind;
    this.body = body;
  }
}

const KINDS = { 401: "signIn", 409: "conflict", 403: "refused", 404: "refused", 413: "refused", 422: "refused", 400: "refused", 415: "refused" };

export class Api {
  constructor(formToken) {
    this.formToken = formToken;
  }

  async send(method, path, body, { isRaw = false, headers = {} } = {}) {
    let response;
    try {
      response = await fetch(path, {
        method,
        headers: { Accept: "application/json", ...(body === undefined || isRaw ? {} : { "Content-Type": "application/json" }), "X-Form-Token": this.formToken, ...headers },
        body: body === undefined ? undefined : isRaw ? body : JSON.stringify(body),
        redirect: "manual",
      });
    } catch {
      throw new RequestFailed("offline", t("The server cannot be reached."));
    }
    // A redirect leads to the sign-in page.
    if (response.type === "opaqueredirect") throw new RequestFailed("signIn", t("Your session has ended."));
    const answer = await response.json().catch(() => ({}));
    if (response.ok) return answer;
    const reasons = (answer.errors ?? []).map((each) => each.message).filter(Boolean);
    throw new RequestFailed(KINDS[response.status] ?? "failed", reasons.join(" ") || answer.detail || answer.error || t("The server could not do this. Try again."), answer);
  }

  get(path) {
    return this.send("GET", path);
  }

  post(path, body) {
    return this.send("POST", path, body);
  }

  /** After the session expired and the user signed in again, requests need the token of the new session. */
  async renew() {
    const { formToken } = await this.get("/composer/session");
    this.formToken = formToken;
  }
}
