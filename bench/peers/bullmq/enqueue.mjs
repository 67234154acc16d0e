// Fills the queue: one job per recipient, in bulk.
import { readFileSync } from "node:fs";
import { Queue } from "bullmq";
import IORedis from "ioredis";

const connection = new IORedis(process.env.BENCH_QUEUE_URL, { maxRetriesPerRequest: null });
const queue = new Queue("mail", { connection });
const lines = readFileSync(`${process.env.BENCH_JOB}/recipients.jsonl`, "utf8").trim().split("\n");
const job = JSON.parse(readFileSync(`${process.env.BENCH_JOB}/job.json`, "utf8"));

function receipt(number, line) {
  return {
    email: JSON.parse(line).email,
    subject: job.receipt_subject.replaceAll("@@", number),
    html: job.receipt.replaceAll("@@", number),
  };
}

for (let start = 0; start < lines.length; start += 500) {
  const chunk = lines.slice(start, start + 500).map((line, index) => ({
    name: "send",
    data: process.env.BENCH_RECEIPTS ? receipt(String(start + index), line) : JSON.parse(line),
  }));
  await queue.addBulk(chunk);
}
await queue.close();
await connection.quit();
