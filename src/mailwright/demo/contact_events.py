"""Sample events: actions of the shop's customers in the shop's own system."""

from typing import Any, Final

from mailwright.access.api_keys import Caller
from mailwright.app.wiring import Engine
from mailwright.audience.event_schema import EventSchemaCounter
from mailwright.domain.clock import HOUR, isoformat
from mailwright.sources.api.messages import RequestContext

# The age in hours, the contact, the event name and its properties.
_EVENTS: Final[tuple[tuple[int, str, str, dict[str, Any]], ...]] = (
    (30, "ada@example.com", "account.created", {"plan": "free", "referrer": "newsletter"}),
    (26, "ada@example.com", "order.placed", {"order": "A-1815", "total": 24.0, "currency": "EUR", "gift": False}),
    (20, "grace@example.com", "cart.abandoned", {"items": ["Moth trap", "Logbook"], "total": 21.5}),
    (12, "grace@example.com", "order.placed", {"order": "A-1906", "total": 21.5, "currency": "EUR", "gift": True}),
    (9, "lukasz@example.com", "order.placed", {"order": "A-2044", "total": 7.0, "currency": "EUR", "gift": False}),
    (5, "visitor@example.com", "cart.abandoned", {"items": ["The Mill"], "total": 480.0}),
    (2, "ada@example.com", "order.placed", {"order": "A-2101", "total": 12.5, "currency": "EUR", "gift": False}),
    (1, "ada@example.com", "review.written", {"order": "A-1815", "stars": 5}),
)


async def load_contact_events(engine: Engine, caller: Caller) -> None:
    now = engine.clock.now()
    events = [
        {
            "event": name,
            "email": email,
            "properties": properties,
            "occurredAt": isoformat(now - hours * HOUR),
            "eventId": f"demo-event-{number}",
        }
        for number, (hours, email, name, properties) in enumerate(_EVENTS, 1)
    ]
    await engine.api_events.submit_all(RequestContext(caller, "demo-events"), events)
    await EventSchemaCounter(engine.database).count_all()
