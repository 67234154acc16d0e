"""The queue as a mailout needs it: a place in line, and somebody who takes its recipients batch by batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mailwright.domain.clock import Instant
from mailwright.storage.database import Transaction


@dataclass(frozen=True, slots=True)
class MailoutCampaign:
    """What takes the place: content that is stored already, and how evenly it is sent."""

    campaign_id: str
    tenant_id: int
    name: str
    subject: str
    template_id: str
    template_key: int
    planned: int
    interval_ms: int


@dataclass(frozen=True, slots=True)
class MailoutRecipient:
    """One recipient, in normal form, with what is this reader's own in the mail."""

    email: str
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class MailoutProgress:
    """Where the mails of a mailout stand. `is_over`: none of them waits or is under way."""

    sent: int
    failed: int
    in_doubt: int
    withdrawn: int
    waiting: int
    cancelled: int
    is_over: bool


class MailoutQueue(Protocol):
    """Each call is part of the caller's transaction: what a mailout notes and what the queue takes are one."""

    async def enter(self, tx: Transaction, entering: MailoutCampaign, now: Instant) -> int:
        """Answers with the campaign's key."""
        ...

    async def hand_over(
        self, tx: Transaction, campaign_key: int, batch: Sequence[MailoutRecipient], now: Instant
    ) -> bool:
        """False where somebody cancelled the campaign meanwhile."""
        ...

    async def all_handed_over(self, tx: Transaction, campaign_key: int, now: Instant) -> None: ...

    async def tally(self, tx: Transaction, campaign_key: int, now: Instant) -> MailoutProgress: ...
