"""A no in an imported file: an unsubscribe whose source is the import, its file, line, column and answer.

The contact lifts it, by confirming a sign-up or on the preference page, or somebody who subscribes this one contact and
states that they agreed. An operator lifts it by removing the suppression or, without a list, by activating the contact.
An own unsubscribe replaces it.
"""

from collections.abc import Iterable
from typing import Final

from mailwright.audience.contact_fields import normalize_email
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

OBJECTIONS = statement(__package__, "objections")
# The sources of imports begin with this; `sql/objections.sql`, `sql/ask_imported.sql` and `sql/suppress.sql` use
# the same value.
IMPORT_SOURCE: Final = "import:"


@dataclass(frozen=True, slots=True)
class Objection:
    email: str
    list_key: str  # `general` if the file was imported without a list
    source: str

    @property
    def proof(self) -> str:
        """Return the file, line, column and answer."""
        return proof_in(self.source)

    def applies_to(self, list_key: str | None) -> bool:
        """Whether the objection ends email of this list. `None` stands for all bulk email."""
        return self.list_key in (GENERAL, list_key or GENERAL)


def proof_in(source: str) -> str:
    """Return the file, line, column and answer that a source names, or an empty string if it is no such import."""
    return source.partition(" (")[2].removesuffix(")") if source.startswith(IMPORT_SOURCE) else ""


async def find_objections(tx: Runner, tenant_id: int, emails: Iterable[str]) -> dict[str, list[Objection]]:
    """Return the objections by address."""
    rows = [(normalize_email(email),) for email in emails]
    found: dict[str, list[Objection]] = {}
    for row in await tx.run(OBJECTIONS, contacts=rows, tenant_id=tenant_id) if rows else ():
        found.setdefault(row.email, []).append(Objection(row.email, row.list_key, row.source))
    return found


async def has_objected(tx: Runner, tenant_id: int, email: str, list_key: str) -> bool:
    """Return whether a file says that this contact wants no email of this list."""
    found = await find_objections(tx, tenant_id, [email])
    return any(each.applies_to(list_key) for every in found.values() for each in every)
