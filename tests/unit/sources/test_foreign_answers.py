"""Answers of Notion and Supabase with odd values are read, or refused with an error of the domain."""

from contextlib import suppress
from typing import Any, Final, cast

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import MailwrightError
from mailwright.providers.http import HttpClient, HttpResponse
from mailwright.sources.mailouts.notion import DataSource, Notion, read_content
from mailwright.sources.mailouts.rendering import render
from mailwright.sources.mailouts.supabase import LogLine, SubscriberStatus, Supabase
from tests.examples import examples
from tests.foreign import changed, to_json
from tests.standins.supabase import SECRET_KEY

ID: Final = "393abc1e-edcd-8104-9e45-de1cccb47ac5"
UNHURRIED: Final = settings(deadline=None, max_examples=examples(100), suppress_health_check=list(HealthCheck))
# More requests than any of the calls needs, so that endless reading fails.
MOST_REQUESTS: Final = 100


class Answering:
    """Stands in for the HTTP client, and returns these responses in turn."""

    def __init__(self, answers: list[tuple[int, bytes]]) -> None:
        self._answers = answers
        self._count = 0

    async def request(self, *_: Any, **_options: Any) -> HttpResponse:
        self._count += 1
        assert self._count < MOST_REQUESTS, "the answers are read endlessly"
        status, body = self._answers[self._count % len(self._answers)]
        return HttpResponse(status, [(b"Retry-After", b"soon")], body)


def answers(*samples: Any) -> st.SearchStrategy[Answering]:
    bodies = changed(*samples).map(to_json) | st.binary(max_size=20)
    found = st.lists(
        st.tuples(st.sampled_from([200, 200, 200, 201, 400, 404, 429, 500]), bodies), min_size=1, max_size=3
    )
    return found.map(Answering)


async def no_wait(_seconds: float) -> None:
    """Do not sleep in tests."""


TITLE: Final = [{"type": "text", "plain_text": "News", "text": {"content": "News"}, "annotations": {"bold": True}}]
PAGE: Final = {
    "object": "page",
    "id": ID,
    "in_trash": False,
    "last_edited_time": "2026-11-01T10:00:00.000Z",
    "parent": {"type": "data_source_id", "data_source_id": ID},
    "public_url": "https://notion.site/x",
    "properties": {
        "Name": {"type": "title", "title": TITLE},
        "Status": {"type": "status", "status": {"name": "Ready"}},
    },
}
SOURCE: Final = {
    "object": "data_source",
    "id": ID,
    "title": TITLE,
    "data_sources": [{"id": ID, "name": "Mailouts"}],
    "properties": {"Name": {"type": "title"}, "Status": {"type": "status", "status": {"options": [{"name": "Ready"}]}}},
}
IMAGE: Final = {
    "type": "image",
    "image": {"type": "file", "file": {"url": "https://s3.example/a.png"}, "caption": TITLE},
}
ROWS: Final = {"type": "table_row", "table_row": {"cells": [TITLE, TITLE]}}
BLOCKS: Final = [
    {"object": "block", "id": ID, "has_children": False, "type": "paragraph", "paragraph": {"rich_text": TITLE}},
    {"object": "block", "id": ID, "has_children": True, "type": "toggle", "toggle": {"rich_text": TITLE}},
    {"object": "block", "id": ID, "has_children": False, **IMAGE},
    {"object": "block", "id": ID, "has_children": False, **ROWS},
]
LISTED: Final = {"object": "list", "results": BLOCKS, "has_more": False, "next_cursor": None}
PAGES: Final = {"object": "list", "results": [PAGE], "has_more": True, "next_cursor": "next"}
REFUSED: Final = {"object": "error", "status": 400, "code": "validation_error", "message": "No", "request_id": ID}
ROW: Final = {"email": "ada@example.com", "status": "active", "from_name": "Ada", "lists": ["news"], "mailout_id": "m"}
ERROR: Final = {"code": "PGRST204", "message": "Could not find the column", "details": None, "hint": None}


@UNHURRIED
@given(http=answers(PAGE, SOURCE, LISTED, PAGES, REFUSED))
async def test_odd_answer_of_notion_is_read_or_refused(http: Answering) -> None:
    clock = ManualClock()
    notion = Notion(cast("HttpClient", http), "token", clock, sleep=_sleep_of(clock))
    source = DataSource(ID, "Mailouts", {"Name": "title", "Status": "status"})
    with suppress(MailwrightError):
        await notion.page(ID)
    with suppress(MailwrightError):
        await notion.data_source(ID)
    with suppress(MailwrightError):
        await notion.named_page(ID)
    with suppress(MailwrightError):
        assert all([page.id async for page in notion.query(source, where={})])
    with suppress(MailwrightError):
        blocks = await read_content(notion, ID)
        found = render(blocks, {})
        assert (found.html + found.text).encode() is not None
    with suppress(MailwrightError):
        await notion.update_page(ID, source, {"Name": "News"})


def _sleep_of(clock: ManualClock) -> Any:
    async def sleep(seconds: float) -> None:
        clock.advance(round(seconds * 1000) + 1)

    return sleep


@UNHURRIED
@given(http=answers([ROW], [ROW, {**ROW, "email": "Bob@example.com"}], [], ERROR))
@example(http=Answering([(200, b'[{"email":"a@example.com"}]'), (200, b'[{"email":"b@example.com"}]')]))
async def test_odd_answer_of_supabase_is_read_or_refused(http: Answering) -> None:
    supabase = Supabase(cast("HttpClient", http), "https://project.supabase.example", SECRET_KEY, sleep=no_wait)
    change = SubscriberStatus("ada@example.com", "unsubscribed", at=ManualClock().now())
    with suppress(MailwrightError):
        await supabase.probe()
    with suppress(MailwrightError):
        assert all([each.email async for page in supabase.active() for each in page])
    with suppress(MailwrightError):
        assert all([each.email async for page in supabase.inactive() for each in page])
    with suppress(MailwrightError):
        await supabase.update_status(change)
    with suppress(MailwrightError):
        await supabase.logged("m", ["ada@example.com"])
    with suppress(MailwrightError):
        await supabase.log("m", [LogLine("ada@example.com", "sent", None)])
