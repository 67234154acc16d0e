// The TypeScript client against a running server, and against servers that fail. Run by tests/contract/api/test_typescript_client.py.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";
import * as mailwright from "mailwright-client";

const { Client, Conflict, Invalid, MailwrightError, NotFound, NotReached, Unauthorized, Unavailable } = mailwright;
const [url, key] = [process.env.MAILWRIGHT_URL, process.env.MAILWRIGHT_API_KEY];
const client = new Client(`${url}/`, key);
const email = { to: "ada@example.com", subject: "Hello", html: "<p>Hello</p>" };

test("a message is sent once per key, found, listed, explained and cancelled", async () => {
  const first = await client.email.send(email, { idempotencyKey: "order-7" });
  const again = await client.email.send(email, { idempotencyKey: "order-7" });
  assert.equal(first.outboxId, again.outboxId);
  await assert.rejects(client.email.send({ ...email, subject: "Other" }, { idempotencyKey: "order-7" }), Conflict);
  assert.notEqual((await client.email.send(email)).outboxId, first.outboxId);
  const { results } = await client.email.sendBatch({ messages: [email, email] });
  assert.deepEqual(results.map((each) => each.status), ["PENDING", "PENDING"]);
  assert.equal((await client.email.get(first.outboxId)).to, "ada@example.com");
  const { actions } = await client.email.explain(first.outboxId);
  assert.equal(actions[0].do, "cancel");
  assert.equal((await client.email.cancel(first.outboxId)).status, "CANCELLED");
});

test("a list is read page by page, also with filters and dates", async () => {
  for (let number = 0; number < 5; number++) await client.email.send({ ...email, to: "pages@example.com" });
  const query = { to: "pages@example.com", limit: 2, since: new Date(0) };
  assert.equal((await client.email.list(query)).messages.length, 2);
  const found = [];
  for await (const each of client.email.listAll(query)) found.push(each.outboxId);
  assert.equal(new Set(found).size, 5);
});

test("addresses, bytes and answers without a body work", async () => {
  const address = "ada+news/7@example.com";
  await client.contacts.put(address, { name: "Ada" });
  assert.equal((await client.contacts.get(address)).name, "Ada");
  await client.lists.create({ listKey: "news", name: "News" });
  await client.lists.subscribe("news", { email: address });
  assert.equal(await client.lists.archive("news"), undefined);
  const csv = await client.contacts.export();
  assert.ok(csv instanceof Uint8Array && new TextDecoder().decode(csv).includes(address));
  let report = await client.imports.begin("email\nbob@example.com\n", { tag: ["vip", "new"] }, { contentType: "text/csv" });
  while (report.finishedAt === null) report = await client.imports.get(report.importId);
  assert.deepEqual((await client.contacts.get("bob@example.com")).tags.toSorted(), ["new", "vip"]);
});

test("errors are classes with codes and fields", async () => {
  await assert.rejects(client.email.get("01a3185c-5000-7821-bce9-2b6f56f5eb18"), NotFound);
  const invalid = await client.email.send({ ...email, to: "nobody" }).catch((error) => error);
  assert.ok(invalid instanceof Invalid && invalid instanceof MailwrightError);
  assert.deepEqual([invalid.name, invalid.errors[0].field], ["Invalid", "to"]);
  assert.ok(invalid.requestId);
  const refused = await new Client(url, "mw_wrong").email.list().catch((error) => error);
  assert.ok(refused instanceof Unauthorized && refused.code === "UNAUTHORIZED");
});

test("an empty or relative id is refused before anything is sent", () => {
  for (const id of ["", ".", ".."]) assert.throws(() => client.contacts.erase(id), MailwrightError);
});

