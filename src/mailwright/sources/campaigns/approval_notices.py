"""Emails about approvals: a request to everyone who can approve, and a decision to the requester.

Each approval stores the status that was last announced, in the transaction that accepts the emails. So each change of
status is announced once.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Table, and_, or_, select, update

from mailwright.access.users import email_of
from mailwright.domain.approval import ApprovalStatus
from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.system_email import SystemEmail
from mailwright.domain.translation import gettext, lazy_gettext, lazy_join, lazy_number, lazy_text, using
from mailwright.ops.catalogues import load_catalogue
from mailwright.outbox.accept import accept
from mailwright.outbox.audit_log import describe_actor
from mailwright.outbox.system_emails import ACCOUNT_PREFIX, RenderSystemEmail, write_system_email
from mailwright.sources.campaigns.approval_people import names_of, people_behind, possible_approvers
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import campaign_approvals, campaigns, send_approvals, users

# No emails are sent about decisions older than this.
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


# These queries are built once, because every worker runs them every second.
_UNANNOUNCED: Final = {
    table: select(table.c.id).where(_is_news(table)).order_by(table.c.id)
    for table in (campaign_approvals, send_approvals)
}


_SUBJECTS: Final = {
    "campaign": lazy_gettext("Approve a campaign: {name}"),
    "article": lazy_gettext("Approve an article: {name}"),
    "mailout": lazy_gettext("Approve a mailout: {name}"),
    "sequence": lazy_gettext("Approve a sequence: {name}"),
    "enrolment": lazy_gettext("Approve an enrolment: {name}"),
}
_NAMES: Final = {
    "campaign": lazy_gettext("the campaign “{name}”"),
    "article": lazy_gettext("the article “{name}”"),
    "mailout": lazy_gettext("the mailout “{name}”"),
    "sequence": lazy_gettext("the sequence “{name}”"),
    "enrolment": lazy_gettext("the enrolment “{name}”"),
}


@dataclass(frozen=True, slots=True)
class _Reader:
    to: str
    language: str | None


@dataclass(frozen=True, slots=True)
class _Notice:
    """Texts that are translated for each reader."""

    readers: Sequence[_Reader]
    subject: str
    body: str


class ApprovalNotices:
    def __init__(
        self, database: Database, clock: Clock, *, public_url: str, render: RenderSystemEmail, language: str = "en"
    ) -> None:
        """`language`: for readers who have not chosen one."""
        self._database = database
        self._clock = clock
        self._public_url = public_url
        self._render = render
        self._language = language

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
        notice, messages = await _notice(tx, row, announced), []
        for reader in notice.readers:
            with using(load_catalogue(reader.language or self._language)):
                subject, body = str(notice.subject), str(notice.body)
                button, note = (
                    gettext("Open the plan"),
                    gettext("You get this email because your tenant uses approvals."),
                )
            messages.append(
                await write_system_email(
                    tx,
                    self._render,
                    SystemEmail(f"{body[:1].upper()}{body[1:]}", button, link, note),
                    tenant_id=row.tenant_id,
                    to=reader.to,
                    subject=subject,
                    prefix=ACCOUNT_PREFIX,
                    now=now,
                    expires_at=now + MAX_AGE,
                )
            )
        if messages:
            await accept(tx, messages, now)


@dataclass(frozen=True, slots=True)
class _Announced:
    """The subject of an email: a campaign, or another send."""

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


async def _notice(tx: Transaction, row: Any, announced: _Announced) -> _Notice:
    name, decided_by = announced.name, row.decided_by
    what = lazy_text(lambda: _NAMES[announced.kind].format(name=name))
    if row.status == ApprovalStatus.WAITING:
        described = describe_actor(row.requested_by)
        is_user = described == row.requested_by
        body = lazy_gettext(
            "{requester} asks you to approve {what}. Recipients: {recipients}.",
            requester=lazy_gettext("the user {login}", login=described) if is_user else described,
            what=what,
            recipients=lazy_number(row.recipients),
        )
        subject = lazy_text(lambda: _SUBJECTS[announced.kind].format(name=name))
        return _Notice(await _approvers(tx, row, announced.changed_by), subject, body)
    if row.status == ApprovalStatus.APPROVED:
        subject = lazy_gettext("Approved: {name}", name=name)
        body = lazy_gettext("The user {decided_by} approved {what}.", decided_by=decided_by, what=what)
    elif row.status == ApprovalStatus.REJECTED:
        subject = lazy_gettext("Rejected: {name}", name=name)
        body = lazy_gettext("The user {decided_by} rejected {what}.", decided_by=decided_by, what=what)
    else:
        subject = lazy_gettext("No longer approved: {name}", name=name)
        body = lazy_gettext(
            "The approval of {what} is void, because something was changed: {changed}. Request approval again.",
            what=what,
            changed=row.void_reason,
        )
    if row.comment and row.status != ApprovalStatus.VOID:
        body = lazy_join(" ", [body, lazy_gettext("Comment: {comment}", comment=row.comment)])
    return _Notice(await _requester(tx, row), subject, body)


async def _approvers(tx: Transaction, row: Any, changed_by: str | None) -> list[_Reader]:
    """Return everyone who can approve, each address once."""
    own = await people_behind(tx, row.tenant_id, row.requested_by)
    if changed_by is not None:
        own |= await people_behind(tx, row.tenant_id, changed_by)
    people = await possible_approvers(tx, row.tenant_id)
    found = {
        to: _Reader(to, each.language)
        for each in people
        if not own & names_of(each.login, each.email) and (to := email_of(each.login, each.email)) is not None
    }
    return list(found.values())[:MAX_APPROVERS]


async def _requester(tx: Transaction, row: Any) -> list[_Reader]:
    """Return the user who requested the approval; an empty list if an API key or the console did."""
    u = users.c
    query = select(u.login, u.email, u.language).where(u.login == row.requested_by, u.disabled_at.is_(None))
    found = [(email_of(each.login, each.email), each.language) for each in await tx.execute(query)]
    return [_Reader(to, language) for to, language in found if to is not None]
