// Only compiled: what the types of the client allow, and what they refuse.
import { Client, type models, verifyWebhook } from "mailwright-client";

const client = new Client("https://mail.example.com", "key", { retries: { attempts: 1 }, timeoutSeconds: 5 });

export async function allowed(): Promise<void> {
  const accepted: models.AcceptedResponse = await client.email.send(
    { to: "ada@example.com", subject: "Hello", text: "Hello" },
    { idempotencyKey: "order-7", signal: new AbortController().signal },
  );
  const message = await client.email.get(accepted.outboxId);
  if (message.status === "SENT" || message.status === "A_STATUS_OF_A_NEWER_SERVER") return;
  for await (const each of client.contacts.listAll({ limit: 10 })) each.email.toLowerCase();
  const report: Uint8Array = await client.campaigns.reportCsv("id");
  report.byteLength.toFixed();
  (await verifyWebhook(["new", "old"], null, "")).message?.to.toLowerCase();
}

export async function refused(): Promise<void> {
  // @ts-expect-error: the subject is missing in the campaign
  await client.campaigns.create({ content: { body: "" }, lists: ["news"] });
  // @ts-expect-error: an unknown field
  await client.email.send({ to: "ada@example.com", subject: "Hello", text: "Hello", colour: "red" });
  // @ts-expect-error: the key belongs to calls that accept one
  await client.campaigns.start("id", { idempotencyKey: "order-7" });
  // @ts-expect-error: an id is text
  await client.email.get(7);
  // @ts-expect-error: a result is not changed
  (await verifyWebhook("secret", "", "")).id = "1";
}