/** Serve the answers in turn, and return the requests. An answer is a function of the request and the response. */
async function serve(answers, work) {
  const requests = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    requests.push({ method: request.method, url: request.url, headers: request.headers, body: Buffer.concat(chunks) });
    answers[Math.min(requests.length, answers.length) - 1](response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    await work(`http://127.0.0.1:${server.address().port}`, requests);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const accepted = (response) => response.writeHead(202).end('{"outboxId": "1"}');
const answer = (status, headers = {}) => (response) => response.writeHead(status, headers).end('{"code": "BUSY", "detail": "Busy."}');
const cut = (response) => response.destroy();

/** Return a client that does not wait, and its waits in seconds. */
function impatient(at, options = {}) {
  const waits = [];
  return [new Client(at, key, { sleep: async (seconds) => void waits.push(seconds), ...options }), waits];
}

test("a busy server is asked again, never earlier than it wants", async () => {
  await serve([answer(503, { "Retry-After": "7" }), answer(429), accepted], async (at, requests) => {
    const [patient, waits] = impatient(at);
    assert.equal((await patient.email.send(email)).outboxId, "1");
    assert.ok(waits[0] >= 7 && waits[1] >= 0.5 && waits[1] <= 1);
    assert.equal(new Set(requests.map((each) => each.headers["idempotency-key"])).size, 1);
  });
});

test("a longer wait than allowed, and other errors, are thrown at once", async () => {
  await serve([answer(503, { "Retry-After": "31" })], async (at, requests) => {
    const error = await impatient(at)[0].email.send(email).catch((each) => each);
    assert.ok(error instanceof Unavailable && error.retryAfterSeconds === 31 && requests.length === 1);
  });
  await serve([answer(500)], async (at, requests) => {
    const error = await impatient(at)[0].email.list().catch((each) => each);
    assert.deepEqual([error.status, error.code, requests.length], [500, "BUSY", 1]);
  });
});

test("a cut connection repeats only what cannot happen twice", async () => {
  await serve([cut, accepted], async (at, requests) => {
    assert.equal((await impatient(at)[0].email.send(email)).outboxId, "1");
    assert.equal(requests.length, 2);
  });
  await serve([cut, accepted], async (at, requests) => {
    await assert.rejects(impatient(at)[0].campaigns.start("7"), NotReached);
    assert.equal(requests.length, 1);
  });
});

test("a refused connection repeats everything, and the error hides the query", async () => {
  let closed;
  await serve([accepted], async (at) => void (closed = at));
  const [patient, waits] = impatient(closed, { retries: { attempts: 3 } });
  const error = await patient.campaigns.start("7").catch((each) => each);
  assert.ok(error instanceof NotReached && waits.length === 2 && error.message.includes("ECONNREFUSED"));
  const search = await impatient(closed)[0].email.list({ to: "ada@example.com" }).catch((each) => each);
  assert.ok(!search.message.includes("ada"));
});

test("a silent server, a caller who gives up and a redirect end the call", async () => {
  await serve([() => {}], async (at) => {
    await assert.rejects(impatient(at, { timeoutSeconds: 0.05 })[0].email.list(), NotReached);
    const gone = new AbortController();
    const call = new Client(at, key).email.list({}, { signal: gone.signal });
    gone.abort();
    await assert.rejects(call, { name: "AbortError" });
  });
  await serve([answer(503)], async (at) => {
    const gone = new AbortController();
    const call = new Client(at, key, { retries: { firstSeconds: 60, longestSeconds: 60 } }).email.list({}, { signal: gone.signal });
    setTimeout(() => gone.abort(), 20);
    await assert.rejects(call, { name: "AbortError" });
  });
  await serve([answer(302, { Location: `${url}/v1/email` })], async (at, requests) => {
    const error = await impatient(at)[0].email.list().catch((each) => each);
    assert.deepEqual([error.status, requests.length], [302, 1]);
  });
  await serve([(response) => response.end("<html>")], async (at) => {
    await assert.rejects(impatient(at)[0].email.list(), { code: "HTTP_200" });
  });
});

const body = JSON.stringify({ id: "1", type: "bounce" });
const sign = (secret, time, content = body) => createHmac("sha256", secret).update(`${time}.${content}`).digest("hex");

test("only genuine and recent webhooks are accepted", async () => {
  const { verifyWebhook, WebhookInvalid } = mailwright;
  const now = Math.floor(Date.now() / 1000);
  const header = `t=${now},v1=${sign("whsec_new", now)},v1=${sign("whsec_old", now)}`;
  for (const secret of ["whsec_new", "whsec_old", ["whsec_other", "whsec_old"]]) {
    assert.equal((await verifyWebhook(secret, header, body)).type, "bounce");
    assert.equal((await verifyWebhook(secret, header, new TextEncoder().encode(body))).id, "1");
  }
  const old = now - 301;
  for (const [given, content] of [
    [header, `${body} `],
    [header.replaceAll("v1=", "v2="), body],
    [header.replace(`t=${now}`, `t=${now + 1}`), body],
    [`t=${now},t=${now},v1=${sign("whsec_new", now)}`, body],
    [`t=${old},v1=${sign("whsec_new", old)}`, body],
    [`t=-1,v1=${sign("whsec_new", "-1")}`, body],
    [`t=${now},v1=${sign("whsec_new", now).slice(2)}`, body],
    ["", body],
    [null, body],
  ]) {
    await assert.rejects(verifyWebhook("whsec_new", given, content), WebhookInvalid);
  }
  const options = { now: new Date((now + 400) * 1000), toleranceSeconds: 500 };
  assert.equal((await verifyWebhook("whsec_new", header, body, options)).id, "1");
});

test("a signature of the server is accepted", async () => {
  const { MAILWRIGHT_SIGNED: signed, MAILWRIGHT_SIGNED_BODY: content } = process.env;
  const event = await mailwright.verifyWebhook("whsec_server", signed, content, { toleranceSeconds: Infinity });
  assert.equal(event.type, "test");
});

test("the client needs only the web standards that edge runtimes have", async () => {
  const own = { process: globalThis.process, Buffer: globalThis.Buffer, global: globalThis.global };
  const hide = () => Object.keys(own).forEach((name) => delete globalThis[name]);
  const show = () => Object.assign(globalThis, own);
  // Node's own fetch needs them.
  const ownFetch = async (...request) => {
    show();
    const response = await fetch(...request);
    const content = await response.arrayBuffer();
    hide();
    return { ok: response.ok, status: response.status, headers: response.headers, arrayBuffer: async () => content };
  };
  hide();
  try {
    const edge = await import(`${import.meta.resolve("mailwright-client")}?edge`);
    const found = await new edge.Client(url, key, { fetch: ownFetch }).email.send(email);
    assert.equal(found.status, "PENDING");
  } finally {
    show();
  }
});
