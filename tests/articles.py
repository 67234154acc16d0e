"""Articles for tests: slices of one article, recipients in Ohio, and runs."""

from typing import Any

from sqlalchemy import text

from mailwright.audience import contacts
from mailwright.audience.lists import GENERAL
from mailwright.audience.status import ContactStatusService
from mailwright.sources.articles.assembly import PublishStatus, Slice
from mailwright.sources.articles.runs import ArticleRun, ArticleRuns, RunRequest
from mailwright.sources.articles.slices import SliceStore
from mailwright.storage.database import Database
from tests.builders import DEFAULT_TENANT, Bench

KEY = "spring-vote"
TAG = "spring-2027"
BATCH = "7f9c24e8-3b12-4c5d-9e6f-0a1b2c3d4e5f"
ACTOR = "test"

US = "ocd-division/country:us"
OHIO = f"{US}/state:oh"
FRANKLIN = f"{OHIO}/county:franklin"
CUYAHOGA = f"{OHIO}/county:cuyahoga"
UPPER_ARLINGTON = f"{OHIO}/place:upper_arlington"
CLEVELAND = f"{OHIO}/place:cleveland"
CLEVELAND_HEIGHTS = f"{OHIO}/place:cleveland_heights"


def a_slice(**changes: Any) -> Slice:
    defaults = {
        "slice_id": "",
        "article_key": KEY,
        "body_md": "Words.",
        "publish_status": PublishStatus.PUBLISHED,
    }
    return Slice(**{**defaults, **changes})


def the_slices() -> list[Slice]:
    """Return a headline for everyone, and a slice for each of four divisions, from broad to narrow."""
    return [
        a_slice(is_headline=True, title="Vote in May", dek="What is on your ballot", body_md="Dear [[name|reader]],"),
        a_slice(scope_ocd_id=US, section_order=2, body_md="The nation votes."),
        a_slice(scope_ocd_id=OHIO, section_order=2, body_md="**Ohio** votes."),
        a_slice(scope_ocd_id=FRANKLIN, section_order=2, body_md="Franklin County votes."),
        a_slice(scope_ocd_id=UPPER_ARLINGTON, section_order=2, body_md="Upper Arlington votes."),
    ]


ADA = "ada@example.com"  # lives in Upper Arlington
CLEO = "cleo@example.com"  # lives in Cleveland


async def write_slices(bench: Bench, *slices: Slice, tenant_id: int = DEFAULT_TENANT) -> list[Slice]:
    store = SliceStore(bench.database, bench.clock, bench.engine.templates)
    stored, _ = await store.put(ACTOR, tenant_id, slices or the_slices())
    return stored


async def a_recipient(bench: Bench, email: str, *divisions: str, name: str | None = None, **attributes: Any) -> None:
    given = {**attributes, **({"ocd_ids": list(divisions)} if divisions else {})}
    change = contacts.ContactChange(name=name, attributes=given)
    await contacts.put(bench.database, bench.clock, DEFAULT_TENANT, email, change)
    statuses = ContactStatusService(bench.database, bench.clock)
    await statuses.subscribe(DEFAULT_TENANT, email, GENERAL, source="test")


async def two_recipients(bench: Bench) -> None:
    await a_recipient(bench, ADA, US, OHIO, FRANKLIN, UPPER_ARLINGTON, name="Ada")
    await a_recipient(bench, CLEO, US, OHIO, CUYAHOGA, CLEVELAND, name="Cleo")


def a_run_request(**changes: Any) -> RunRequest:
    return RunRequest(
        **{"campaign_tag": TAG, "article_key": KEY, "send_batch_id": BATCH, "audience_filter": {}, **changes}
    )


def runs_of(bench: Bench) -> ArticleRuns:
    return ArticleRuns(bench.database, bench.clock, bench.engine.templates)


async def begin(bench: Bench, **changes: Any) -> ArticleRun:
    run, _ = await runs_of(bench).start(ACTOR, DEFAULT_TENANT, a_run_request(**changes))
    return run


async def rows_of(database: Database, view: str) -> list[dict[str, Any]]:
    """Return the rows of a view."""
    async with database.read() as tx:
        return [dict(row._mapping) for row in await tx.execute(text(f"SELECT * FROM {view} ORDER BY 1"))]
