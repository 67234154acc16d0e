"""Send a campaign again, with a new subject, to the people who did not open it. Each campaign is sent again once."""

from typing import Any, Final

from sqlalchemy import case, func, or_, select

from mailwright.audience.responses import responses, responses_of_machines, was_not_opened
from mailwright.domain.campaign import CampaignAction
from mailwright.domain.clock import HOUR, Instant, isoformat
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import EventType, Status
from mailwright.outbox.tallies import count_messages_of_campaigns, count_untallied
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.entries import QueueEntry, find_entry
from mailwright.sources.campaigns.records import Campaign, check_status, find_campaign
from mailwright.storage.database import Transaction
from mailwright.storage.tables import contacts, deliveries, messages

# The minimum time that recipients have to open a campaign before it is sent again.
TIME_TO_OPEN: Final[Instant] = 4 * HOUR


class AlreadyResent(NotPossibleNow):
    """The campaign was already sent again to those who did not open it. Each campaign can be sent again once."""

    code = "ALREADY_RESENT"


@dataclass(frozen=True, slots=True)
class OpenGroups:
    """Everyone who received a campaign, by what is known about their opens. Each recipient is in one group."""

    opened: int  # a person opened it, or clicked a link
    did_not_open: int
    only_machines: int  # only programs opened it, and a person may be behind one of them
    not_measured: int  # without consent, or not tracked for another reason


async def count_open_groups(tx: Transaction, campaign_key: int) -> OpenGroups:
    people = or_(*(responses(type_).correlate(messages).exists() for type_ in (EventType.OPENED, EventType.CLICKED)))
    machines = responses_of_machines().correlate(messages).exists()
    group = case(
        (people, "opened"), (machines, "only_machines"), (was_not_opened(), "did_not_open"), else_="not_measured"
    )
    found = (
        select(group.label("name"))
        .join_from(messages, deliveries, deliveries.c.message_key == messages.c.id)
        .outerjoin(contacts, contacts.c.id == messages.c.contact_key)
        .where(messages.c.campaign_key == campaign_key)
        .where(deliveries.c.status == Status.SENT.value, deliveries.c.bounced_at.is_(None))
        .subquery("recipient_group")
    )
    rows = await tx.execute(select(found.c.name, func.count().label("recipients")).group_by(found.c.name))
    counts = {row.name: int(row.recipients) for row in rows}
    return OpenGroups(**{name: counts.get(name, 0) for name in OpenGroups.__slots__})


async def find_resent(tx: Transaction, tenant_id: int, definition: CampaignDefinition, now: Instant) -> int | None:
    """Return the key of the campaign that another one sends again, or None. Raise if it cannot be sent again now."""
    if definition.resend_of is None:
        return None
    try:
        original = await find_campaign(tx, definition.resend_of, tenant_id)
    except NotFound as error:
        raise InvalidInput("There is no such campaign.", field="resendOf") from error
    check_status(original, CampaignAction.RESEND)
    if original.definition.resend_of is not None:
        raise NotPossibleNow(
            "This campaign was itself sent to those who did not open another one. Send a new campaign."
        )
    if not (await count_messages_of_campaigns(tx, [original.key]))[original.key][EventType.SENT]:
        if await count_untallied(tx):
            raise NotPossibleNow("The figures of this campaign are not complete yet. Try again in a few minutes.")
        raise NotPossibleNow(
            "Nobody knows who did not open this campaign: its opens were not recorded individually. "
            "Use individual tracking and ask for consent before you send the next one."
        )
    possible_from = (original.finished_at or now) + TIME_TO_OPEN
    if now < possible_from:
        raise NotPossibleNow(
            "The campaign was sent a short time ago, and its recipients need time to open it. It can be "
            "sent again from {possible_from}.",
            possible_from=isoformat(possible_from),
        )
    return original.key


async def resend_definition(
    tx: Transaction, original: Campaign, subject: str, name: str | None = None
) -> CampaignDefinition:
    """Return the definition of a draft with the same content and lists, and a new subject."""
    definition = original.definition
    winner = _winner(await find_entry(tx, original.key), definition)
    if subject.strip() in (definition.content.subject, winner.get("subject")):
        raise InvalidInput("The campaign had this subject already. Choose another one.", field="subject")
    body = {"body": winner["body"]} if winner.get("body") and definition.content.body is not None else {}
    return definition.model_copy(
        update={
            "name": (name or f"{original.name} (resend)")[:200],
            "content": definition.content.model_copy(update={"subject": subject, **body}),
            "ab_test": None,
            "scheduled_at": None,
            "resend_of": original.campaign_id,
        }
    )


def _winner(entry: QueueEntry | None, definition: CampaignDefinition) -> dict[str, Any]:
    """Return the changes of the variant that won the A/B test."""
    decision = entry.content.decision if entry else None
    variants = definition.ab_test.variants if definition.ab_test else ()
    return next((each.model_dump() for each in variants if decision and each.name == decision.winner), {})
