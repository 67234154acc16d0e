"""The demo article: five slices for four recipients in Ohio and elsewhere."""

from typing import Final

from mailwright.app.wiring import Engine
from mailwright.audience import contacts
from mailwright.audience.lists import GENERAL
from mailwright.audience.status import ContactStatusService
from mailwright.sources.articles.assembly import PublishStatus, Slice
from mailwright.sources.articles.runs import ArticleRuns, RunRequest
from mailwright.sources.articles.slices import SliceStore

ACTOR: Final = "demo"
KEY: Final = "spring-vote"
TAG: Final = "spring-2027"
BATCH: Final = "7f9c24e8-3b12-4c5d-9e6f-0a1b2c3d4e5f"

US: Final = "ocd-division/country:us"
OHIO: Final = f"{US}/state:oh"
FRANKLIN: Final = f"{OHIO}/county:franklin"
UPPER_ARLINGTON: Final = f"{OHIO}/place:upper_arlington"
CLEVELAND: Final = f"{OHIO}/place:cleveland"

# Scope and text, from broad to narrow.
_NEWS: Final = (
    (US, "## The nation\n\nEvery seat in the House is up this year."),
    (OHIO, "## Ohio\n\nPolls are open from **6:30** to **19:30**. Bring a photo ID."),
    (FRANKLIN, "## Franklin County\n\nThe library levy is on the ballot again."),
    (UPPER_ARLINGTON, "## Upper Arlington\n\nTwo of seven seats in the council."),
)
_RECIPIENTS: Final = (
    ("upper.arlington@example.com", "Dorothy Vaughan", (US, OHIO, FRANKLIN, UPPER_ARLINGTON)),
    ("columbus@example.com", "Evelyn Boyd Granville", (US, OHIO, FRANKLIN)),
    ("cleveland@example.com", "Jean Sammet", (US, OHIO, CLEVELAND)),
    ("denver@example.com", None, (US, f"{US}/state:co")),
)


async def load_article(engine: Engine, tenant_id: int) -> None:
    database, clock, templates = engine.database, engine.clock, engine.templates
    for email, name, divisions in _RECIPIENTS:
        change = contacts.ContactChange(name=name, attributes={"ocd_ids": list(divisions)})
        await contacts.put(database, clock, tenant_id, email, change)
        await ContactStatusService(database, clock).subscribe(tenant_id, email, GENERAL, source=ACTOR)
    await SliceStore(database, clock, templates).put(ACTOR, tenant_id, _slices())
    order = RunRequest(TAG, KEY, BATCH, {"country": "us"})
    await ArticleRuns(database, clock, templates).start(ACTOR, tenant_id, order)


def _slices() -> list[Slice]:
    published = PublishStatus.PUBLISHED
    return [
        Slice(
            "",
            KEY,
            "Dear [[name|voter]],\n\nthis is what you vote on in May.",
            is_headline=True,
            title="Your ballot in May",
            dek="What is on it where you live",
            publish_status=published,
        ),
        *(Slice("", KEY, text, section_order=2, scope_ocd_id=scope, publish_status=published) for scope, text in _NEWS),
    ]
