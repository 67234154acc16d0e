"""A person in a sequence while their due steps run."""

from dataclasses import dataclass

from mailwright.domain.clock import Instant


@dataclass(slots=True)
class Enrolled:
    id: int
    contact_key: int
    contact_id: str
    email: str
    name: str | None
    locale: str | None
    attributes: str  # As JSON.
    seed: str
    zone: str | None
    node: int
    visit: int
    waits_since: Instant | None
    skips_email: bool
    due_at: Instant | None
    failure: str | None = None
    end_reason: str | None = None
