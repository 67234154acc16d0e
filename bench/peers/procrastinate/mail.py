"""Runs in procrastinate's own environment: `mail.py enqueue` fills the queue, `mail.py work` works it off."""

import asyncio
import json
import os
import sys
from email.message import EmailMessage
from pathlib import Path

import aiosmtplib
import jinja2
import procrastinate

FOLDER = Path(os.environ["BENCH_JOB"])
JOB = json.loads((FOLDER / "job.json").read_text())
SUBJECT, TEXT = jinja2.Template(JOB["subject"]), jinja2.Template(JOB["text"])
HTML = jinja2.Template(JOB["html"], autoescape=True)
CONCURRENCY = int(os.environ["BENCH_CONCURRENCY"])

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ["BENCH_QUEUE_URL"], max_size=10))
idle: asyncio.Queue[aiosmtplib.SMTP] = asyncio.Queue()


@app.task(name="send", retry=3)
async def send(recipient: dict[str, str]) -> None:
    connection = await idle.get()
    try:
        if not connection.is_connected:
            await connection.connect()
        await connection.send_message(compose(recipient))
    finally:
        idle.put_nowait(connection)


def compose(recipient: dict[str, str]) -> EmailMessage:
    unsubscribe_url = JOB["unsubscribe_base"] + recipient["token"]
    values = {**recipient, "unsubscribe_url": unsubscribe_url}
    message = EmailMessage()
    message["From"] = JOB["sender"]
    message["To"] = recipient["email"]
    message["Subject"] = SUBJECT.render(values)
    message["List-Unsubscribe"] = f"<{unsubscribe_url}>"
    message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    message.set_content(TEXT.render(values))
    message.add_alternative(HTML.render(values), subtype="html")
    return message


async def enqueue() -> None:
    recipients = [json.loads(line) for line in (FOLDER / "recipients.jsonl").read_text().splitlines()]
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for start in range(0, len(recipients), 500):
            await send.batch_defer_async(*({"recipient": recipient} for recipient in recipients[start : start + 500]))


async def work() -> None:
    for _ in range(min(CONCURRENCY, 10)):
        port = int(os.environ["BENCH_SMTP_PORT"])
        idle.put_nowait(aiosmtplib.SMTP(hostname="127.0.0.1", port=port, use_tls=False, start_tls=False))
    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY)


if __name__ == "__main__":
    asyncio.run({"enqueue": enqueue, "work": work}[sys.argv[1]]())
