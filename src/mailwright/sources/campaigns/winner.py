"""Experiments: which version did better, and what follows. Decided once, by the figures or by a person."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import and_, func, select

from mailwright.domain.campaign import Action
from mailwright.domain.clock import Instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.states import EventType, Status
from mailwright.outbox import defer, journal
from mailwright.sources.campaigns.entries import Entry, Version, change_entry
from mailwright.storage.database import Transaction
from mailwright.storage.tables import deliveries, events, messages

# Who decides where no person does.
FIGURES = "figures"

# What counts as a reader's answer. Whoever clicked has opened it, even if no picture told.
ANSWERS = {
    "opens": (EventType.OPENED.value, EventType.CLICKED.value),
    "clicks": (EventType.CLICKED.value,),
}


@dataclass(frozen=True, slots=True)
class Standing:
    """How one version did."""

    name: str
    sent: int
    answered: int

    @property
    def share(self) -> float:
        return self.answered / self.sent if self.sent else 0.0


async def standings(tx: Transaction, entry: Entry, winner_by: str) -> list[Standing]:
    """In the order of the versions. A reader counts once, however often they opened or clicked."""
    answered = select(events.c.id).where(events.c.message_key == messages.c.id, events.c.type.in_(ANSWERS[winner_by]))
    sent = and_(messages.c.campaign_key == entry.campaign_key, deliveries.c.status == Status.SENT)
    joined = messages.join(deliveries, deliveries.c.message_key == messages.c.id)
    by_template = select(messages.c.template_key, func.count().label("mails")).select_from(joined).where(sent)
    counted = by_template.group_by(messages.c.template_key)
    all_of_them = {row.template_key: row.mails for row in await tx.execute(counted)}
    of_those = {row.template_key: row.mails for row in await tx.execute(counted.where(answered.exists()))}
    return [
        Standing(version.name, _sum(version, all_of_them), _sum(version, of_those))
        for version in entry.content.versions
    ]


def best(found: Sequence[Standing]) -> Standing:
    """The larger share wins; among equals the one that was written down first."""
    return max(found, key=lambda each: each.share)


async def decide(tx: Transaction, entry: Entry, now: Instant, *, actor: str, name: str | None = None) -> str:
    """The winner is for everyone who has no mail yet: they are met by a second walk from the first address on."""
    test = entry.content.test
    if test is None:
        raise InvalidInput("the campaign has no experiment that is to be decided", field="version")
    found = await standings(tx, entry, test.winner_by)
    chosen = best(found).name if name is None else name
    version = next((each for each in entry.content.versions if each.name == chosen), None)
    if version is None:
        names = ", ".join(each.name for each in entry.content.versions)
        raise InvalidInput(f"there is no version {chosen}; there are {names}", field="version")
    content = replace(entry.content, versions=(replace(version, share=100),), test=None)
    fresh = {"walked": 0, "walked_to": "", "walk_ended_at": None, "completed_at": None}
    await change_entry(tx, entry.campaign_key, content=content.as_text(), **fresh)
    await defer.let_go(tx, entry.lane)
    await journal.note(
        tx,
        now,
        actor=actor,
        action=f"campaign.{Action.CHOOSE_WINNER}",
        subject=entry.campaign_id,
        tenant_id=entry.tenant_id,
        detail={
            "winner": chosen,
            "by": test.winner_by,
            "versions": [{"name": each.name, "sent": each.sent, "answered": each.answered} for each in found],
        },
    )
    return chosen


def _sum(version: Version, mails: dict[int, int]) -> int:
    return sum(mails.get(key, 0) for key in set(version.templates.values()))
