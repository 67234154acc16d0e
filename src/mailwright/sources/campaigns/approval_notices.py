"""Emails about approvals: a request to everyone who can approve, and a decision to the requester.

A row remembers the status that emails were sent about, and changes in the transaction that accepts them. So each
change of a row is announced once.
"""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Table, and_, or_, select, update

from mailwright.access.users import email_of
from mailwright.domain.approval import ApprovalStatus
from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.system_email import SystemEmail
from mailwright.outbox.accept import accept
from mailwright.outbox.audit_log import describe_actor
from mailwright.outbox.system_emails import ACCOUNT_PREFIX, RenderSystemEmail, write_system_email
from mailwright.sources.campaigns.approval_people import names_of, people_behind, possible_approvers
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import campaign_approvals, campaigns, send_approvals, users

# Emails about a decision that is older are of no use.
MAX_AGE: Final[Instant] = 7 * DAY
MAX_APPROVERS: Final = 50
_ANNOUNCED: Final = (
    ApprovalStatus.WAITING,
    ApprovalStatus.APPROVED,
    ApprovalStatus.REJECTED,
    ApprovalStatus.VOID,
)


def _is_news(table: Table) -> ColumnElement[bool]:
    a = table.c
    return and_(a.status.in_(_ANNOUNCED), or_(a.notified.is_(None), a.notified != a.status))


# Built once, because every worker runs them every second.
_UNANNOUNCED: Final = {
    table: select(table.c.id).where(_is_news(table)).order_by(table.c.id)
    for table in (campaign_approvals, send_approvals)
}


@dataclass(frozen=True, slots=True)
class _Notice:
    to: str
    subject: str
    body: str
    note: str = "You get this email because your tenant uses approvals."


class ApprovalNotices:
    def __init__(self, database: Database, clock: Clock, *, public_url: str, render: RenderSystemEmail) -> None:
        self._database = database
        self._clock = clock
        self._public_url = public_url
        self._render = render

    async def send(self) -> None:
        """Accept the emails about all changes that were not announced yet."""
        async with self._database.read() as tx:
            found = [(table, row.id) for table, query in _UNANNOUNCED.items() for row in await tx.execute(query)]
        for table, approval_id in found:
            a = table.c
            async with self._database.write() as tx:
                changed = update(table).where(a.id == approval_id, _is_news(table)).values(notified=a.status)
                for row in await tx.execute(changed.returning(*a)):
                    await self._announce(tx, row, await _announced(tx, row))

    async def _announce(self, tx: Transaction, row: Any, announced: "_Announced") -> None:
        now = self._clock.now()
        link = f"{self._public_url}{announced.path}"
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
            for notice in await _notices(tx, row, announced)
        ]
        if messages:
            await accept(tx, messages, now)


@dataclass(frozen=True, slots=True)
class _Announced:
    """What an email is about: a campaign, or another send."""

    kind: str
    name: str
    path: str
    changed_by: str | None = None


async def _announced(tx: Transaction, row: Any) -> _Announced:
    if "campaign_key" not in row._mapping:
        return _Announced(row.kind, row.name, f"/approvals/{row.id}")
    [campaign] = await tx.execute(select(campaigns).where(campaigns.c.id == row.campaign_key))
    path = f"/campaigns/{campaign.campaign_id}/approval"
    return _Announced("campaign", campaign.name, path, campaign.changed_by)


async def _notices(tx: Transaction, row: Any, announced: _Announced) -> list[_Notice]:
    what = f"the {announced.kind} “{announced.name}”"
    if row.status == ApprovalStatus.WAITING:
        described = describe_actor(row.requested_by)
        requester = f"the user {described}" if described == row.requested_by else described
        body = f"{requester} asks you to approve {what}. Recipients: {row.recipients:,}."
        article = "an" if announced.kind[0] in "ae" else "a"
        subject = f"Approve {article} {announced.kind}: {announced.name}"
        approvers = await _approvers(tx, row, announced.changed_by)
        return [_Notice(to, subject, f"{body[:1].upper()}{body[1:]}") for to in approvers]
    to = await _requester(tx, row)
    if to is None:
        return []
    comment = f" Comment: {row.comment}" if row.comment else ""
    texts = {
        ApprovalStatus.APPROVED: ("Approved", f"The user {row.decided_by} approved {what}.{comment}"),
        ApprovalStatus.REJECTED: ("Rejected", f"The user {row.decided_by} rejected {what}.{comment}"),
    }
    if row.status == ApprovalStatus.VOID:
        reason = f"The approval of {what} is void, because something was changed: {row.void_reason}."
        texts[ApprovalStatus.VOID] = ("No longer approved", f"{reason} Request approval again.")
    title, body = texts[ApprovalStatus(row.status)]
    return [_Notice(to, f"{title}: {announced.name}", body)]


async def _approvers(tx: Transaction, row: Any, changed_by: str | None) -> list[str]:
    """Return the addresses of everyone who can approve, each once."""
    own = await people_behind(tx, row.tenant_id, row.requested_by)
    if changed_by is not None:
        own |= await people_behind(tx, row.tenant_id, changed_by)
    people = await possible_approvers(tx, row.tenant_id)
    found = [email_of(login, email) for login, email in people if not own & names_of(login, email)]
    return list(dict.fromkeys(to for to in found if to is not None))[:MAX_APPROVERS]


async def _requester(tx: Transaction, row: Any) -> str | None:
    u = users.c
    query = select(u.login, u.email).where(u.login == row.requested_by, u.disabled_at.is_(None))
    rows = await tx.execute(query)
    return email_of(rows[0].login, rows[0].email) if rows else None
