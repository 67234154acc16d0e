"""Expressions that each engine writes in its own words, for statements that are put together at run time."""

from typing import Any

from sqlalchemy import ColumnElement, Double, Integer, Text, func, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from mailwright.domain.clock import Instant


def uuid7_from(random: ColumnElement[str], now: Instant) -> ColumnElement[str]:
    """A UUIDv7 of this moment from a column of `random_hex`."""
    head = f"{now & 0xFFFF_FFFF_FFFF:012x}"
    tail = [func.substr(random, start, length) for start, length in ((1, 3), (4, 3), (7, 12))]
    return (
        literal(f"{head[:8]}-{head[8:]}-7", Text)
        + tail[0]
        + literal("-a", Text)
        + tail[1]
        + literal("-", Text)
        + tail[2]
    )


def random_hex() -> ColumnElement[str]:
    """Eighteen random hexadecimal digits or more, others in every row."""
    return _RandomHex()


class _RandomHex(FunctionElement[str]):
    type = Text()
    inherit_cache = True


@compiles(_RandomHex, "postgresql")
def _from_uuid4(_element: Any, _compiler: Any, **_: Any) -> str:
    # Without the two digits of a UUIDv4 that are the same in all of them.
    return "overlay(replace(CAST(gen_random_uuid() AS text), '-', '') placing '' from 13 for 5)"


@compiles(_RandomHex, "sqlite")
def _from_random_blob(_element: Any, _compiler: Any, **_: Any) -> str:
    return "lower(hex(randomblob(9)))"


class json_text(FunctionElement[Any]):  # noqa: N801 - reads as the function that it is
    """The value under a key of a JSON object that is stored as text, as text; null where there is none."""

    type: Any = Text()
    inherit_cache = True

    def __init__(self, column: ColumnElement[str], key: str) -> None:
        super().__init__(column, literal(key, Text))


@compiles(json_text, "postgresql")
def _json_text_postgresql(element: Any, compiler: Any, **how: Any) -> str:
    column, key = (compiler.process(clause, **how) for clause in element.clauses)
    return f"(CAST({column} AS jsonb) ->> {key})"


@compiles(json_text, "sqlite")
def _json_text_sqlite(element: Any, compiler: Any, **how: Any) -> str:
    column, key = (compiler.process(clause, **how) for clause in element.clauses)
    # A key is any text: only what is in quotes is taken as one name.
    return f"({column} ->> ('$.\"' || {key} || '\"'))"


class json_words(json_text):  # noqa: N801 - reads as the function that it is
    """The same, where the value is a JSON string; null where it is anything else."""

    inherit_cache = True


class json_flag(json_text):  # noqa: N801 - reads as the function that it is
    """`true` or `false`, where the value is one of them; null where it is anything else."""

    inherit_cache = True


class json_number(json_text):  # noqa: N801 - reads as the function that it is
    """The value as a number, where it is one or a string that looks like one; null where it is anything else."""

    type: Any = Double()
    inherit_cache = True


class json_day(json_text):  # noqa: N801 - reads as the function that it is
    """The first ten characters, where the value is a string that begins like `2027-01-31`; null where it does not."""

    inherit_cache = True


class folded(FunctionElement[str]):  # noqa: N801 - reads as the function that it is
    """A to Z as a to z. Other letters stay as they are: no two engines agree on all of them."""

    type = Text()
    inherit_cache = True


class position(FunctionElement[int]):  # noqa: N801 - reads as the function that it is
    """Where the second text begins in the first, from 1; 0 where it does not."""

    type = Integer()
    inherit_cache = True


@compiles(json_words, "postgresql")
def _json_words_postgresql(element: Any, compiler: Any, **how: Any) -> str:
    value, text = _value_postgresql(element, compiler, **how)
    return f"(CASE jsonb_typeof({value}) WHEN 'string' THEN {text} END)"


@compiles(json_flag, "postgresql")
def _json_flag_postgresql(element: Any, compiler: Any, **how: Any) -> str:
    value, text = _value_postgresql(element, compiler, **how)
    return f"(CASE jsonb_typeof({value}) WHEN 'boolean' THEN {text} END)"


