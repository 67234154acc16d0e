"""Storing: a portion of people becomes contacts in one transaction. Nobody is revived, whoever is in the file.

Whoever is new is added. Whoever is known gets what the file says of them, and joins the list only if they never were on
it: status, suppressions and lists that were left stay as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from mailwright.audience.importing.rows import Person
from mailwright.audience.people import merged
from mailwright.domain.clock import Instant
from mailwright.domain.ids import uuid7s
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

_PACKAGE = "mailwright.audience"

ADD_IMPORTED = statement(_PACKAGE, "add_imported")
CHANGE_IMPORTED = statement(_PACKAGE, "change_imported")
ERASED_AMONG = statement(_PACKAGE, "erased_among")
JOIN_IMPORTED = statement(_PACKAGE, "join_imported")
KNOWN_AMONG = statement(_PACKAGE, "known_among")
TAG_IMPORTED = statement(_PACKAGE, "tag_imported")
TAGS_AMONG = statement(_PACKAGE, "tags_among")

# Who says so of a suppression that an erasure left behind.
ERASURE = "erasure"


class Outcome(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Aim:
    """Whose contacts they become, and on which list."""

    tenant_id: int
    list_key: str | None
    source: str  # names the import, wherever a subscription's source is shown
    now: Instant


Result = tuple[Outcome, str]
ADDED: Result = (Outcome.ADDED, "")


async def store(tx: Runner, people: Sequence[Person], aim: Aim) -> dict[str, Result]:
    """By address; whoever is not in the answer was added."""
    if not people:
        return {}
    ids = uuid7s(aim.now, len(people))
    rows = [_row(person, contact_id) for person, contact_id in zip(people, ids, strict=True)]
    added = await tx.count(ADD_IMPORTED, people=rows, tenant_id=aim.tenant_id, erasure=ERASURE, now=aim.now)
    results: dict[str, Result] = {}
    if added < len(people):
        results = await _meet_known(tx, {person.email: person for person in people}, rows, added, aim)
    tagged = [
        {"email": person.email, "tag": tag}
        for person in people
        if person.tags and results.get(person.email, ADDED)[0] is not Outcome.REFUSED
        for tag in person.tags
    ]
    if tagged:
        await tx.count(TAG_IMPORTED, tags=tagged, tenant_id=aim.tenant_id)
    if aim.list_key is not None:
        joining = [row for row in rows if results.get(row["email"], ADDED)[0] is not Outcome.REFUSED]
        await tx.count(
            JOIN_IMPORTED,
            people=joining,
            tenant_id=aim.tenant_id,
            list_key=aim.list_key,
            source=aim.source,
            now=aim.now,
        )
    return results


async def _meet_known(
    tx: Runner, people: dict[str, Person], rows: list[dict[str, Any]], added: int, aim: Aim
) -> dict[str, Result]:
    known = await tx.run(KNOWN_AMONG, people=rows, tenant_id=aim.tenant_id, list_key=aim.list_key)
    results: dict[str, Result] = {}
    if added + len(known) < len(people):
        erased = await tx.run(ERASED_AMONG, people=rows, tenant_id=aim.tenant_id, erasure=ERASURE)
        refused = (Outcome.REFUSED, "asked to be erased; only the person can come back")
        results.update((row.email, refused) for row in erased)
    tags = await _known_tags(tx, [row for row in known if people[row.email].tags])
    changes = []
    for row in known:
        person = people[row.email]
        if row.deleted_at is not None:
            results[row.email] = (Outcome.REFUSED, "was deleted here, and stays so")
            continue
        change = _change(row, person)
        joins = aim.list_key is not None and not row.is_member
        is_new = change is not None or joins or not tags.get(row.id, set()).issuperset(person.tags)
        if change is not None:
            changes.append(change)
        results[row.email] = (Outcome.CHANGED if is_new else Outcome.UNCHANGED, _remark(row, aim))
    if changes:
        await tx.count(CHANGE_IMPORTED, people=changes)
    return results


async def _known_tags(tx: Runner, known: Sequence[Any]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    if known:
        for row in await tx.run(TAGS_AMONG, people=[{"id": row.id} for row in known]):
            found.setdefault(row.contact_key, set()).add(row.tag)
    return found


def _change(row: Any, person: Person) -> dict[str, Any] | None:
    before = orjson.loads(row.attributes)
    attributes = merged(before, person.attributes)
    after = (person.name or row.name, person.locale or row.locale, person.timezone or row.timezone)
    if attributes == before and after == (row.name, row.locale, row.timezone):
        return None
    name, locale, timezone = after
    text = orjson.dumps(attributes).decode()
    return {"id": row.id, "name": name, "locale": locale, "timezone": timezone, "attributes": text}


def _remark(row: Any, aim: Aim) -> str:
    """What a person who looks at the report would wonder about."""
    if row.status != "active":
        return f"is {row.status}, and stays so"
    if row.has_left:
        return "has left the list, and stays off it"
    if row.joined_by == aim.source:
        return "the same address as on an earlier line"
    return ""


def _row(person: Person, contact_id: str) -> dict[str, Any]:
    return {
        "contact_id": contact_id,
        "email": person.email,
        "name": person.name,
        "locale": person.locale,
        "timezone": person.timezone,
        "attributes": orjson.dumps(person.attributes).decode() if person.attributes else "{}",
    }
