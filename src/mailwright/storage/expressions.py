"""SQL expressions that SQLite and PostgreSQL write differently, for statements built at run time."""

from typing import Any

from sqlalchemy import ColumnElement, Double, Integer, Text, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from mailwright.domain.clock import Instant


def random_uuid7(now: Instant) -> ColumnElement[str]:
    """A random UUIDv7 with this timestamp, different in every row."""
    head = f"{now & 0xFFFF_FFFF_FFFF:012x}"
    return _RandomUuid7(literal(f"{head[:8]}-{head[8:]}-7", Text))


class _RandomUuid7(FunctionElement[str]):
    type = Text()
    inherit_cache = True


@compiles(_RandomUuid7, "postgresql")
def _random_uuid7_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    # The rest comes from a UUIDv4, which is random and has the same variant bits.
    head = compiler.process(element.clauses, **options)
    return f"overlay(CAST(gen_random_uuid() AS text) placing {head} from 1 for 15)"


@compiles(_RandomUuid7, "sqlite")
def _random_uuid7_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    head = compiler.process(element.clauses, **options)
    return f"printf('%s%03x-a%03x-%012x', {head}, random() & 4095, random() & 4095, random() & 281474976710655)"


class json_text(FunctionElement[Any]):  # noqa: N801 - a function of SQL
    """The value at a key of a JSON object that is stored as text. The value is text too, or null if it is missing."""

    type: Any = Text()
    inherit_cache = True

    def __init__(self, column: ColumnElement[str], key: str) -> None:
        super().__init__(column, literal(key, Text))


@compiles(json_text, "postgresql")
def _json_text_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    column, key = (compiler.process(clause, **options) for clause in element.clauses)
    return f"(CAST({column} AS jsonb) ->> {key})"


@compiles(json_text, "sqlite")
def _json_text_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    column, key = (compiler.process(clause, **options) for clause in element.clauses)
    # Quote the key, because it can be any text and dots would otherwise separate path steps.
    return f"({column} ->> ('$.\"' || {key} || '\"'))"


class json_value(json_text):  # noqa: N801 - a function of SQL
    """The value as JSON: a string in quotes, a list in brackets; null if there is none."""

    inherit_cache = True


@compiles(json_value, "postgresql")
def _json_value_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    column, key = (compiler.process(clause, **options) for clause in element.clauses)
    return f"CAST(CAST({column} AS json) -> {key} AS text)"


@compiles(json_value, "sqlite")
def _json_value_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    column, key = (compiler.process(clause, **options) for clause in element.clauses)
    return f"({column} -> ('$.\"' || {key} || '\"'))"


class json_string(json_text):  # noqa: N801 - a function of SQL
    """The value if it is a JSON string; null otherwise."""

    inherit_cache = True


class json_boolean(json_text):  # noqa: N801 - a function of SQL
    """`true` or `false` if the value is a JSON boolean; null otherwise."""

    inherit_cache = True


class json_number(json_text):  # noqa: N801 - a function of SQL
    """The value as a number, if it is a number or a string that looks like a number; null otherwise."""

    type: Any = Double()
    inherit_cache = True


class json_date(json_text):  # noqa: N801 - a function of SQL
    """The first ten characters if the value is a string that begins like `2027-01-31`; null otherwise."""

    inherit_cache = True


class json_texts(FunctionElement[str]):  # noqa: N801 - a function of SQL
    """The strings and numbers in a JSON value that is stored as text, without the keys; null if it has none."""

    type = Text()
    inherit_cache = True


class lower_ascii(FunctionElement[str]):  # noqa: N801 - a function of SQL
    """The text with A to Z in lower case. Other letters are unchanged, because the engines convert them differently."""

    type = Text()
    inherit_cache = True


class position(FunctionElement[int]):  # noqa: N801 - a function of SQL
    """The position of the second text in the first, from 1; 0 if it does not occur."""

    type = Integer()
    inherit_cache = True


class unindexed(FunctionElement[Any]):  # noqa: N801 - a function of SQL
    """A column for which SQLite must not use an index."""

    inherit_cache = True

    def __init__(self, column: ColumnElement[Any]) -> None:
        super().__init__(column)
        self.type = column.type


class json_members(FunctionElement[Any]):  # noqa: N801 - a function of SQL
    """The members of a JSON object that is stored as text, one row for each, with its `key`."""

    name = "json_members"
    inherit_cache = True


@compiles(json_members, "postgresql")
def _json_members_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    return f"jsonb_each(CAST({compiler.process(element.clauses, **options)} AS jsonb))"


