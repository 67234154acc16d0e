"""Records of reads: how much of the table was read for a run, and the recipients that have no message yet."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import orjson
from sqlalchemy import delete, func, insert, select, update

from mailwright.domain.clock import Instant
from mailwright.domain.ids import uuid7s
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox.accept import insert_contacts
from mailwright.sources.articles.profiles.rows import Profile
from mailwright.storage.database import Transaction
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement
from mailwright.storage.tables import profile_reads, profile_recipients

_PACKAGE = "mailwright.sources.articles"
DELETE_PROFILES = statement(_PACKAGE, "delete_profiles")
EXCLUDED_ADDRESSES = statement(_PACKAGE, "excluded_addresses")
FIND_CONTACTS = statement(_PACKAGE, "find_contacts")
LOCK_READ = statement(_PACKAGE, "lock_read")
MOVE_PROFILES = statement(_PACKAGE, "move_profiles")
STAGE_PROFILES = statement(_PACKAGE, "stage_profiles")

# Refused rows whose reasons are stored for each run. All are counted and logged.
MAX_REFUSALS = 20


@dataclass(frozen=True, slots=True)
class RefusedProfile:
    """A row that cannot be used. The address is masked."""

    email: str
    reason: str


@dataclass(frozen=True, slots=True)
class ProfileRead:
    """How far the table was read for a run."""

    source: str
    read_to: str | None
    ended_at: Instant | None
    rows_read: int
    matched: int
    refused: int
    excluded: int
    suppressed: int
    refusals: tuple[RefusedProfile, ...]
    problem: str | None

    @property
    def is_complete(self) -> bool:
        return self.ended_at is not None


@dataclass(frozen=True, slots=True)
class ReadPage:
    """What one page of the table contributes to a run."""

    rows: int
    matching: tuple[Profile, ...]
    excluded: tuple[str, ...]  # addresses whose rows have the status unsubscribed or bounced
    refused: tuple[RefusedProfile, ...]


@dataclass(frozen=True, slots=True)
class ReadRecipient:
    """A recipient that was read, with its contact."""

    contact_key: int
    email: str
    name: str | None
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RecipientBatch:
    """The next recipients of a run by address. `last` is None if there are none."""

    recipients: list[ReadRecipient]
    read: int
    last: str | None

    @property
    def suppressed(self) -> int:
        return self.read - len(self.recipients)


async def insert_read(tx: Transaction, run_key: int, source: str) -> None:
    counts = dict.fromkeys(("rows_read", "matched", "refused", "excluded", "suppressed"), 0)
    await tx.execute(insert(profile_reads).values(run_key=run_key, source=source, refusals="[]", **counts))


async def load_reads(tx: Transaction, run_keys: Collection[int]) -> dict[int, ProfileRead]:
    if not run_keys:
        return {}
    rows = await tx.execute(select(profile_reads).where(profile_reads.c.run_key.in_(run_keys)))
    return {row.run_key: _read(dict(row._mapping)) for row in rows}


async def store_page(tx: Transaction, run_key: int, read: ProfileRead, page: ReadPage, read_to: str) -> bool:
    """Store a page and move the read. Return False if another process has moved it, or the run has ended."""
    if not await _lock(tx, run_key, read):
        return False
    staged: dict[str, tuple[str, str | None, str, bool]] = {email: (email, None, "{}", True) for email in page.excluded}
    for profile in page.matching:
        row = (profile.email, profile.name, orjson.dumps(profile.attributes).decode(), False)
        staged.setdefault(profile.email, row)
    if staged:
        await tx.count(STAGE_PROFILES, run_key=run_key, profiles=list(staged.values()))
    c = profile_reads.c
    refusals = [*read.refusals, *page.refused][:MAX_REFUSALS]
    moved = {
        "read_to": read_to,
        "rows_read": c.rows_read + page.rows,
        "matched": c.matched + len(staged.keys() - set(page.excluded)),
        "refused": c.refused + len(page.refused),
        "excluded": c.excluded + len(page.excluded),
        "refusals": orjson.dumps([{"email": each.email, "reason": each.reason} for each in refusals]).decode(),
        "problem": None,
    }
    await tx.execute(update(profile_reads).where(c.run_key == run_key).values(**moved))
    return True


async def end_read(tx: Transaction, run_key: int, read: ProfileRead, now: Instant) -> bool:
    """Mark the read as complete, so that messages can be created. Return False as `store_page` does."""
    if not await _lock(tx, run_key, read):
        return False
    theirs = (profile_recipients.c.run_key == run_key, profile_recipients.c.is_excluded.is_(False))
    [[matched]] = await tx.execute(select(func.count()).select_from(profile_recipients).where(*theirs))
    # The cursor is an address, which is not kept longer than necessary.
    ended = {"read_to": None, "ended_at": now, "matched": matched, "problem": None}
    await tx.execute(update(profile_reads).where(profile_reads.c.run_key == run_key).values(**ended))
    return True


async def note_problem(tx: Transaction, run_key: int, problem: str) -> None:
    await tx.execute(update(profile_reads).where(profile_reads.c.run_key == run_key).values(problem=problem[:1_000]))


async def discard_recipients(tx: Transaction, run_keys: Iterable[int]) -> None:
    """Delete what was read for runs that ended, because nobody else gets a message."""
    keys = list(run_keys)
    await tx.execute(delete(profile_recipients).where(profile_recipients.c.run_key.in_(keys)))
    await tx.execute(update(profile_reads).where(profile_reads.c.run_key.in_(keys)).values(read_to=None))


async def next_recipients(
    tx: Transaction, run_key: int, tenant_id: int, list_key: str, *, after: str, limit: int, now: Instant
) -> RecipientBatch:
    """Return the next recipients of a run. Unknown ones become contacts, as in mailouts."""
    p = profile_recipients.c
    wanted = (p.run_key == run_key, p.email > after, p.is_excluded.is_(False))
    rows = await tx.execute(select(p.email, p.name, p.attributes).where(*wanted).order_by(p.email).limit(limit))
    if not rows:
        return RecipientBatch([], 0, None)
    excluded = await find_excluded(tx, tenant_id, list_key, [row.email for row in rows])
    people = [row for row in rows if row.email not in excluded]
    ids = uuid7s(now, len(people))
    contacts = [
        {"contact_id": contact_id, "tenant_id": tenant_id, "email": row.email, "name": None}
        for contact_id, row in zip(ids, people, strict=True)
    ]
    keys: dict[str, int] = {}
    if people:
        await insert_contacts(tx, contacts, now)
        found = await tx.run(FIND_CONTACTS, tenant_id=tenant_id, people=[(row.email,) for row in people])
        keys = {row.email: row.id for row in found}
    recipients = [
        ReadRecipient(keys[row.email], row.email, row.name, orjson.loads(row.attributes))
        for row in people
        if row.email in keys
    ]
    return RecipientBatch(recipients, len(rows), rows[-1].email)


async def find_excluded(tx: Runner, tenant_id: int, list_key: str, emails: Collection[str]) -> set[str]:
    """Return the addresses that get no bulk email of the list, whatever the table says."""
    if not emails:
        return set()
    people = [(email,) for email in emails]
    rows = await tx.run(EXCLUDED_ADDRESSES, tenant_id=tenant_id, list_key=list_key, people=people)
    return {row.email for row in rows}


async def remove_accepted(tx: Runner, run_key: int, *, email: str, is_last: bool, suppressed: int) -> None:
    """Delete the recipients whose messages were just accepted, in the same transaction."""
    await tx.count(DELETE_PROFILES, run_key=run_key, email=email, is_last=is_last)
    if suppressed:
        await tx.count(MOVE_PROFILES, run_key=run_key, suppressed=suppressed)


async def _lock(tx: Transaction, run_key: int, read: ProfileRead) -> bool:
    rows = await tx.run(LOCK_READ, run_key=run_key)
    if not rows or rows[0].ended_at is not None or rows[0].enqueue_ended_at is not None:
        return False
    return bool(rows[0].read_to == read.read_to)


def _read(values: Mapping[str, Any]) -> ProfileRead:
    refusals = tuple(RefusedProfile(**each) for each in orjson.loads(values["refusals"]))
    own = {name: value for name, value in values.items() if name not in ("run_key", "refusals")}
    return ProfileRead(**own, refusals=refusals)
