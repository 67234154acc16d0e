"""Find the messages that provider reports are about."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from mailwright.domain.clock import Instant
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

FIND_BY_OUTBOX_ID = statement(__package__, "find_reported_by_outbox_id")
FIND_BY_PROVIDER_ID = statement(__package__, "find_reported_by_provider_id")
FIND_BY_RECIPIENT = statement(__package__, "find_reported_by_recipient")
FIND_DELETED_BY_OUTBOX_ID = statement(__package__, "find_deleted_by_outbox_id")
FIND_DELETED_BY_RECIPIENT = statement(__package__, "find_deleted_by_recipient")
FIND_PAYLOADS = statement(__package__, "find_payloads")


@dataclass(frozen=True, slots=True)
class ReportedMessage:
    message_key: int
    tenant_id: int
    to_email: str
    is_certain: bool = True  # The message was found by an ID, not only by the recipient's address.
    was_never_sent: bool = False  # The message was found by our ID, but this database has no attempt for it.
    is_deleted: bool = False  # Retention has deleted the message, so only its recipient is known.


async def find_by_outbox_id(tx: Runner, outbox_ids: Collection[str]) -> dict[str, ReportedMessage]:
    if not outbox_ids:
        return {}
    rows = await tx.run(FIND_BY_OUTBOX_ID, wanted=[{"outbox_id": outbox_id} for outbox_id in sorted(outbox_ids)])
    return {
        row.outbox_id: ReportedMessage(
            row.message_key, row.tenant_id, row.to_email, was_never_sent=bool(row.was_never_sent)
        )
        for row in rows
    }


async def find_by_provider_id(
    tx: Runner, names: Collection[tuple[str, str]]
) -> dict[tuple[str, str], list[ReportedMessage]]:
    """Find messages by provider and provider message ID. One ID may belong to several messages."""
    if not names:
        return {}
    wanted = [{"provider": provider, "provider_message_id": name} for provider, name in sorted(names)]
    found: dict[tuple[str, str], list[ReportedMessage]] = {}
    for row in await tx.run(FIND_BY_PROVIDER_ID, wanted=wanted):
        message = ReportedMessage(row.message_key, row.tenant_id, row.to_email)
        found.setdefault((row.provider, row.provider_message_id), []).append(message)
    return found


async def find_latest_by_recipient(
    tx: Runner, recipients: Collection[tuple[str, str, Instant]]
) -> dict[tuple[str, str, Instant], ReportedMessage]:
    """Find the latest message that each provider accepted for an address before a time."""
    if not recipients:
        return {}
    wanted = [{"provider": provider, "email": email, "at": at} for provider, email, at in sorted(recipients)]
    return {
        (row.provider, row.email, row.at): ReportedMessage(
            row.message_key, row.tenant_id, row.to_email, is_certain=False
        )
        for row in await tx.run(FIND_BY_RECIPIENT, wanted=wanted)
    }


async def find_deleted_by_outbox_id(tx: Runner, outbox_ids: Collection[str]) -> dict[str, ReportedMessage]:
    """Find messages that retention deleted."""
    if not outbox_ids:
        return {}
    wanted = [{"outbox_id": outbox_id} for outbox_id in sorted(outbox_ids)]
    return {row.outbox_id: _deleted(row) for row in await tx.run(FIND_DELETED_BY_OUTBOX_ID, wanted=wanted)}


async def find_deleted_by_recipient(
    tx: Runner, recipients: Collection[tuple[str, str, Instant]]
) -> dict[tuple[str, str, Instant], ReportedMessage]:
    """Find the latest deleted message that each provider had for an address before a time."""
    if not recipients:
        return {}
    wanted = [{"provider": provider, "email": email, "at": at} for provider, email, at in sorted(recipients)]
    return {
        (row.provider, row.email, row.at): _deleted(row)
        for row in await tx.run(FIND_DELETED_BY_RECIPIENT, wanted=wanted)
    }


async def load_payloads(tx: Runner, message_keys: Collection[int]) -> dict[int, str]:
    rows = await tx.run(FIND_PAYLOADS, wanted=[{"message_key": key} for key in sorted(message_keys)])
    return {row.message_key: row.payload for row in rows}


def _deleted(row: Any) -> ReportedMessage:
    return ReportedMessage(0, row.tenant_id, row.to_email, is_certain=False, is_deleted=True)
