"""Parse a record of a file into a contact, or raise an error with the reason why it is refused."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mailwright.audience import contact_fields
from mailwright.audience.contact_fields import InvalidContact
from mailwright.audience.csv_cells import unescape_formula
from mailwright.audience.importing.columns import ANSWERS, FIELDS, SKIPPED, ImportColumn
from mailwright.audience.importing.subscription_answers import SubscriptionAnswer, read_answer
from mailwright.audience.importing.value_formats import ColumnFormat, convert, odd_cell_remark
from mailwright.audience.tracking_consent import normalize_consent
from mailwright.domain import address
from mailwright.domain.divisions import OCD_IDS
from mailwright.domain.lazy_dataclass import dataclass

_SHOWN: Final = 40  # characters of a value in a remark


@dataclass(slots=True)
class ContactRow:
    """The values of one row. An empty value keeps the stored one."""

    email: str
    name: str | None
    locale: str | None
    timezone: str | None
    tags: tuple[str, ...]
    attributes: dict[str, Any]
    remark: str = ""  # for the report
    tracking_consent: str | None = None  # the wording that the contact agreed to, or `no`
    answer: SubscriptionAnswer | None = None  # to the newsletter; None if the file does not ask
    proof: str = ""  # where the answer stands in the file

    def merge(self, later: "ContactRow") -> None:
        """Merge another row of the same address."""
        self.name = later.name or self.name
        self.locale = later.locale or self.locale
        self.timezone = later.timezone or self.timezone
        self.tags = tuple(sorted({*self.tags, *later.tags}))
        self.attributes = {**self.attributes, **later.attributes}
        self.tracking_consent = later.tracking_consent or self.tracking_consent
        if later.answer is not None:
            merged = later.answer.merge(self.answer)
            self.answer, self.proof = merged, self.proof if merged is self.answer else later.proof


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that is not imported."""

    email: str  # as written
    reason: str


class RowReader:
    """Converts rows to contacts, according to the columns of the file."""

    def __init__(self, columns: Sequence[ImportColumn], tags: Sequence[str] = ()) -> None:
        self._width = len(columns)
        at = {column.target: number for number, column in enumerate(columns) if column.target in FIELDS}
        self._email, self._name_at, self._tags_at = at["email"], at.get("name"), at.get("tags")
        self._optional = {target: (at[target], columns[at[target]].title) for target in _OPTIONAL if target in at}
        self._attributes = [
            (column.target, number)
            for number, column in enumerate(columns)
            if column.target not in FIELDS and column.target != SKIPPED
        ]
        self._answers = [(columns[at[target]], at[target]) for target in ANSWERS if target in at]
        self._tags = tuple(tags)
        self._formats = [(column.target, column.title, column.format) for column in columns if has_format(column)]

    def read(self, cells: list[str]) -> ContactRow:
        if len(cells) != self._width:
            self._fit_cells(cells)
        whole = "".join(cells)
        attributes: dict[str, Any] = {}
        if "'" in whole:
            for key, number in self._attributes:
                if text := cells[number].strip():
                    attributes[key] = unescape_formula(text)
        else:  # Nearly every row has nothing to unescape.
            for key, number in self._attributes:
                if text := cells[number].strip():
                    attributes[key] = text
        if len(whole) > contact_fields.MAX_ATTRIBUTE_LENGTH or not whole.isprintable():
            _check(cells, attributes)
        name, email = self._name(cells, attributes), self.address(cells)
        if not email:
            raise InvalidContact("The row has no address.", field="email")
        if email.endswith(">"):
            written_name, email = address.split_mailbox(email)
            name = name or written_name
        remarks: list[str] = []
        locale, timezone, consent = (self._read_optional(cells, target, remarks) for target in _OPTIONAL)
        if self._formats or OCD_IDS in attributes:
            remarks += self._remarks(attributes)
        answer, proof = self._read_answers(cells, remarks) if self._answers else (None, "")
        return ContactRow(
            contact_fields.normalize_deliverable_email(email),
            name,
            locale,
            timezone,
            self._tags_of(cells[self._tags_at]) if self._tags_at is not None else self._tags,
            attributes,
            "; ".join(remarks),
            consent,
            answer,
            proof,
        )

    def address(self, cells: list[str]) -> str:
        """Return the cell of the address, as it is written."""
        text = cells[self._email].strip() if self._email < len(cells) else ""
        return unescape_formula(text if text.isascii() else address.trim(text))

    def _read_optional(self, cells: list[str], target: str, remarks: list[str]) -> str | None:
        """Return an optional value. Leave an invalid one empty with a remark, so that the contact is still imported."""
        if target not in self._optional:
            return None
        number, title = self._optional[target]
        try:
            return _OPTIONAL[target][0](cells[number])
        except InvalidContact:
            remarks.append(f"{title}: {optional_problem(target, cells[number])}; left empty")
            return None

    def _read_answers(self, cells: list[str], remarks: list[str]) -> tuple[SubscriptionAnswer | None, str]:
        """Return the answer to the newsletter and where it stands. A no in any of the columns counts."""
        answer, proof = None, ""
        for column, number in self._answers:
            text = unescape_formula(cells[number].strip())
            found = read_answer(text, is_opt_out=column.target == "opted_out")
            if found is None or (answer is not None and found.merge(answer) is answer):
                continue
            answer, proof = found, f"{column.title}: {text[:_SHOWN]}"
        if answer not in (None, SubscriptionAnswer.YES):
            remarks.append(_NOT_SUBSCRIBED[answer].format(proof=proof, title=proof.partition(":")[0]))
        return answer, proof

    def _remarks(self, attributes: dict[str, Any]) -> list[str]:
        """Convert numbers and dates, and return remarks about values that do not have the format of their column."""
        problem = contact_fields.division_problem(attributes)
        remarks = [problem] if problem else []
        for target, title, format_ in self._formats:
            if (text := attributes.get(target)) is None:
                continue
            if (value := convert(text, format_)) is None:
                remarks.append(odd_cell_remark(title, text, format_))
            else:
                attributes[target] = value
        return remarks

    def _fit_cells(self, cells: list[str]) -> None:
        """Adjust the number of cells, because spreadsheets omit or add empty cells at the end of a row."""
        if any(cell.strip() for cell in cells[self._width :]):
            raise InvalidContact(
                "The row has {count} cells, but the file has {width} columns.", count=len(cells), width=self._width
            )
        del cells[self._width :]
        cells.extend("" for _ in range(self._width - len(cells)))

    def _name(self, cells: list[str], attributes: dict[str, Any]) -> str | None:
        if self._name_at is not None:
            return contact_fields.normalize_name(unescape_formula(cells[self._name_at].strip()))
        if "first_name" in attributes or "last_name" in attributes:
            return contact_fields.normalize_name(
                f"{attributes.get('first_name', '')} {attributes.get('last_name', '')}"
            )
        return None

    def _tags_of(self, text: str) -> tuple[str, ...]:
        if not text:
            return self._tags
        return contact_fields.normalize_tags(
            [*self._tags, *(unescape_formula(tag.strip().strip('"')) for tag in text.replace(";", ",").split(","))]
        )


