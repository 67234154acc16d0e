"""Approvals of sends that are not campaigns: article runs, mailouts, and sequences with the people who enter them.

An attempt to send to more recipients than the tenant allows without an approval requests the approval. After a second
person has approved it, the same attempt succeeds. An approval covers exactly the content that it shows, and the number
of recipients with the tolerance of campaigns. If the tenant has such a limit, the publication of a sequence always
needs an approval, which covers everyone who enters: nobody knows how many people that will be.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, insert, select, update

from mailwright.access.roles import Role
from mailwright.access.users import User
from mailwright.domain.approval import ApprovalStatus, max_recipients
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext, lazy_join, lazy_number, lazy_text, ngettext
from mailwright.outbox import audit_log
from mailwright.sources.campaigns.approval_gate import AwaitsApproval, KeyWithoutOwner
from mailwright.sources.campaigns.approval_people import find_missing_owner, names_of, people_behind
from mailwright.sources.campaigns.approvals import MAX_COMMENT, MAX_REJECTED, SecondPersonRequired
from mailwright.sources.campaigns.unapproved_sends import UnapprovedSend, add_unapproved, split_text
from mailwright.sources.value_digest import hash_value
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import send_approvals, tenants

_a = send_approvals.c

WITHDRAWABLE: Final = (ApprovalStatus.WAITING, ApprovalStatus.REJECTED)


class ApprovalRejected(AwaitsApproval):
    """A second person rejected this."""


class SendKind(StrEnum):
    ARTICLE = "article"
    MAILOUT = "mailout"
    SEQUENCE = "sequence"  # the publication of a version
    ENROLMENT = "enrolment"  # of many people in a sequence at once


KIND_TEXTS: Final = {
    SendKind.ARTICLE: lazy_gettext("article"),
    SendKind.MAILOUT: lazy_gettext("mailout"),
    SendKind.SEQUENCE: lazy_gettext("sequence"),
    SendKind.ENROLMENT: lazy_gettext("enrolment"),
}


@dataclass(frozen=True, slots=True)
class PlannedSend:
    """A send that somebody attempts. A later attempt with the same subject is the same send."""

    tenant_id: int
    kind: SendKind
    subject: str
    name: str
    recipients: int
    content: Mapping[str, Any]  # what the approver sees and signs

    @property
    def digest(self) -> str:
        return hash_value([self.kind, self.subject, self.content])


@dataclass(frozen=True, slots=True)
class SendApproval:
    id: int
    tenant_id: int
    kind: SendKind
    subject: str
    name: str
    status: ApprovalStatus
    digest: str
    recipients: int
    content: dict[str, Any]
    requested_by: str
    requested_at: Instant
    decided_by: str | None
    decided_at: Instant | None
    comment: str | None

    def covers(self, planned: PlannedSend) -> bool:
        if self.kind is not SendKind.SEQUENCE and planned.recipients > max_recipients(self.recipients):
            return False
        return self.digest == planned.digest


async def find_limit(tx: Transaction, tenant_id: int) -> int | None:
    """Return the largest number of recipients without an approval; None if none is ever needed."""
    [row] = await tx.execute(select(tenants.c.approval_over).where(tenants.c.id == tenant_id))
    return None if row.approval_over is None else int(row.approval_over)


async def find_refusal(tx: Transaction, now: Instant, planned: PlannedSend, *, actor: str) -> AwaitsApproval | None:
    """Return the error that says why the send must wait; None if it may begin.

    If necessary, request the approval. Once an approval is requested, the send needs it, even if the tenant no longer
    requires approvals. After a rejection, every later attempt needs one, and the rejected content is not sent, until an
    administrator lifts the rejection.
    """
    rejections = await _list_rejections(tx, planned)
    if refused := next((each for each in rejections if each.covers(planned)), None):
        return ApprovalRejected(
            "The user {decided_by} rejected this {kind}: {comment}. Change it, and send it again, or ask an "
            "administrator to lift the rejection."
            if refused.comment
            else "The user {decided_by} rejected this {kind}. Change it, and send it again, or ask an administrator "
            "to lift the rejection.",
            decided_by=refused.decided_by,
            kind=KIND_TEXTS[planned.kind],
            comment=(refused.comment or "").rstrip("."),
        )
    newest = await _find_newest(tx, planned)
    if newest is not None and newest.covers(planned):
        match newest.status:
            case ApprovalStatus.APPROVED:
                return None
            case ApprovalStatus.WAITING:
                requester = audit_log.describe_actor(newest.requested_by)
                return AwaitsApproval(
                    "This {kind} waits for the approval of a second person, which {requester} requested.",
                    kind=KIND_TEXTS[planned.kind],
                    requester=requester,
                )
            case _:
                pass
    over = await find_limit(tx, planned.tenant_id)
    reason = None if over is None else await _find_reason(tx, now, planned, over=over, actor=actor)
    if rejections:
        reason = lazy_gettext(
            "This {kind} can reach {people}, and {decided_by} rejected it before, so a second person must approve it.",
            kind=KIND_TEXTS[planned.kind],
            people=_people(planned),
            decided_by=rejections[0].decided_by,
        )
    if reason is None:
        return None
    if missing := await find_missing_owner(tx, planned.tenant_id, actor, now):
        return KeyWithoutOwner(missing)
    await _request(tx, now, planned, actor)
    return AwaitsApproval("{why} The approval is requested now. Try again when it is given.", why=reason)


async def _find_reason(tx: Transaction, now: Instant, planned: PlannedSend, *, over: int, actor: str) -> str | None:
    """Return why the send needs an approval. If it needs none, count it and return None."""
    if planned.kind is SendKind.SEQUENCE:
        return lazy_gettext(
            "This {kind} can reach {people} now, and others who enter later, so a second person must approve it.",
            kind=KIND_TEXTS[planned.kind],
            people=_people(planned),
        )
    # Each enrolment of people in the same sequence is a separate send.
    subject = "" if planned.kind is SendKind.ENROLMENT else planned.subject
    send = UnapprovedSend(planned.tenant_id, planned.kind, subject, planned.recipients)
    earlier = await add_unapproved(tx, now, send, over=over, actor=actor)
    if planned.recipients + earlier <= over:
        return None
    reason = lazy_gettext(
        "This {kind} can reach {people}, and a second person must approve sends to more than {over}.",
        kind=KIND_TEXTS[planned.kind],
        people=_people(planned),
        over=lazy_number(over),
    )
    return lazy_join(" ", [reason, split_text(earlier)]) if earlier else reason


def _people(planned: PlannedSend) -> str:
    return lazy_text(lambda: ngettext("{count} person", "{count} people", planned.recipients))


async def require_approval(database: Database, clock: Clock, planned: PlannedSend, *, actor: str) -> None:
    """Raise unless the send may begin. The request for its approval is stored nevertheless."""
    async with database.write() as tx:
        refusal = await find_refusal(tx, clock.now(), planned, actor=actor)
    if refusal is not None:
        raise refusal


async def is_waiting(tx: Transaction, tenant_id: int, kind: SendKind, subject: str) -> bool:
    """Return whether nobody has decided about a send yet."""
    waiting = (_a.kind == kind, _a.subject == subject, _a.status == ApprovalStatus.WAITING)
    return bool(await tx.execute(select(_a.id).where(_a.tenant_id == tenant_id, *waiting)))


async def find_approved(tx: Transaction, tenant_id: int, kind: SendKind, subject: str) -> SendApproval | None:
    """Return the approval of a send that was given last."""
    approved = (_a.kind == kind, _a.subject == subject, _a.status == ApprovalStatus.APPROVED)
    query = select(send_approvals).where(_a.tenant_id == tenant_id, *approved).order_by(_a.id.desc()).limit(1)
    rows = await tx.execute(query)
    return _approval(rows[0]) if rows else None


async def end_approvals(tx: Transaction, tenant_id: int, kind: SendKind, subject: str, *, but: str = "") -> None:
    """End the approvals of a send so that they cannot be used again, except the approval with the digest `but`."""
    same = (_a.tenant_id == tenant_id, _a.kind == kind, _a.subject == subject)
    approved = (*same, _a.status == ApprovalStatus.APPROVED, _a.digest != but)
    await tx.execute(update(send_approvals).where(*approved).values(status=ApprovalStatus.REPLACED))


class SendApprovals:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def list_waiting(self, tenant_id: int) -> list[SendApproval]:
        """Return the sends of a tenant that wait for a decision, oldest request first."""
        waiting = (_a.tenant_id == tenant_id, _a.status == ApprovalStatus.WAITING)
        async with self._database.read() as tx:
            return [_approval(row) for row in await tx.execute(select(send_approvals).where(*waiting).order_by(_a.id))]

    async def list_rejected(self, tenant_id: int) -> list[SendApproval]:
        """Return the newest rejections that no administrator has lifted, newest first."""
        rejected = (_a.tenant_id == tenant_id, _a.status == ApprovalStatus.REJECTED)
        query = select(send_approvals).where(*rejected).order_by(_a.decided_at.desc(), _a.id.desc())
        async with self._database.read() as tx:
            return [_approval(row) for row in await tx.execute(query.limit(MAX_REJECTED))]

    async def find(self, tenant_id: int, approval_id: int) -> SendApproval:
        async with self._database.read() as tx:
            return await _find(tx, tenant_id, approval_id)

    async def find_rejection(self, approval: SendApproval) -> SendApproval | None:
        """Return the newest rejection of the same send that no administrator has lifted."""
        async with self._database.read() as tx:
            return next(iter(await _list_rejections(tx, approval)), None)

    async def find_conflict(self, user: User, approval: SendApproval) -> str | None:
        """Return why a user cannot decide about a send, or None."""
        async with self._database.read() as tx:
            return await _conflict(tx, user, approval)

    async def decide(
        self, user: User, tenant_id: int, approval_id: int, digest: str, *, approves: bool, comment: str = ""
    ) -> SendApproval:
        """Approve or reject the send with this digest. A rejection needs a comment."""
        said = comment.strip()
        if not approves and not said:
            raise InvalidInput("say what has to change", field="comment")
        if len(said) > MAX_COMMENT:
            raise InvalidInput("has more than {max_comment} characters", field="comment", max_comment=MAX_COMMENT)
        now = self._clock.now()
        async with self._database.write() as tx:
            found = await _find(tx, tenant_id, approval_id, for_update=True)
            if found.status is not ApprovalStatus.WAITING:
                raise NotPossibleNow("No request waits for a decision. Somebody changed it or has already decided.")
            if found.digest != digest:
                raise NotPossibleNow("Another plan was requested since you opened this one. Check the new plan.")
            if approves and (conflict := await _conflict(tx, user, found)):
                raise SecondPersonRequired(conflict)
            status = ApprovalStatus.APPROVED if approves else ApprovalStatus.REJECTED
            await _change(tx, found.id, status=status, decided_by=user.login, decided_at=now, comment=said or None)
            await _record(tx, now, "approve" if approves else "reject", user.login, found, comment=said or None)
            return await _find(tx, tenant_id, approval_id)

    async def withdraw(
        self, actor: str, tenant_id: int, approval_id: int, *, reason: str = "", may_lift: bool = False
    ) -> SendApproval:
        """Withdraw a request.

        Afterwards the current rule of the tenant decides whether the next attempt needs an approval.

        After a rejection, only an administrator can do so (`may_lift`), with a reason that the audit log records. It
        lifts all rejections of the same send. An approval stays, because steps of a sequence compare templates with it.
        """
        said = reason.strip()
        if len(said) > MAX_COMMENT:
            raise InvalidInput("has more than {max_comment} characters", field="reason", max_comment=MAX_COMMENT)
        async with self._database.write() as tx:
            await tx.execute(select(tenants.c.id).where(tenants.c.id == tenant_id).with_for_update())
            found = await _find(tx, tenant_id, approval_id)
            rejections = await _list_rejections(tx, found)
            if found.status not in WITHDRAWABLE:
                raise NotPossibleNow(
                    "This request was {status}, so there is nothing to withdraw.", status=lazy_gettext(found.status)
                )
            if rejections and not (may_lift and said):
                raise NotPossibleNow(
                    "The user {decided_by} rejected this {kind}, so it needs an approval. Change it, and send it "
                    "again, or ask an administrator to lift the rejection with a reason.",
                    decided_by=rejections[0].decided_by,
                    kind=KIND_TEXTS[found.kind],
                )
            ended = (*_same_send(found), _a.status.in_(WITHDRAWABLE))
            await tx.execute(update(send_approvals).where(*ended).values(status=ApprovalStatus.WITHDRAWN))
            lifted = {"rejectedBy": rejections[0].decided_by, "reason": said} if rejections else {}
            await _record(tx, self._clock.now(), "withdraw", actor, found, was=found.status, **lifted)
            return await _find(tx, tenant_id, approval_id)


def _same_send(send: PlannedSend | SendApproval) -> tuple[ColumnElement[bool], ...]:
    return _a.tenant_id == send.tenant_id, _a.kind == send.kind, _a.subject == send.subject


async def _list_rejections(tx: Transaction, send: PlannedSend | SendApproval) -> list[SendApproval]:
    rejected = select(send_approvals).where(*_same_send(send), _a.status == ApprovalStatus.REJECTED)
    return [_approval(row) for row in await tx.execute(rejected.order_by(_a.id.desc()))]


async def _find_newest(tx: Transaction, planned: PlannedSend) -> SendApproval | None:
    rows = await tx.execute(select(send_approvals).where(*_same_send(planned)).order_by(_a.id.desc()).limit(1))
    return _approval(rows[0]) if rows else None


async def _request(tx: Transaction, now: Instant, planned: PlannedSend, actor: str) -> None:
    """Store a request, which replaces an earlier one of the same send."""
    # One process at a time, so that only one request waits.
    await tx.execute(select(tenants.c.id).where(tenants.c.id == planned.tenant_id).with_for_update())
    earlier = (*_same_send(planned), _a.status == ApprovalStatus.WAITING)
    await tx.execute(update(send_approvals).where(*earlier).values(status=ApprovalStatus.REPLACED))
    values = {
        "tenant_id": planned.tenant_id,
        "kind": planned.kind,
        "subject": planned.subject,
        "name": planned.name,
        "status": ApprovalStatus.WAITING,
        "digest": planned.digest,
        "recipients": planned.recipients,
        "content": orjson.dumps(planned.content).decode(),
        "requested_by": actor,
        "requested_at": now,
    }
    rows = await tx.execute(insert(send_approvals).values(**values).returning(send_approvals))
    await _record(tx, now, "request", actor, _approval(rows[0]))


async def _find(tx: Transaction, tenant_id: int, approval_id: int, *, for_update: bool = False) -> SendApproval:
    query = select(send_approvals).where(_a.id == approval_id, _a.tenant_id == tenant_id)
    rows = await tx.execute(query.with_for_update() if for_update else query)
    if not rows:
        raise NotFound("There is no such approval.")
    return _approval(rows[0])


async def _change(tx: Transaction, approval_id: int, **values: Any) -> None:
    await tx.execute(update(send_approvals).where(_a.id == approval_id).values(**values))


async def _conflict(tx: Transaction, user: User, approval: SendApproval) -> str | None:
    if not user.role.allows(Role.EDITOR):
        return f"Your role {user.role} cannot approve anything."
    if missing := await find_missing_owner(tx, approval.tenant_id, approval.requested_by, approval.requested_at):
        return missing
    if names_of(user.login, user.email) & await people_behind(tx, approval.tenant_id, approval.requested_by):
        return f"Another person must approve this {approval.kind}, because you requested the approval."
    return None


async def _record(
    tx: Transaction, now: Instant, action: str, actor: str, approval: SendApproval, **detail: Any
) -> None:
    shown = {"kind": approval.kind, "name": approval.name, "recipients": approval.recipients, "digest": approval.digest}
    await audit_log.record(
        tx,
        now,
        actor=actor,
        action=f"approval.{action}",
        subject=approval.subject,
        tenant_id=approval.tenant_id,
        detail={**shown, **detail},
    )


def _approval(row: Any) -> SendApproval:
    values = {name: getattr(row, name) for name in SendApproval.__slots__}
    kinds = {"kind": SendKind(row.kind), "status": ApprovalStatus(row.status)}
    return SendApproval(**{**values, **kinds, "content": orjson.loads(row.content)})
