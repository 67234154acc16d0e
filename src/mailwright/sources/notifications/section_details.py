"""Details of sections from the optional tables of a queue: the section, its course and its meetings."""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Text, cast, select

from mailwright.sources.notifications.jobs import SectionDetails
from mailwright.sources.notifications.tables import QueueTables
from mailwright.storage.database import Transaction


async def detected_section(
    tx: Transaction, tables: QueueTables, *, section_id: int | None, term_id: str, campus_code: str, index_number: str
) -> SectionDetails:
    """Return the section of a subject as the queue's tables describe it now. Nothing if it is unknown or ambiguous.

    The section is given, or the only one with the subject's index number, or the one that its subscribers chose.
    """
    found = (
        [section_id] if section_id is not None else await _sections_of(tx, tables, term_id, campus_code, index_number)
    )
    if len(found) != 1:
        return SectionDetails()
    known = (await load_details(tx, tables, found)).get(found[0])
    return known or SectionDetails({"section_id": found[0]})


async def _sections_of(
    tx: Transaction, tables: QueueTables, term_id: str, campus_code: str, index_number: str
) -> list[Any]:
    subject = {"index_number": index_number, "term_id": term_id, "campus_code": campus_code}
    for known in (tables.sections, tables.subscriptions):
        if known is None or "index_number" not in known.c or "section_id" not in known.c:
            continue
        matches = [cast(known.c[name], Text) == value for name, value in subject.items() if name in known.c]
        rows = await tx.execute(
            select(known.c.section_id).where(*matches, known.c.section_id.is_not(None)).distinct().limit(2)
        )
        if rows:
            return [row.section_id for row in rows]
    return []


async def load_details(tx: Transaction, tables: QueueTables, sections: Collection[Any]) -> dict[Any, SectionDetails]:
    known = tables.sections
    if known is None or not sections:
        return {}
    rows = await tx.execute(select(known).where(known.c.section_id.in_(list(sections))))
    found = {row.section_id: dict(row._mapping) for row in rows}
    courses = await _courses(tx, tables, {each for row in found.values() if (each := row.get("course_id")) is not None})
    meetings = await _meetings(tx, tables, sections)
    return {
        key: SectionDetails(section, courses.get(section.get("course_id"), {}), meetings.get(key, ()))
        for key, section in found.items()
    }


async def _courses(tx: Transaction, tables: QueueTables, keys: Collection[Any]) -> dict[Any, Mapping[str, Any]]:
    known = tables.courses
    if known is None or not keys:
        return {}
    rows = await tx.execute(select(known).where(known.c.course_id.in_(list(keys))))
    return {row.course_id: dict(row._mapping) for row in rows}


async def _meetings(
    tx: Transaction, tables: QueueTables, sections: Collection[Any]
) -> dict[Any, list[Mapping[str, Any]]]:
    known = tables.meetings
    if known is None:
        return {}
    found: dict[Any, list[Mapping[str, Any]]] = {}
    for row in await tx.execute(select(known).where(known.c.section_id.in_(list(sections)))):
        found.setdefault(row.section_id, []).append(dict(row._mapping))
    return found
