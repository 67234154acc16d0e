"""Storing: a portion of people becomes contacts in one transaction. Nobody is revived, whoever is in the file.

Whoever is new is added. Whoever is known gets what the file says of them, and joins the list only if they never were on
it: status, suppressions and lists that were left stay as they are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import orjson

from mailwright.audience.contact_fields import merge_attributes
from mailwright.audience.importing.rows import ContactRow
from mailwright.domain.clock import Instant
from mailwright.domain.ids import uuid7s
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

_PACKAGE = "mailwright.audience"

ADD_IMPORTED = statement(_PACKAGE, "add_imported")
CHANGE_IMPORTED = statement(_PACKAGE, "change_imported")
ERASED_IMPORTED = statement(_PACKAGE, "erased_imported")
SUBSCRIBE_IMPORTED = statement(_PACKAGE, "subscribe_imported")
KNOWN_CONTACTS = statement(_PACKAGE, "known_contacts")
TAG_IMPORTED = statement(_PACKAGE, "tag_imported")
TAGS_OF_CONTACTS = statement(_PACKAGE, "tags_of_contacts")

# Who says so of a suppression that an erasure left behind.
ERASURE = "erasure"
# How someone stands to the list, in the words of `known_among.sql`: who is on it, or left it, stays so.
ON_IT, LEFT = "on", "left"


class RowOutcome(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ImportTarget:
    """Whose contacts they become, and on which list."""

    tenant_id: int
    list_key: str | None
    source: str  # names the import, wherever a subscription's source is shown
    now: Instant


REPEATED: Final = "the same address as on an earlier line"
RowResult = tuple[RowOutcome, str]
# What is stored of someone: address, name, locale, time zone, attributes as JSON.
ContactValues = tuple[str, str | None, str | None, str | None, str]


def contact_values(people: Iterable[ContactRow]) -> list[ContactValues]:
    return [
        (
            person.email,
            person.name,
            person.locale,
            person.timezone,
            orjson.dumps(person.attributes).decode() if person.attributes else "{}",
        )
        for person in people
    ]


async def store_batch(
    tx: Runner, people: Mapping[str, ContactRow], stored: Sequence[ContactValues], aim: ImportTarget
) -> dict[str, RowResult]:
    """By address; whoever is not in the answer was added."""
    if not people:
        return {}
    ids = uuid7s(aim.now, len(stored))
    rows = [(contact_id, *each) for contact_id, each in zip(ids, stored, strict=True)]
    added = await tx.count(ADD_IMPORTED, contacts=rows, tenant_id=aim.tenant_id, erasure=ERASURE, now=aim.now)
    results: dict[str, RowResult] = {}
    settled: set[str] = set()
    if added < len(people):
        results, settled = await _meet_known(tx, people, rows, added, aim)
    tagged = [
        (email, tag)
        for email, person in people.items()
        if person.tags and (email not in results or results[email][0] is not RowOutcome.REFUSED)
        for tag in person.tags
    ]
    if tagged:
        await tx.count(TAG_IMPORTED, tags=tagged, tenant_id=aim.tenant_id)
    joining = [(email,) for email in people if email not in settled] if settled else [(email,) for email in people]
    if joining and aim.list_key is not None:
        await tx.count(
            SUBSCRIBE_IMPORTED,
            contacts=joining,
            tenant_id=aim.tenant_id,
            list_key=aim.list_key,
            source=aim.source,
            now=aim.now,
        )
    return results


async def _meet_known(
    tx: Runner, people: Mapping[str, ContactRow], rows: Sequence[tuple[str | None, ...]], added: int, aim: ImportTarget
) -> tuple[dict[str, RowResult], set[str]]:
    """What became of each, and those of whom the list is to be told nothing."""
    looked_for = [row[:2] for row in rows]
    known = await tx.run(KNOWN_CONTACTS, contacts=looked_for, tenant_id=aim.tenant_id, list_key=aim.list_key)
    results: dict[str, RowResult] = {}
    if added + len(known) < len(people):
        erased = await tx.run(
            ERASED_IMPORTED, contacts=[row[1:] for row in looked_for], tenant_id=aim.tenant_id, erasure=ERASURE
        )
        refused = (RowOutcome.REFUSED, "asked to be erased; only the person can come back")
        results.update((row.email, refused) for row in erased)
    settled = set(results)
    tags = await _known_tags(tx, [row for row in known if people[row.email].tags])
    changes = []
    for row in known:
        person = people[row.email]
        if row.deleted_at is not None:
            results[row.email] = (RowOutcome.REFUSED, "was deleted here, and stays so")
            settled.add(row.email)
            continue
        change = _change(row, person)
        standing, _, joined_by = (row.listed or "").partition(" ")
        joins = aim.list_key is not None and not standing
        is_new = change is not None or joins or not tags.get(row.id, set()).issuperset(person.tags)
        if change is not None:
            changes.append(change)
        if standing in (ON_IT, LEFT):
            settled.add(row.email)
        why = _remark(row.status, standing, is_again=joined_by == aim.source)
        results[row.email] = (RowOutcome.CHANGED if is_new else RowOutcome.UNCHANGED, why)
    if changes:
        await tx.count(CHANGE_IMPORTED, contacts=changes)
    return results, settled


async def _known_tags(tx: Runner, known: Sequence[Any]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    if known:
        for row in await tx.run(TAGS_OF_CONTACTS, contacts=[(row.id,) for row in known]):
            found.setdefault(row.contact_key, set()).add(row.tag)
    return found


def _change(row: Any, person: ContactRow) -> tuple[Any, ...] | None:
    """The row's key and what is to be known then, where that is something new."""
    before = orjson.loads(row.attributes)
    attributes = merge_attributes(before, person.attributes)
    after = (person.name or row.name, person.locale or row.locale, person.timezone or row.timezone)
    if attributes == before and after == (row.name, row.locale, row.timezone):
        return None
    return (row.id, *after, orjson.dumps(attributes).decode())


def _remark(status: str, standing: str, *, is_again: bool) -> str:
    """What a person who looks at the report would wonder about."""
    if status != "active":
        return f"is {status}, and stays so"
    if standing == LEFT:
        return "has left the list, and stays off it"
    return REPEATED if is_again else ""