_BECAUSE_OF_FILE: Final = "not subscribed, because the file says"
_NOT_SUBSCRIBED: Final = {
    SubscriptionAnswer.NO: f"{_BECAUSE_OF_FILE} {{proof}}",
    SubscriptionAnswer.EMPTY: "not subscribed by this row, because {title} is empty",
    SubscriptionAnswer.UNREADABLE: "not subscribed by this row, because {proof} is neither yes nor no",
}


def despite_file(remark: str) -> str:
    """Return the remark of a row whose contact stays subscribed although the file says no."""
    return remark.replace(_BECAUSE_OF_FILE, "the file says")


# The parser of each optional field, and the description of a valid value.
_OPTIONAL: Final[Mapping[str, tuple[Callable[[str], str | None], str]]] = {
    "locale": (contact_fields.normalize_locale, "a locale such as pt or pt-BR"),
    "timezone": (contact_fields.normalize_timezone, "an IANA time zone such as Europe/Lisbon"),
    "tracking_consent": (normalize_consent, "the wording that the contact agreed to, or no"),
}


def optional_problem(target: str, text: str) -> str | None:
    """Return the reason why a value of an optional field is left empty, or None if it is valid."""
    read, wanted = _OPTIONAL[target]
    try:
        read(text)
    except InvalidContact:
        return f"{text.strip()[:_SHOWN]!r} is not {wanted}"
    return None


def is_optional(column: ImportColumn) -> bool:
    """Return whether an invalid value of a column leaves the field empty."""
    return column.target in _OPTIONAL


def has_format(column: ImportColumn) -> bool:
    """Return whether the values of a column are converted."""
    return column.format not in ("", ColumnFormat.TEXT)


def _check(cells: Sequence[str], attributes: dict[str, Any]) -> None:
    for cell in cells:
        if "\0" in cell:
            raise InvalidContact("The row contains a character that cannot be stored.")
        try:
            cell.encode()
        except UnicodeEncodeError as error:
            raise InvalidContact("The row contains bytes that are not valid in the encoding of the file.") from error
    for text in attributes.values():
        contact_fields.check_attribute_text(text)
