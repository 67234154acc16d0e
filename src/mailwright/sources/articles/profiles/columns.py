"""The columns of the table of recipients, as `MAILWRIGHT_PROFILES_COLUMNS` names them."""

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from mailwright.audience import contact_fields
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.lazy_dataclass import dataclass

URL: Final = "MAILWRIGHT_PROFILES_URL"
KEY: Final = "MAILWRIGHT_PROFILES_KEY"
TABLE: Final = "MAILWRIGHT_PROFILES_TABLE"
COLUMNS: Final = "MAILWRIGHT_PROFILES_COLUMNS"

# The value for a column that the table does not have.
NO_COLUMN: Final = "-"
# Fields with a meaning of their own. All others are attributes, for filters and placeholders.
REQUIRED: Final = ("email", "ocd_ids")
OPTIONAL: Final = ("state", "lists", "status", "name")

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ProfileColumns:
    """Column names. An optional column that is None is neither read nor written."""

    email: str = "email"
    ocd_ids: str = "ocd_ids"
    state: str | None = "state"
    lists: str | None = "lists"
    status: str | None = "mail_status"
    name: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def by_field(self) -> dict[str, str]:
        """The columns that are read, by field."""
        fields = {name: getattr(self, name) for name in (*REQUIRED, *OPTIONAL)}
        return {name: column for name, column in {**fields, **self.attributes}.items() if column is not None}


@dataclass(frozen=True, slots=True)
class TableName:
    name: str
    schema: str | None = None

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


def parse_columns(given: Mapping[str, str]) -> ProfileColumns:
    """Parse `email=address, name=full_name, city=town, status=-`."""
    known: dict[str, str | None] = {}
    attributes: dict[str, str] = {}
    for name, column in given.items():
        if column != NO_COLUMN and not _NAME.fullmatch(column):
            raise ConfigurationInvalid(f"{name}={column}: a column may contain only letters, digits and underscores")
        if column == NO_COLUMN and name not in OPTIONAL:
            raise ConfigurationInvalid(f"{name} is required; only {', '.join(OPTIONAL)} can be left out")
        if name in (*REQUIRED, *OPTIONAL):
            known[name] = None if column == NO_COLUMN else column
        else:
            attributes[_attribute(name)] = column
    columns = ProfileColumns(**known, attributes=attributes)  # type: ignore[arg-type]
    read = [column for name, column in columns.by_field.items() if name != "status"]
    if columns.status in read:
        raise ConfigurationInvalid(f"status={columns.status}: Mailwright writes this column, so give it its own")
    return columns


def parse_table(text: str) -> TableName:
    """Parse `profiles` or `public.profiles`."""
    schema, dot, name = text.strip().rpartition(".")
    if not _NAME.fullmatch(name) or (dot and not _NAME.fullmatch(schema)):
        raise ConfigurationInvalid("must be the name of a table, for example profiles or public.profiles")
    return TableName(name, schema if dot else None)


def _attribute(name: str) -> str:
    try:
        return contact_fields.check_attribute_name(name)
    except contact_fields.InvalidContact as error:
        raise ConfigurationInvalid(f"{name}: {error}") from error
