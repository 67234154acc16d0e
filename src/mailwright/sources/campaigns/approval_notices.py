"""Emails about approvals: a request to everyone who can approve, and a decision to the requester.

A row remembers the status that emails were sent about, and changes in the transaction that accepts them. So each
change of a row is announced once.
"""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import or_, select, update

from mailwright.access.users import email_of
from mailwright.domain.approval import ApprovalStatus
from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.system_email import SystemEmail
from mailwright.outbox.accept import accept
from mailwright.outbox.audit_log import describe_actor
from mailwright.outbox.system_emails import ACCOUNT_PREFIX, RenderSystemEmail, write_system_email
from mailwright.sources.campaigns.approval_people import names_of, people_behind, possible_approvers
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import campaign_approvals, campaigns, users

# Emails about a decision that is older are of no use.
MAX_AGE: Final[Instant] = 7 * DAY
MAX_APPROVERS: Final = 50
_ANNOUNCED: Final = (
    ApprovalStatus.WAITING,
    ApprovalStatus.APPROVED,
    ApprovalStatus.REJECTED,
    ApprovalStatus.VOID,
)
_a = campaign_approvals.c


@dataclass(frozen=True, slots=True)
class _Notice:
    to: str
    subject: str
    body: str
    note: str = "You get this email because your tenant uses approvals of campaigns."


class ApprovalNotices:
    def __init__(self, database: Database, clock: Clock, *, public_url: str, render: RenderSystemEmail) -> None:
        self._database = database
        self._clock = clock
        self._public_url = public_url
        self._render = render

    async def send(self) -> None:
        """Accept the emails about all changes that were not announced yet."""
        is_news = (_a.status.in_(_ANNOUNCED), or_(_a.notified.is_(None), _a.notified != _a.status))
        async with self._database.read() as tx:
            found = [row.id for row in await tx.execute(select(_a.id).where(*is_news).order_by(_a.id))]
        for approval_id in found:
            async with self._database.write() as tx:
                changed = update(campaign_approvals).where(_a.id == approval_id, *is_news).values(notified=_a.status)
                for row in await tx.execute(changed.returning(*_a)):
                    await self._announce(tx, row)

    async def _announce(self, tx: Transaction, row: Any) -> None:
        now = self._clock.now()
        [campaign] = await tx.execute(select(campaigns).where(campaigns.c.id == row.campaign_key))
        link = f"{self._public_url}/campaigns/{campaign.campaign_id}/approval"
        messages = [
            await write_system_email(
                tx,
                self._render,
                SystemEmail(notice.body, "Open the plan", link, notice.note),
                tenant_id=row.tenant_id,
                to=notice.to,
                subject=notice.subject,
                prefix=ACCOUNT_PREFIX,
                now=now,
                expires_at=now + MAX_AGE,
            )
            for notice in await _notices(tx, row, campaign)
        ]
        if messages:
            await accept(tx, messages, now)


async def _notices(tx: Transaction, row: Any, campaign: Any) -> list[_Notice]:
    if row.status == ApprovalStatus.WAITING:
        requester = describe_actor(row.requested_by)
        body = f"{requester} asks you to approve the campaign “{campaign.name}” for {row.recipients:,} recipients."
        subject = f"Approve a campaign: {campaign.name}"
        return [_Notice(to, subject, f"{body[:1].upper()}{body[1:]}") for to in await _approvers(tx, row, campaign)]
    to = await _requester(tx, row)
    if to is None:
        return []
    comment = f" Comment: {row.comment}" if row.comment else ""
    texts = {
        ApprovalStatus.APPROVED: ("Approved", f"{row.decided_by} approved the campaign “{campaign.name}”.{comment}"),
        ApprovalStatus.REJECTED: ("Rejected", f"{row.decided_by} rejected the campaign “{campaign.name}”.{comment}"),
        ApprovalStatus.VOID: (
            "No longer approved",
            f"The approval of the campaign “{campaign.name}” is void, because something was changed: "
            f"{row.void_reason}. Request approval again.",
        ),
    }
    title, body = texts[ApprovalStatus(row.status)]
    return [_Notice(to, f"{title}: {campaign.name}", body)]


async def _approvers(tx: Transaction, row: Any, campaign: Any) -> list[str]:
    """Return the addresses of everyone who can approve, each once."""
    own = await people_behind(tx, row.tenant_id, row.requested_by)
    if campaign.changed_by is not None:
        own |= await people_behind(tx, row.tenant_id, campaign.changed_by)
    people = await possible_approvers(tx, row.tenant_id)
    found = [email_of(login, email) for login, email in people if not own & names_of(login, email)]
    return list(dict.fromkeys(to for to in found if to is not None))[:MAX_APPROVERS]


async def _requester(tx: Transaction, row: Any) -> str | None:
    u = users.c
    query = select(u.login, u.email).where(u.login == row.requested_by, u.disabled_at.is_(None))
    rows = await tx.execute(query)
    return email_of(rows[0].login, rows[0].email) if rows else None
