"""The email backend for Django, with the real Django and a real server."""

import asyncio
import os
import sys
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from mailwright.storage.database import Database
from mailwright.storage.tables import messages, raw_contents
from mailwright_client import Invalid, NotReached
from tests.contract.api.test_client import Served, served

pytest.importorskip("django", reason="Django is not installed")
from django import VERSION
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.mail import EmailMessage, EmailMultiAlternatives, get_connection

from tests.anymail_messages import configure_django

configure_django()

__all__ = ["served"]  # The fixture of the client's tests.


@pytest.fixture
def backend(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "MAILWRIGHT_URL", served.url, raising=False)
    monkeypatch.setattr(settings, "MAILWRIGHT_API_KEY", served.key, raising=False)


async def stored(database: Database) -> list[tuple[str, str, bytes]]:
    """Return recipient, subject and bytes of each message."""
    same = messages.c.content_digest == raw_contents.c.digest
    query = select(messages.c.to_email, messages.c.subject, raw_contents.c.content).join_from(
        messages, raw_contents, same
    )
    async with database.read() as tx:
        return [(row.to_email, row.subject, row.content) for row in await tx.execute(query.order_by(messages.c.id))]


def an_email(**changes: Any) -> EmailMultiAlternatives:
    fields = {"subject": "Größe", "body": "Hello\n.dot\n", "to": ["Ada <ada@example.com>"], **changes}
    email = EmailMultiAlternatives(**fields)
    email.attach_alternative("<p>Hello</p>", "text/html")
    email.attach("a.txt", "text", "text/plain")
    return email


@pytest.mark.promise("django-backend")
@pytest.mark.usefixtures("backend")
async def test_send_mail_stores_a_message_for_each_recipient(database: Database) -> None:
    email = an_email(cc=["bob@example.com"], bcc=["secret@example.com"], headers={"X-Mailwright-Tags": "welcome"})
    assert await asyncio.to_thread(email.send) == 1
    found = await stored(database)
    assert [(to, subject) for to, subject, _ in found] == [
        ("ada@example.com", "Größe"),
        ("bob@example.com", "Größe"),
        ("secret@example.com", "Größe"),
    ]
    [content] = {content for _, _, content in found}
    assert b"secret@example.com" not in content
    assert b"X-Mailwright" not in content
    parsed = message_from_bytes(content, policy=policy.default)
    assert parsed["From"] == "shop@example.com"
    assert [part.get_content_type() for part in parsed.walk() if not part.is_multipart()] == [
        "text/plain",
        "text/html",
        "text/plain",
    ]


@pytest.mark.usefixtures("backend")
async def test_many_emails_share_a_connection_and_are_counted(database: Database) -> None:
    def send() -> list[int]:
        with get_connection() as connection:
            emails = [an_email(to=[f"{number}@example.com"]) for number in range(3)]
            counts = [connection.send_messages(emails), connection.send_messages([])]
            return [*counts, connection.send_messages([an_email(to=[])])]

    assert await asyncio.to_thread(send) == [3, 0, 0]
    assert [to for to, _, _ in await stored(database)] == [f"{number}@example.com" for number in range(3)]


@pytest.mark.usefixtures("backend")
async def test_email_to_many_recipients_is_split(database: Database) -> None:
    many = [f"{number}@example.com" for number in range(201)]
    assert await asyncio.to_thread(an_email(to=many[:1], bcc=many[1:]).send) == 1
    assert [to for to, _, _ in await stored(database)] == many


@pytest.mark.usefixtures("backend")
async def test_email_with_the_same_message_id_is_stored_once(database: Database) -> None:
    email = EmailMessage("Hello", "Text", to=["ada@example.com"], headers={"Message-ID": "<7@example.com>"})
    email.extra_headers["Date"] = "Mon, 16 Nov 2026 10:00:00 +0000"
    assert [await asyncio.to_thread(email.send) for _ in range(2)] == [1, 1]
    assert len(await stored(database)) == 1


@pytest.mark.usefixtures("backend")
async def test_errors_are_raised_unless_silenced(database: Database) -> None:
    wrong = {"headers": {"X-Mailwright-Colour": "red"}}
    with pytest.raises(Invalid, match="X-Mailwright-Colour"):
        await asyncio.to_thread(an_email(**wrong).send)

    def send_silently() -> int:
        connection = get_connection(fail_silently=True)
        return int(connection.send_messages([an_email(**wrong), an_email()]))

    assert await asyncio.to_thread(send_silently) == 1
    assert len(await stored(database)) == 1


async def test_unreachable_server_and_missing_settings_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mailwright_client.client.Retries.delay", lambda *_arguments: None)
    connection = get_connection(url="http://127.0.0.1:1", api_key="mw_x")
    with pytest.raises(NotReached):
        await asyncio.to_thread(connection.send_messages, [an_email()])
    with pytest.raises(ImproperlyConfigured, match="MAILWRIGHT_URL"):
        get_connection()


NEEDS_MAILERS = pytest.mark.skipif(VERSION < (6, 1), reason="MAILERS needs Django 6.1, and that Python 3.12")


@pytest.mark.parametrize("name", ["project.py", pytest.param("mailers.py", marks=NEEDS_MAILERS)])
async def test_example_project_sends(served: Served, database: Database, name: str) -> None:
    example = Path(__file__).parents[3] / "examples" / "django" / name
    environment = {"MAILWRIGHT_URL": served.url, "MAILWRIGHT_API_KEY": served.key}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(example), "sendtestemail", "ada@example.com", env={**os.environ, **environment}
    )
    assert await asyncio.wait_for(process.wait(), 60) == 0
    assert [to for to, _, _ in await stored(database)] == ["ada@example.com"]