@compiles(json_members, "sqlite")
def _json_members_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(unindexed, "postgresql")
def _unsought_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(unindexed, "sqlite")
def _unsought_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    return f"+{compiler.process(element.clauses, **options)}"


@compiles(json_string, "postgresql")
def _json_words_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    value, text = _value_postgresql(element, compiler, **options)
    return f"(CASE jsonb_typeof({value}) WHEN 'string' THEN {text} END)"


@compiles(json_boolean, "postgresql")
def _json_flag_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    value, text = _value_postgresql(element, compiler, **options)
    return f"(CASE jsonb_typeof({value}) WHEN 'boolean' THEN {text} END)"


@compiles(json_number, "postgresql")
def _json_number_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    value, text = _value_postgresql(element, compiler, **options)
    looks_numeric = f"{text} ~ '^-?[0-9]+([.][0-9]+)?$' AND length({text}) <= 16"
    is_number = f"CASE jsonb_typeof({value}) WHEN 'number' THEN true WHEN 'string' THEN {looks_numeric} END"
    return f"(CASE WHEN {is_number} THEN CAST({text} AS double precision) END)"


@compiles(json_date, "postgresql")
def _json_day_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    _, text = _value_postgresql(element, compiler, **options)
    return f"(CASE WHEN {text} ~ '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}' THEN substr({text}, 1, 10) COLLATE \"C\" END)"


@compiles(json_texts, "postgresql")
def _json_texts_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    values = f"jsonb_path_query(CAST({compiler.process(element.clauses, **options)} AS jsonb), 'strict $.**')"
    texts = "SELECT string_agg(value #>> '{}', chr(10))"
    return f"({texts} FROM {values} AS value WHERE jsonb_typeof(value) IN ('string', 'number'))"


@compiles(lower_ascii, "postgresql")
def _folded_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    return f'lower({compiler.process(element.clauses, **options)} COLLATE "C")'


@compiles(position, "postgresql")
def _position_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    return f"strpos({compiler.process(element.clauses, **options)})"


@compiles(json_string, "sqlite")
def _json_words_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    kind, value = _value_sqlite(element, compiler, **options)
    return f"(CASE {kind} WHEN 'text' THEN {value} END)"


@compiles(json_boolean, "sqlite")
def _json_flag_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    kind, _ = _value_sqlite(element, compiler, **options)
    return f"(CASE WHEN {kind} IN ('true', 'false') THEN {kind} END)"


@compiles(json_number, "sqlite")
def _json_number_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    kind, value = _value_sqlite(element, compiler, **options)
    digits = f"ltrim(substr({value}, 1, 1), '-') || substr({value}, 2)"
    looks_numeric = (
        f"{digits} GLOB '[0-9]*' AND {digits} GLOB '*[0-9]' AND {digits} NOT GLOB '*[^0-9.]*' "
        f"AND {digits} NOT GLOB '*.*.*' AND length({value}) <= 16"
    )
    is_number = f"CASE {kind} WHEN 'integer' THEN true WHEN 'real' THEN true WHEN 'text' THEN {looks_numeric} END"
    return f"(CASE WHEN {is_number} THEN CAST({value} AS REAL) END)"


@compiles(json_date, "sqlite")
def _json_day_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    _, value = _value_sqlite(element, compiler, **options)
    pattern = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*"
    return f"(CASE WHEN {value} GLOB '{pattern}' THEN substr({value}, 1, 10) END)"


@compiles(json_texts, "sqlite")
def _json_texts_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    values = f"json_tree({compiler.process(element.clauses, **options)})"
    texts = "SELECT group_concat(value, char(10))"
    return f"({texts} FROM {values} WHERE type IN ('text', 'integer', 'real'))"


@compiles(lower_ascii, "sqlite")
def _folded_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    return f"lower({compiler.process(element.clauses, **options)})"


@compiles(position, "sqlite")
def _position_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    return f"instr({compiler.process(element.clauses, **options)})"


def _value_postgresql(element: Any, compiler: Any, **options: Any) -> tuple[str, str]:
    """Return the value and its text."""
    column, key = (compiler.process(clause, **options) for clause in element.clauses)
    return f"(CAST({column} AS jsonb) -> {key})", f"(CAST({column} AS jsonb) ->> {key})"


def _value_sqlite(element: Any, compiler: Any, **options: Any) -> tuple[str, str]:
    """Return the type of the value and the value."""
    column, key = (compiler.process(clause, **options) for clause in element.clauses)
    path = f"('$.\"' || {key} || '\"')"
    return f"json_type({column}, {path})", f"({column} ->> {path})"
