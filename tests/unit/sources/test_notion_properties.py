"""Properties of Notion pages: reading, writing, names and types."""

from typing import Any

import pytest

from mailwright.sources.mailouts.notion import (
    DataSource,
    MailoutColumns,
    NotionPage,
    NotionRefused,
    build_properties,
    read_mailout,
)
from tests.notion_pages import text

NAMES = MailoutColumns()


def a_page(**properties: Any) -> NotionPage:
    """Return a page. Underscores in names stand for spaces; each property is a pair of type and value."""
    named = {name.replace("_", " "): {"type": kind, kind: value} for name, (kind, value) in properties.items()}
    return NotionPage("p", named)


def a_table(**types: str) -> DataSource:
    named = {name.replace("_", " "): kind for name, kind in types.items()}
    return DataSource("s", "Mailouts", named, {"Status": ("Draft", "Send", "failed")})


@pytest.mark.parametrize("kind", ["status", "select"])
def test_status_may_be_a_status_or_a_select(kind: str) -> None:
    page = a_page(
        Name=("title", [text("internal name")]),
        Subject=("rich_text", [text("Hello "), text("harbour\n", bold=True)]),
        Status=(kind, {"id": "1", "name": "Send"}),
        Test=("checkbox", True),
        Sent_At=("date", {"start": "2027-01-15", "end": None}),
    )
    found = read_mailout(page, NAMES)
    assert (found.subject, found.status, found.is_test, found.sent_at) == ("Hello harbour", "Send", True, "2027-01-15")
    assert found.lacking == ()


def test_title_is_the_subject_without_subject_column() -> None:
    assert read_mailout(a_page(Title=("title", [text("March")])), NAMES).subject == "March"
    both = a_page(Title=("title", [text("internal name")]), Subject=("rich_text", []))
    assert read_mailout(both, NAMES).subject == ""


def test_configured_column_names_are_used() -> None:
    page = a_page(Betreff=("title", [text("März")]), Stand=("select", None))
    found = read_mailout(page, MailoutColumns(subject="Betreff", status="Stand", test="Probe"))
    assert (found.subject, found.status, found.is_test, found.sent_at) == ("März", None, None, None)
    assert found.lacking == ("Probe", "Sent At")


def test_formula_is_read_as_its_result() -> None:
    page = a_page(
        Subject=("formula", {"type": "string", "string": "Made up"}),
        Test=("formula", {"type": "boolean", "boolean": True}),
        Sent_At=("formula", {"type": "date", "date": None}),
    )
    found = read_mailout(page, NAMES)
    assert (found.subject, found.is_test, found.sent_at) == ("Made up", True, None)


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("Subject", "number", 3),
        ("Status", "checkbox", True),
        ("Test", "select", {"name": "yes"}),
        ("Test", "checkbox", None),
        ("Sent At", "number", 3),
    ],
)
def test_wrong_column_type_is_refused_with_the_next_step(name: str, kind: str, value: Any) -> None:
    with pytest.raises(NotionRefused, match=f"'{name}' in Notion has the type {kind}. Change it to a") as refused:
        read_mailout(a_page(**{name.replace(" ", "_"): (kind, value)}), NAMES)
    assert (refused.value.code, refused.value.field) == ("NOTION_PROPERTY_TYPE", name)


@pytest.mark.parametrize(
    ("kind", "cell", "value"),
    [
        ("number", 0.5, 0.5),
        ("number", None, None),
        ("checkbox", True, True),
        ("checkbox", None, False),
        ("select", "new one", {"name": "new one"}),
        ("select", None, None),
        ("multi_select", "a", [{"name": "a"}]),
        ("date", "2027-01-15T08:00:00.000Z", {"start": "2027-01-15T08:00:00.000Z"}),
        ("date", None, None),
        ("email", "ada@example.com", "ada@example.com"),
        ("email", "", None),
        ("url", "https://example.com/" + "x" * 3_000, "https://example.com/" + "x" * 1_980),
        ("rich_text", 12, [{"type": "text", "text": {"content": "12"}}]),
        ("title", None, []),
    ],
)
def test_value_is_written_in_the_format_of_its_column(kind: str, cell: Any, value: Any) -> None:
    assert build_properties(a_table(X=kind), {"X": cell}).properties == {"X": {kind: value}}


def test_option_is_written_in_the_spelling_of_the_table() -> None:
    for kind in ("status", "select"):
        assert build_properties(a_table(Status=kind), {"Status": "Failed"}).properties == {
            "Status": {kind: {"name": "failed"}}
        }


@pytest.mark.parametrize("words", ["x" * 2_000, "x" * 2_001, "🚧" * 2_500, "ab" * 150_000])
def test_long_text_is_split_by_utf16_units(words: str) -> None:
    pieces = build_properties(a_table(X="rich_text"), {"X": words}).properties["X"]["rich_text"]
    contents = [piece["text"]["content"] for piece in pieces]
    assert words.startswith("".join(contents))
    assert len(contents) <= 100
    assert all(len(content.encode("utf-16-le")) // 2 <= 2_000 for content in contents)
    assert "".join(contents) == words or len(contents) == 100


@pytest.mark.parametrize(
    ("kind", "cell", "reason"),
    [
        (None, 1, "has no property 'Status'. Add it, or set its name"),
        ("rollup", 1, "has the type rollup, which is read-only"),
        ("status", "Nope", "has no option 'Nope'. Add it under Edit property"),
        ("number", "three", "does not fit"),
        ("number", True, "does not fit"),
        ("checkbox", "yes", "does not fit"),
        ("date", 5, "does not fit"),
    ],
)
def test_unwritable_column_is_skipped_and_the_rest_written(kind: str | None, cell: Any, reason: str) -> None:
    table = a_table(Sent="number", **({} if kind is None else {"Status": kind}))
    found = build_properties(table, {"Status": cell, "Sent": 3})
    assert found.properties == {"Sent": {"number": 3}}
    assert list(found.skipped) == ["Status"]
    assert reason in found.skipped["Status"]
