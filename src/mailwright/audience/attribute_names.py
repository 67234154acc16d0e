"""Find attribute names in a filter that no contact has, but that some contact has in a different case."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select, true

from mailwright.audience.eligibility import is_known
from mailwright.audience.filters import values_named
from mailwright.storage.database import Transaction
from mailwright.storage.expressions import json_members, json_text, lower_ascii
from mailwright.storage.tables import contacts


async def find_case_mistakes(tx: Transaction, tenant_id: int, filter_: Mapping[str, Any]) -> dict[str, str]:
    """Return, for each attribute that the filter spells in the wrong case, the existing name.

    A name that some contact has takes one short lookup. Only an unknown name needs a scan.
    """
    mistakes: dict[str, str] = {}
    for name in sorted(set(values_named(filter_, "attribute"))):
        if not await _is_used(tx, tenant_id, name) and (existing := await _find_other_case(tx, tenant_id, name)):
            mistakes[name] = existing
    return mistakes


def case_mistake_sentence(name: str, existing: str) -> str:
    return f"No contact has the attribute {name}, but contacts have {existing}. Names of attributes are case-sensitive."


async def _is_used(tx: Transaction, tenant_id: int, name: str) -> bool:
    has_it = json_text(contacts.c.attributes, name).is_not(None)
    return bool(await tx.execute(select(contacts.c.id).where(is_known(tenant_id), has_it).limit(1)))


async def _find_other_case(tx: Transaction, tenant_id: int, name: str) -> str | None:
    member = json_members(contacts.c.attributes).table_valued("key")
    named = select(member.c.key).select_from(contacts.join(member, true()))
    rows = await tx.execute(named.where(is_known(tenant_id), lower_ascii(member.c.key) == name.lower()).limit(1))
    return str(rows[0].key) if rows else None
