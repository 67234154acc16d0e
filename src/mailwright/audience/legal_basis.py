"""The legal basis for bulk email to a contact who has not subscribed, with the actor, time and source of the record."""

from enum import StrEnum
from typing import Any, Final

from mailwright.domain.clock import Instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass

NO_BASIS: Final = "none"
MAX_SOURCE_LENGTH: Final = 200


class LegalBasis(StrEnum):
    """The legal bases in data protection laws, for example in article 6 of the GDPR."""

    CONSENT = "consent"
    CONTRACT = "contract"
    LEGAL_OBLIGATION = "legal_obligation"
    VITAL_INTERESTS = "vital_interests"
    PUBLIC_TASK = "public_task"
    LEGITIMATE_INTEREST = "legitimate_interest"


@dataclass(frozen=True, slots=True)
class LegalBasisRecord:
    """A legal basis to record. A `basis` of None removes it. `source` is the evidence, for example a contract."""

    basis: LegalBasis | None
    source: str
    by: str

    def columns(self, now: Instant) -> dict[str, Any]:
        """Return the new values of the columns of `contacts`. A removal is stored with its actor and time."""
        return {
            "legal_basis": None if self.basis is None else self.basis.value,
            "legal_basis_source": self.source,
            "legal_basis_by": self.by,
            "legal_basis_at": now,
        }


def parse_legal_basis(text: str) -> LegalBasis | None:
    """Return the legal basis, or None for `none`."""
    if text == NO_BASIS:
        return None
    try:
        return LegalBasis(text)
    except ValueError as error:
        known = ", ".join([*LegalBasis, NO_BASIS])
        raise InvalidInput("The legal basis must be one of {known}.", field="legalBasis", known=known) from error


def check_source(text: str) -> str:
    line = " ".join(text.split())
    if not 1 <= len(line) <= MAX_SOURCE_LENGTH or not line.isprintable():
        raise InvalidInput(
            "The source of a legal basis has 1 to {max_length} printable characters.",
            field="legalBasisSource",
            max_length=MAX_SOURCE_LENGTH,
        )
    return line


def legal_basis_record(name: str | None, source: str | None, actor: str) -> LegalBasisRecord | None:
    """Return the legal basis to record, where `none` removes the stored one. If `name` is None, change nothing."""
    if name is None:
        return None
    return LegalBasisRecord(parse_legal_basis(name), check_source(source or actor), actor)
