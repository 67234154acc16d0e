// Fills the queue: one job per recipient, in bulk.
import { readFileSync } from "node:fs";
import { Queue } from "bullmq";
import IORedis from "ioredis";

const connection = new IORedis(process.env.BENCH_QUEUE_URL, { maxRetriesPerRequest: null });
const queue = new Queue("mail", { connection });
const lines = readFileSync(`${process.env.BENCH_JOB}/recipients.jsonl`, "utf8").trim().split("\n");
for (let start = 0; start < lines.length; start += 500) {
  const chunk = lines.slice(start, start + 500).map((line) => ({ name: "send", data: JSON.parse(line) }));
  await queue.addBulk(chunk);
}
await queue.close();
await connection.quit();
