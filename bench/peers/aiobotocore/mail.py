"""Runs in aiobotocore's own environment: `mail.py compose` writes the messages, `mail.py send` sends them."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import jinja2
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session

FOLDER = Path(os.environ["BENCH_JOB"])
CONCURRENCY = int(os.environ["BENCH_CONCURRENCY"])


def compose() -> None:
    """Write all messages to one file, each after a line with its recipient and its length."""
    job = json.loads((FOLDER / "job.json").read_text())
    subject, text = jinja2.Template(job["subject"]), jinja2.Template(job["text"])
    html = jinja2.Template(job["html"], autoescape=True)
    with (FOLDER / "recipients.jsonl").open() as lines, (FOLDER / "mails").open("wb") as emails:
        for line in lines:
            recipient = json.loads(line)
            unsubscribe_url = job["unsubscribe_base"] + recipient["token"]
            values = {**recipient, "unsubscribe_url": unsubscribe_url}
            message = EmailMessage(policy=policy.SMTP)
            message["From"] = job["sender"]
            message["To"] = recipient["email"]
            message["Subject"] = subject.render(values)
            message["List-Unsubscribe"] = f"<{unsubscribe_url}>"
            message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
            message.set_content(text.render(values))
            message.add_alternative(html.render(values), subtype="html")
            content = message.as_bytes()
            emails.write(f"{recipient['email']} {len(content)}\n".encode() + content)


def composed() -> Iterator[tuple[str, bytes]]:
    with (FOLDER / "mails").open("rb") as emails:
        while line := emails.readline():
            recipient, size = line.split()
            yield recipient.decode(), emails.read(int(size))


async def send() -> None:
    """Send without retries, as Mailwright does. The next request starts when one has a response."""
    config = AioConfig(retries={"total_max_attempts": 1}, max_pool_connections=CONCURRENCY)
    waiting = composed()
    async with get_session().create_client("sesv2", endpoint_url=os.environ["BENCH_SES_URL"], config=config) as client:
        await asyncio.gather(*(_work(client, waiting) for _ in range(CONCURRENCY)))


async def _work(client: Any, waiting: Iterator[tuple[str, bytes]]) -> None:
    for recipient, content in waiting:
        answer = await client.send_email(Destination={"ToAddresses": [recipient]}, Content={"Raw": {"Data": content}})
        assert answer["MessageId"]


if __name__ == "__main__":
    if sys.argv[1] == "compose":
        compose()
    else:
        asyncio.run(send())
