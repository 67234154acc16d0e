// Works the queue off: compose with nodemailer, send over its pool.
import { readFileSync } from "node:fs";
import { Worker } from "bullmq";
import Handlebars from "handlebars";
import IORedis from "ioredis";
import nodemailer from "nodemailer";

const job = JSON.parse(readFileSync(`${process.env.BENCH_JOB}/job.json`, "utf8"));
const subject = Handlebars.compile(job.subject, { noEscape: true });
const text = Handlebars.compile(job.text, { noEscape: true });
const html = Handlebars.compile(job.html);

const transport = nodemailer.createTransport({
  pool: true,
  maxConnections: 10,
  maxMessages: Infinity, // the default reconnects after 100 mails
  host: "127.0.0.1",
  port: Number(process.env.BENCH_SMTP_PORT),
  secure: false,
  ignoreTLS: true,
});

async function send({ data }) {
  if (data.html) {
    await transport.sendMail({ from: job.sender, to: data.email, subject: data.subject, html: data.html });
    return;
  }
  const unsubscribe_url = job.unsubscribe_base + data.token;
  const values = { ...data, unsubscribe_url };
  await transport.sendMail({
    from: job.sender,
    to: data.email,
    subject: subject(values),
    text: text(values),
    html: html(values),
    headers: {
      "List-Unsubscribe": `<${unsubscribe_url}>`,
      "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    },
  });
}

const worker = new Worker("mail", send, {
  connection: new IORedis(process.env.BENCH_QUEUE_URL, { maxRetriesPerRequest: null }),
  concurrency: Number(process.env.BENCH_CONCURRENCY),
});
worker.on("failed", (failed, error) => console.error(error));
worker.on("error", (error) => console.error(error));