@compiles(json_number, "postgresql")
def _json_number_postgresql(element: Any, compiler: Any, **how: Any) -> str:
    value, text = _value_postgresql(element, compiler, **how)
    looks_so = f"{text} ~ '^-?[0-9]+([.][0-9]+)?$' AND length({text}) <= 16"
    is_number = f"CASE jsonb_typeof({value}) WHEN 'number' THEN true WHEN 'string' THEN {looks_so} END"
    return f"(CASE WHEN {is_number} THEN CAST({text} AS double precision) END)"


@compiles(json_day, "postgresql")
def _json_day_postgresql(element: Any, compiler: Any, **how: Any) -> str:
    _, text = _value_postgresql(element, compiler, **how)
    return f"(CASE WHEN {text} ~ '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}' THEN substr({text}, 1, 10) COLLATE \"C\" END)"


@compiles(folded, "postgresql")
def _folded_postgresql(element: Any, compiler: Any, **how: Any) -> str:
    return f'lower({compiler.process(element.clauses, **how)} COLLATE "C")'


@compiles(position, "postgresql")
def _position_postgresql(element: Any, compiler: Any, **how: Any) -> str:
    return f"strpos({compiler.process(element.clauses, **how)})"


@compiles(json_words, "sqlite")
def _json_words_sqlite(element: Any, compiler: Any, **how: Any) -> str:
    kind, value = _value_sqlite(element, compiler, **how)
    return f"(CASE {kind} WHEN 'text' THEN {value} END)"


@compiles(json_flag, "sqlite")
def _json_flag_sqlite(element: Any, compiler: Any, **how: Any) -> str:
    kind, _ = _value_sqlite(element, compiler, **how)
    return f"(CASE WHEN {kind} IN ('true', 'false') THEN {kind} END)"


@compiles(json_number, "sqlite")
def _json_number_sqlite(element: Any, compiler: Any, **how: Any) -> str:
    kind, value = _value_sqlite(element, compiler, **how)
    digits = f"ltrim(substr({value}, 1, 1), '-') || substr({value}, 2)"
    looks_so = (
        f"{digits} GLOB '[0-9]*' AND {digits} GLOB '*[0-9]' AND {digits} NOT GLOB '*[^0-9.]*' "
        f"AND {digits} NOT GLOB '*.*.*' AND length({value}) <= 16"
    )
    is_number = f"CASE {kind} WHEN 'integer' THEN true WHEN 'real' THEN true WHEN 'text' THEN {looks_so} END"
    return f"(CASE WHEN {is_number} THEN CAST({value} AS REAL) END)"


@compiles(json_day, "sqlite")
def _json_day_sqlite(element: Any, compiler: Any, **how: Any) -> str:
    _, value = _value_sqlite(element, compiler, **how)
    pattern = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*"
    return f"(CASE WHEN {value} GLOB '{pattern}' THEN substr({value}, 1, 10) END)"


@compiles(folded, "sqlite")
def _folded_sqlite(element: Any, compiler: Any, **how: Any) -> str:
    return f"lower({compiler.process(element.clauses, **how)})"


@compiles(position, "sqlite")
def _position_sqlite(element: Any, compiler: Any, **how: Any) -> str:
    return f"instr({compiler.process(element.clauses, **how)})"


def _value_postgresql(element: Any, compiler: Any, **how: Any) -> tuple[str, str]:
    """The value itself, and its text."""
    column, key = (compiler.process(clause, **how) for clause in element.clauses)
    return f"(CAST({column} AS jsonb) -> {key})", f"(CAST({column} AS jsonb) ->> {key})"


def _value_sqlite(element: Any, compiler: Any, **how: Any) -> tuple[str, str]:
    """The value's kind, and the value itself."""
    column, key = (compiler.process(clause, **how) for clause in element.clauses)
    path = f"('$.\"' || {key} || '\"')"
    return f"json_type({column}, {path})", f"({column} ->> {path})"
