"""A person in a sequence while their due steps run."""

from typing import Any

import orjson

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass


def received_steps(text: str | None) -> frozenset[str]:
    return frozenset() if text is None else frozenset(orjson.loads(text))


@dataclass(slots=True)
class Enrolled:
    id: int
    run: int
    contact_key: int
    contact_id: str
    email: str
    name: str | None
    locale: str | None
    attributes: str  # As JSON.
    seed: str
    zone: str | None
    node: int
    entered_at: Instant
    visit: int
    waits_since: Instant | None
    skips_email: bool
    received: frozenset[str]  # Email steps that the person received before a new version moved these steps after them.
    due_at: Instant | None
    event: str | None = None  # The properties of the event that started the run, as JSON.
    item: str | None = None  # The feed item that started it, as JSON.
    email_left_at: Instant | None = None  # Of the latest email of the run; see `last_emails`.
    failure: str | None = None
    end_reason: str | None = None

    @property
    def start(self) -> dict[str, Any]:
        """The event or feed item that started the run, as variables for its emails."""
        found = {"event": self.event, "item": self.item}
        return {name: orjson.loads(text) for name, text in found.items() if text is not None}
