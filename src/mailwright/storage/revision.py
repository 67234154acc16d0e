"""The revisions of the schema, in order. Each is a file in `migrations/versions/` that declares its steps."""

import re
from functools import cache
from pathlib import Path
from runpy import run_path
from typing import Final

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.storage.statements import Dialect

VERSIONS: Final = Path(__file__).parent / "migrations" / "versions"
_FILE: Final = re.compile(r"(\d{4})_\w+\.py")
_INDEX: Final = re.compile(r"(?P<verb>CREATE|DROP)(?P<kind>(?: UNIQUE)? INDEX) (?P<name>\w+)(?P<rest>.*)", re.DOTALL)
_COMMENT: Final = re.compile(r"--[^\n]*\n")


@dataclass(frozen=True, slots=True)
class SchemaStatement:
    """A statement for each engine. Neighbouring statements run in one transaction; an empty one does nothing."""

    sqlite: str
    postgresql: str

    def text(self, dialect: Dialect) -> str:
        return self.sqlite if dialect == "sqlite" else self.postgresql


@dataclass(frozen=True, slots=True)
class IndexChange:
    """Create or delete an index. On PostgreSQL writes go on meanwhile, so it is not part of a transaction."""

    name: str
    sqlite: str
    postgresql: str

    @property
    def creates(self) -> bool:
        return self.postgresql.startswith("CREATE")

    def text(self, dialect: Dialect) -> str:
        return self.sqlite if dialect == "sqlite" else self.postgresql


@dataclass(frozen=True, slots=True)
class BatchedChange:
    """Change the rows of a large table in batches, each in a transaction of its own, so that writes go on between them.

    The statements change the rows whose `key` is greater than `:after` and at most `:until`.
    """

    table: str
    key: str
    sqlite: str
    postgresql: str

    def text(self, dialect: Dialect) -> str:
        return self.sqlite if dialect == "sqlite" else self.postgresql


Step = SchemaStatement | IndexChange | BatchedChange


@dataclass(frozen=True, slots=True)
class Revision:
    """A change of the schema. Processes that know `oldest_compatible` and no later revision can run beside it."""

    name: str
    title: str
    oldest_compatible: str
    steps: tuple[Step, ...]


def sql(both: str = "", *, sqlite: str = "", postgresql: str = "") -> SchemaStatement:
    """Return a statement that is the same on both engines, or differs between them."""
    return SchemaStatement(both or sqlite, both or postgresql)


def index(both: str = "", *, sqlite: str = "", postgresql: str = "") -> IndexChange:
    """Return a CREATE INDEX or DROP INDEX for a table that has rows already. PostgreSQL runs it concurrently."""
    match = _INDEX.fullmatch(both or postgresql)
    if match is None:
        raise ValueError(f"not a change of an index: {both or postgresql}")
    only_if = "" if match["verb"] == "CREATE" else "IF EXISTS "
    concurrently = f"{match['verb']}{match['kind']} CONCURRENTLY {only_if}{match['name']}{match['rest']}"
    return IndexChange(match["name"], both or sqlite, concurrently)


def batches(table: str, both: str = "", *, key: str = "id", sqlite: str = "", postgresql: str = "") -> BatchedChange:
    """Return an UPDATE or DELETE of rows between `:after` and `:until`, which runs until no row is left."""
    change = BatchedChange(table, key, both or sqlite, both or postgresql)
    if not all(bound in each for each in (change.sqlite, change.postgresql) for bound in (":after", ":until")):
        raise ValueError(f"not a change of the rows between :after and :until: {change.sqlite}")
    return change


def read_script(module: str) -> tuple[Step, ...]:
    """Return the statements of the SQL files beside a revision's module, one file for each engine."""
    sqlite = (SchemaStatement(each, "") for each in _statements(Path(module).with_suffix(".sqlite.sql")))
    postgresql = (SchemaStatement("", each) for each in _statements(Path(module).with_suffix(".postgresql.sql")))
    return (*sqlite, *postgresql)


def list_names() -> tuple[str, ...]:
    """Return the names of all revisions that this version knows, the oldest first."""
    return tuple(sorted(_files(VERSIONS)))


def newest_revision() -> str:
    return list_names()[-1]


def load_revision(name: str) -> Revision:
    """Return a revision. Its file is read only now, because most processes need none."""
    return _load(_files(VERSIONS)[name])


def _files(folder: Path) -> dict[str, Path]:
    return {match[1]: file for file in folder.iterdir() if (match := _FILE.fullmatch(file.name))}


@cache
def _load(file: Path) -> Revision:
    declared = run_path(str(file))
    title = declared["__doc__"].strip().splitlines()[0]
    return Revision(file.name[:4], title, declared["OLDEST_COMPATIBLE"], tuple(declared["STEPS"]))


def _statements(file: Path) -> list[str]:
    text = _COMMENT.sub("", file.read_text(encoding="utf-8"))
    return [part.strip() for part in text.split(";") if part.strip()]
