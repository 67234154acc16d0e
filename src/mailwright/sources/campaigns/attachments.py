"""The attachments of a campaign: files that every message of it carries, stored once."""

import re
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, insert, literal, select

from mailwright.content.attachments import MAX_ATTACHMENTS, MAX_ATTACHMENTS_BYTES
from mailwright.content.mime import EmailAttachment
from mailwright.content.presend_checks import IssueLevel, PresendIssue
from mailwright.domain.clock import Instant
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.domain.ids import uuid7
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.sizes import size_text
from mailwright.domain.translation import lazy_gettext
from mailwright.storage.database import Database, Transaction
from mailwright.storage.expressions import random_uuid7
from mailwright.storage.tables import campaign_attachments

# The size in an email of each byte of a file, because of base64 and line breaks.
_ENCODED_SHARE: Final = 1.37
# Above either limit, a link to the file is better for recipients and for the sender's reputation.
LARGE_EMAIL_BYTES: Final = 1024 * 1024
LARGE_CAMPAIGN_BYTES: Final = 1024**3
# Gmail, Outlook and most company filters reject emails with such files.
_BLOCKED: Final = re.compile(
    r"\.(ade|adp|apk|appx|bat|cab|chm|cmd|com|cpl|dll|exe|hta|jar|jse?|lnk|ms[ip]|ps1|scr|sys|vb[es]?|wsf)\s*", re.I
)


@dataclass(frozen=True, slots=True)
class CampaignAttachment:
    """A stored attachment, without its content."""

    attachment_id: str
    filename: str
    content_type: str
    content_id: str | None
    size_bytes: int
    created_at: Instant


_COLUMNS: Final = [campaign_attachments.c[name] for name in CampaignAttachment.__slots__]


async def list_attachments(tx: Transaction, campaign_key: int) -> tuple[CampaignAttachment, ...]:
    """Return the attachments in the order in which they were added."""
    mine = campaign_attachments.c.campaign_key == campaign_key
    rows = await tx.execute(select(*_COLUMNS).where(mine).order_by(campaign_attachments.c.id))
    return tuple(_attachment(row) for row in rows)


async def insert_attachments(
    tx: Transaction, tenant_id: int, campaign_key: int, added: Sequence[EmailAttachment], now: Instant
) -> None:
    """Store attachments, or raise if the campaign would have too many or too large ones."""
    present = await list_attachments(tx, campaign_key)
    if len(present) + len(added) > MAX_ATTACHMENTS:
        raise InvalidInput(
            "A campaign can have at most {max_attachments} attachments.",
            field="attachments",
            max_attachments=MAX_ATTACHMENTS,
        )
    size = sum(each.size_bytes for each in present) + sum(len(each.content) for each in added)
    if size > MAX_ATTACHMENTS_BYTES:
        limit = size_text(MAX_ATTACHMENTS_BYTES)
        raise InvalidInput(
            "The attachments are larger than {limit} together. Remove one, or link to the file instead.",
            field="attachments",
            limit=limit,
        )
    for each in added:
        if not each.content:
            raise InvalidInput("The file {filename} is empty.", field="attachments", filename=each.filename)
        await tx.execute(
            insert(campaign_attachments).values(
                attachment_id=uuid7(now),
                tenant_id=tenant_id,
                campaign_key=campaign_key,
                filename=each.filename,
                content_type=each.content_type,
                content_id=each.content_id,
                size_bytes=len(each.content),
                created_at=now,
                content=each.content,
            )
        )


async def copy_attachments(tx: Transaction, from_key: int, to_key: int, now: Instant) -> None:
    """Copy the attachments of one campaign to another, inside the database."""
    a = campaign_attachments.c
    columns: dict[str, ColumnElement[Any]] = {column.name: column for column in a if column.name != "id"}
    columns |= {"attachment_id": random_uuid7(now), "campaign_key": literal(to_key), "created_at": literal(now)}
    source = select(*columns.values()).where(a.campaign_key == from_key).order_by(a.id)
    await tx.execute(insert(campaign_attachments).from_select(list(columns), source))


async def delete_attachment(tx: Transaction, campaign_key: int, attachment_id: str) -> CampaignAttachment:
    a = campaign_attachments.c
    mine = (a.campaign_key == campaign_key, a.attachment_id == attachment_id)
    rows = await tx.execute(delete(campaign_attachments).where(*mine).returning(*_COLUMNS))
    if not rows:
        raise NotFound("The campaign has no such attachment.", field="attachmentId")
    return _attachment(rows[0])


async def read_content(database: Database, campaign_key: int, attachment_id: str) -> tuple[CampaignAttachment, bytes]:
    a = campaign_attachments.c
    query = select(*_COLUMNS, a.content).where(a.campaign_key == campaign_key, a.attachment_id == attachment_id)
    async with database.read() as tx:
        rows = await tx.execute(query)
    if not rows:
        raise NotFound
    return _attachment(rows[0]), bytes(rows[0].content)


def check_attachments(attachments: Sequence[CampaignAttachment], planned: int) -> list[PresendIssue]:
    """Warn about files that are large for this audience, and about those that receiving servers reject."""
    issues = []
    size = int(sum(each.size_bytes for each in attachments) * _ENCODED_SHARE)
    if size > LARGE_EMAIL_BYTES or size * planned > LARGE_CAMPAIGN_BYTES:
        people = f"{planned:,} recipient{'' if planned == 1 else 's'}"
        sentence = (
            f"The attachments add {size_text(size)} to each email, {size_text(size * planned)} for {people}. "
            "Large emails are slow to send and are rejected more often; link to the file instead"
        )
        issues.append(PresendIssue(IssueLevel.WARNING, "LARGE_ATTACHMENTS", sentence, "attachments"))
    blocked = [each.filename for each in attachments if _BLOCKED.fullmatch(each.filename, each.filename.rfind("."))]
    if blocked:
        sentence = lazy_gettext(
            "Most mailbox providers reject emails with files such as {blocked}; use a link instead",
            blocked=", ".join(blocked),
        )
        issues.append(PresendIssue(IssueLevel.WARNING, "BLOCKED_ATTACHMENT", sentence, "attachments"))
    return issues


def _attachment(row: Any) -> CampaignAttachment:
    return CampaignAttachment(*(row._mapping[column.name] for column in _COLUMNS))
