"""Copies and templates together, from the request to the mailbox."""

from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

import pytest

from mailwright.app.wiring import make_worker, open_engine
from mailwright.audience import suppressions
from mailwright.ops.settings import load
from tests.builders import a_message
from tests.conftest import DatabaseAddress


async def delivered(
    place: DatabaseAddress, mailbox: Path, *, suppress: str | None = None, **payload: object
) -> EmailMessage:
    """Send this request and return the one email that arrives."""
    async with open_engine(load(database_url=place.url, mailbox=mailbox)) as engine:
        template = await engine.templates.put(
            1, "receipt", subject="Your {{ item }}", html="<p>{{ item }}</p>", text=None
        )
        if suppress:
            await suppressions.add(engine.database, engine.clock, 1, suppress, reason="asked", source="test")
        key = template.key if "variables" in payload else None
        to = "ada@example.com"
        await engine.acceptor.accept([a_message(to=to, template_key=key, payload={"to": to, **payload})])
        await (await make_worker(engine)).run(drain=True)
    [file] = (mailbox / "new").iterdir()
    message = message_from_bytes(file.read_bytes(), policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


@pytest.mark.promise("suppression-wins")
async def test_suppressed_address_gets_no_copy(engine: DatabaseAddress, tmp_path: Path) -> None:
    message = await delivered(
        engine,
        tmp_path / "box",
        suppress="Bob@example.com",
        subject="Hello",
        html="<p>Hello</p>",
        cc=["bob@example.com", "cleo@example.com"],
        bcc=["dan@example.com"],
    )
    assert message["Cc"] == "cleo@example.com"
    assert message["Delivered-To"] == "ada@example.com, cleo@example.com, dan@example.com"
    assert "Bcc" not in message


@pytest.mark.parametrize("copies", [{}, {"cc": ["cleo@example.com"]}])
async def test_template_is_rendered_with_and_without_copies(
    engine: DatabaseAddress, tmp_path: Path, copies: dict[str, list[str]]
) -> None:
    message = await delivered(engine, tmp_path / "box", variables={"item": "boat & oar"}, **copies)
    assert message["Subject"] == "Your boat & oar"
    html, text = message.get_body(("html",)), message.get_body(("plain",))
    assert html is not None
    assert text is not None
    assert html.get_content().strip() == "<p>boat &amp; oar</p>"
    assert "boat & oar" in text.get_content()


async def test_subject_of_the_request_overrides_the_template(engine: DatabaseAddress, tmp_path: Path) -> None:
    message = await delivered(engine, tmp_path / "box", variables={"item": "boat"}, subject="Another {{ subject }}")
    assert message["Subject"] == "Another {{ subject }}"
