"""Contact events: their names with properties, and the latest ones."""

from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.audience.contact_events import LATEST, ContactEvent, list_latest
from mailwright.audience.contact_fields import as_text
from mailwright.audience.event_schema import load_schema
from mailwright.domain import address
from mailwright.schemas.paging import decode_cursor, encode_cursor
from mailwright.web.dashboard.shell import PageRoute, page
from mailwright.web.session import ViewerDep
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/events", route_class=PageRoute, include_in_schema=False)

PAGE: Final = 50
MAX_TEXT: Final = 80


@router.get("")
async def list_events(
    request: Request, engine: EngineDep, visitor: ViewerDep, event: str = "", q: str = "", cursor: str = ""
) -> Response:
    email = q.strip()[: address.MAX_LENGTH]
    found = await list_latest(
        engine.database,
        visitor.tenant_id,
        limit=PAGE,
        before=decode_cursor("event", cursor)[0] if cursor else LATEST,
        email=_normal(email) or None,
        name=event or None,
    )
    values: dict[str, Any] = {
        "found": [(each, property_texts(each)) for each in found],
        "following": encode_cursor("event", found[-1].id) if len(found) == PAGE else None,
        "schema": await load_schema(engine.database, visitor.tenant_id),
        "event": event,
        "q": email,
    }
    return await page(request, visitor, "audience/events.html", **values)


def property_texts(event: ContactEvent) -> list[tuple[str, str]]:
    """Return the names and values of an event's properties, with long values cut."""
    texts = [(name, as_text(value)) for name, value in event.properties.items()]
    return [(name, text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…") for name, text in texts]


def _normal(email: str) -> str:
    """Return the normal form of an address. A text that is not an address finds nothing."""
    try:
        return address.normal(email)
    except address.InvalidAddress:
        return email
