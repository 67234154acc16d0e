"""The results of moving contacts: every row of the files is counted once, by the stored status of its address."""

import csv
from collections.abc import Collection, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final

from sqlalchemy import select

from mailwright.audience import lists
from mailwright.audience.csv_cells import escape_formula
from mailwright.audience.importing.store import DELETED, ERASED, ERASING
from mailwright.audience.status import ContactStatus, SuppressionReason, find_erased
from mailwright.audience.suppressions import ALL_MESSAGES
from mailwright.audience.switching.exports import ExportedRow
from mailwright.audience.switching.vendors import MemberStatus, strongest
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox.pending_erasures import find_erasing
from mailwright.storage.database import Transaction
from mailwright.storage.tables import contacts, subscriptions, suppressions

REFUSED: Final = "refused"
REPEATED: Final = "repeated"
REPORT_TITLES: Final = ("file", "line", "email", "result", "remark")
_OF_CONTACT: Final = {
    ContactStatus.ACTIVE: MemberStatus.SUBSCRIBED,
    ContactStatus.UNSUBSCRIBED: MemberStatus.UNSUBSCRIBED,
    ContactStatus.BOUNCED: MemberStatus.BOUNCED,
}
_OF_REASON: Final[dict[str, MemberStatus]] = {
    SuppressionReason.BOUNCE: MemberStatus.BOUNCED,
    SuppressionReason.SOFT_BOUNCES: MemberStatus.BOUNCED,
    SuppressionReason.COMPLAINT: MemberStatus.COMPLAINED,
}


@dataclass(slots=True)
class SwitchCounts:
    """The number of rows by result. They add up to `rows`.

    `complained` and `already_unsubscribed` are parts of `unsubscribed`. `already_unsubscribed` counts the subscribers
    in the files who had already unsubscribed in Mailwright.
    """

    rows: int = 0
    subscribed: int = 0
    unsubscribed: int = 0
    bounced: int = 0
    refused: int = 0
    repeated: int = 0
    complained: int = 0
    already_unsubscribed: int = 0

    @property
    def adds_up(self) -> bool:
        return self.rows == self.subscribed + self.unsubscribed + self.bounced + self.refused + self.repeated


@dataclass(slots=True)
class StoredContact:
    """The stored data of an address. A contact that was deleted or erased has a `refusal`."""

    status: MemberStatus = MemberStatus.SUBSCRIBED
    subscribed: set[str] = field(default_factory=set)
    unsubscribed: set[str] = field(default_factory=set)
    refusal: str | None = None

    def suppress(self, scope: str, reason: str) -> None:
        if scope in (ALL_MESSAGES, lists.GENERAL):
            self.status = strongest((self.status, _OF_REASON.get(reason, MemberStatus.UNSUBSCRIBED)))
        else:
            self.unsubscribed.add(scope)

    def status_on(self, list_keys: Collection[str]) -> MemberStatus:
        """Return the status on these lists. A contact who unsubscribed from some of them is on the others."""
        has_left = bool(list_keys) and self.unsubscribed.issuperset(list_keys)
        return strongest((self.status, MemberStatus.LEFT_LIST)) if has_left else self.status

    def has_decided(self, list_keys: Collection[str]) -> bool:
        """Return True if a subscription or an unsubscribe is stored for one of the lists, or none is needed."""
        return not list_keys or not (self.subscribed | self.unsubscribed).isdisjoint(list_keys)


class Tally:
    """Counts the rows of all files."""

    def __init__(self, *, is_preview: bool) -> None:
        self.counts = SwitchCounts()
        self._is_preview = is_preview
        self._seen: set[str] = set()

    def judge(self, row: ExportedRow, list_keys: Collection[str], stored: StoredContact | None) -> tuple[str, str]:
        """Count a row, and return its result and a remark."""
        self.counts.rows += 1
        problem = row.problem or self._refusal(row, list_keys, stored)
        if problem is not None:
            self.counts.refused += 1
            return REFUSED, problem
        if row.email in self._seen:
            self.counts.repeated += 1
            return REPEATED, "An earlier row has the same address."
        self._seen.add(row.email)
        read = row.status or MemberStatus.SUBSCRIBED
        status = read if stored is None else strongest((read, stored.status_on(list_keys)))
        is_earlier = read is MemberStatus.SUBSCRIBED and status is not read
        self._count(status, is_earlier=is_earlier)
        return status, f"Already {status.replace('_', ' ')} here." if is_earlier else row.remark

    def _refusal(self, row: ExportedRow, list_keys: Collection[str], stored: StoredContact | None) -> str | None:
        """Return why a subscriber of the files is not stored. Contacts who must not get email are suppressed anyway."""
        if row.status is not MemberStatus.SUBSCRIBED:
            return None
        if stored is not None and stored.refusal is not None:
            return stored.refusal
        is_stored = stored is not None and stored.has_decided(list_keys)
        return None if is_stored or self._is_preview else "The contact was not stored. Move the files again."

    def _count(self, status: MemberStatus, *, is_earlier: bool) -> None:
        counts = self.counts
        if status is MemberStatus.SUBSCRIBED:
            counts.subscribed += 1
        elif status is MemberStatus.BOUNCED:
            counts.bounced += 1
        else:
            counts.unsubscribed += 1
            counts.complained += status is MemberStatus.COMPLAINED
            counts.already_unsubscribed += is_earlier


class SwitchReport:
    """Writes a line for each row, if there is a file."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else path.open("w", encoding="utf-8", newline="")

    def __enter__(self) -> "SwitchReport":
        if self._file is not None:
            csv.writer(self._file).writerow(REPORT_TITLES)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, name: str, row: ExportedRow, result: tuple[str, str]) -> None:
        if self._file is not None:
            csv.writer(self._file).writerow((name, row.line, escape_formula(row.email), *result))


async def load_stored(tx: Transaction, tenant_id: int, emails: Sequence[str]) -> dict[str, StoredContact]:
    """Return the stored data of these addresses. Unknown addresses are missing, unless they were erased."""
    columns = (contacts.c.id, contacts.c.email, contacts.c.status, contacts.c.deleted_at)
    known = await tx.execute(select(*columns).where(contacts.c.tenant_id == tenant_id, contacts.c.email.in_(emails)))
    erasing = await find_erasing(tx, [(tenant_id, row.email) for row in known if row.deleted_at is not None])
    deleted = {row.email: ERASING if (tenant_id, row.email) in erasing else DELETED for row in known if row.deleted_at}
    found = {row.email: StoredContact(_OF_CONTACT[row.status], refusal=deleted.get(row.email)) for row in known}
    by_key = {row.id: found[row.email] for row in known}
    unknown = {(tenant_id, email) for email in emails if email not in found}
    found |= {email: StoredContact(refusal=ERASED) for _, email in await find_erased(tx, unknown)}
    entries = select(suppressions.c.email, suppressions.c.list_key, suppressions.c.reason)
    mine = (suppressions.c.tenant_id == tenant_id, suppressions.c.email.in_(emails))
    for row in await tx.execute(entries.where(*mine)):
        found.setdefault(row.email, StoredContact()).suppress(row.list_key, row.reason)
    memberships = select(subscriptions.c.contact_key, subscriptions.c.list_key, subscriptions.c.unsubscribed_at)
    for row in await tx.execute(memberships.where(subscriptions.c.contact_key.in_(list(by_key)))):
        contact = by_key[row.contact_key]
        (contact.subscribed if row.unsubscribed_at is None else contact.unsubscribed).add(row.list_key)
    return found
