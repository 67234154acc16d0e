/** A typed client for the Mailwright HTTP API. It uses web standards only, so it also runs in browsers' and edge runtimes. */

export { type CallOptions } from "./call.js";
export { Client, type ClientOptions, type Retries } from "./client.js";
export {
  ApiError,
  Conflict,
  type FieldProblem,
  Forbidden,
  Invalid,
  MailwrightError,
  NotFound,
  NotReached,
  Unauthorized,
  Unavailable,
} from "./errors.js";
export type * as models from "./models.js";
export { type WebhookEvent, WebhookInvalid, type WebhookOptions, verifyWebhook } from "./webhooks.js";
