"""Runs in Celery's own environment: the task, and as a program the filling of the queue."""

import json
import os
import smtplib
from email.message import EmailMessage
from functools import cache
from pathlib import Path

import jinja2
from celery import Celery

FOLDER = Path(os.environ["BENCH_JOB"])
JOB = json.loads((FOLDER / "job.json").read_text())
SUBJECT, TEXT = jinja2.Template(JOB["subject"]), jinja2.Template(JOB["text"])
HTML = jinja2.Template(JOB["html"], autoescape=True)

app = Celery("tasks", broker=os.environ["BENCH_QUEUE_URL"])
app.conf.task_ignore_result = True


@app.task(name="send", autoretry_for=(smtplib.SMTPException, OSError))
def send(recipient: dict[str, str]) -> None:
    try:
        connection().send_message(compose(recipient))
    except (smtplib.SMTPException, OSError):
        connection.cache_clear()
        raise


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


@cache
def connection() -> smtplib.SMTP:
    return smtplib.SMTP("127.0.0.1", int(os.environ["BENCH_SMTP_PORT"]))


if __name__ == "__main__":
    with (FOLDER / "recipients.jsonl").open() as lines:
        for line in lines:
            send.delay(json.loads(line))
