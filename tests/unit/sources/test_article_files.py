"""Slices in Markdown and CSV files: import, export, and errors with their line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.sources.articles import files
from mailwright.sources.articles.assembly import PublishStatus, Slice
from mailwright.sources.articles.files import FilesRefused, ParsedSlice
from mailwright.sources.articles.placeholders import Placeholder, as_template, placeholders
from mailwright.sources.articles.slice_input import SliceRefused, parse_slice
from tests.articles import FRANKLIN, KEY, OHIO, a_slice

lines = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), min_size=1, max_size=30)
kept = lines.map(str.strip).filter(lambda text: text and "{" not in text)
# Files store times with millisecond precision.
moments = st.none() | st.integers(0, 4_000_000_000_000)


@st.composite
def slices(draw: st.DrawFn) -> Slice:
    begins, ends = draw(moments), draw(moments)
    if begins is not None and ends is not None and ends <= begins:
        ends = None
    return a_slice(
        section_order=draw(st.integers(-5, 50)),
        sort_index=draw(st.integers(0, 50)),
        is_headline=draw(st.booleans()),
        title=draw(kept),
        dek=draw(st.none() | kept),
        body_md=draw(st.lists(kept | st.just(""), max_size=4).map("\n".join).map(str.strip)),
        link_url=draw(st.none() | st.just("https://example.com/a?b=c,d")),
        scope_ocd_id=draw(st.sampled_from([None, OHIO, FRANKLIN])),
        tags=tuple(sorted(draw(st.sets(st.sampled_from(["vote", "may", "ohio"]))))),
        publish_status=draw(st.sampled_from(PublishStatus)),
        publish_at=begins,
        expires_at=ends,
    )


def only(found: list[ParsedSlice]) -> Slice:
    [each] = found
    return each.slice


@given(each=slices())
def test_exported_slice_is_imported_unchanged(each: Slice) -> None:
    assert only(files.read_texts([("slices.csv", files.as_csv([each]))])) == each
    assert only(files.read_texts(files.as_markdown([each]).items())) == each


MARKDOWN = """---
article_key: spring-vote
section_order: 2
scope_ocd_id: {scope}
publish_at: 2027-01-15
tags: [Vote, may]
---

# Heading

Text.
"""


def test_folder_import_includes_subfolders(tmp_path: Path) -> None:
    (tmp_path / "ohio").mkdir()
    (tmp_path / "ohio" / "state.md").write_text(MARKDOWN.format(scope=OHIO))
    (tmp_path / "franklin.md").write_text(MARKDOWN.format(scope=FRANKLIN))
    (tmp_path / "notes.txt").write_text("no slice")
    found = files.read(tmp_path)
    assert [(each.file, each.slice.scope_ocd_id) for each in found] == [
        ("franklin.md", FRANKLIN),
        ("ohio/state.md", OHIO),
    ]
    first = found[0].slice
    assert (first.body_md, first.tags, first.publish_at) == ("# Heading\n\nText.", ("may", "vote"), 1_799_971_200_000)
    assert first.publish_status is PublishStatus.DRAFT


def test_malformed_division_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad.md").write_text(MARKDOWN.format(scope="ocd-division/country:us/state:OH"))
    with pytest.raises(FilesRefused, match=r"bad\.md, line 4: scope_ocd_id: .* is not an OCD division id"):
        files.read(tmp_path)
    text = f'article_key,body_md,scope_ocd_id\n{KEY},"two\nlines",{OHIO}\n{KEY},x,ohio\n'
    with pytest.raises(FilesRefused, match=r"a\.csv, line 4: scope_ocd_id: 'ohio' is not an OCD division id"):
        files.read_texts([("a.csv", text)])


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.csv", "", "a.csv, line 1: the first line must name the columns"),
        ("a.csv", "article_key,colour\nx,red\n", "line 2: colour: is not a field of a slice"),
        ("a.csv", "article_key,title\nx,y,z\n", "line 2: has 3 cells but there are 2 columns"),
        ("a.csv", 'article_key,title\nx,"y\n', "line 2: is not valid CSV"),
        ("a.csv", "article_key,title\nx,y\nx,z\n", "line 3: has the same position as a.csv, line 2"),
        ("a.md", "no front matter", "line 1: must begin with front matter"),
        ("a.md", "---\ntitle: [\n---\n", "line 2: the front matter is not valid YAML"),
        ("a.md", "---\n- a\n---\n", "line 2: the front matter must be a list of names"),
        ("a.md", "---\narticle_key: x\nbody_md: y\n---\n", "line 2: body_md: must be below"),
        ("a.md", "---\narticle_key: x\nexpires_at: soon\n---\nx", "line 3: expires_at: must look like"),
        ("a.md", "---\n!!python/object/apply:os.system [true]\n---\nx", "the front matter is not valid YAML"),
    ],
)
def test_invalid_file_is_refused_with_line_and_reason(name: str, text: str, reason: str) -> None:
    with pytest.raises(FilesRefused) as refused:
        files.read_texts([(name, text)])
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("given_", "fields"),
    [
        ({}, ["article_key", "body_md"]),
        ({"article_key": "Big Key", "body_md": "x"}, ["article_key"]),
        ({"article_key": KEY, "is_headline": True, "body_md": "x"}, ["title"]),
        ({"article_key": KEY, "body_md": "Hello {{ name }}"}, ["body_md"]),
        ({"article_key": KEY, "title": "two\nlines"}, ["title"]),
        ({"article_key": KEY, "title": "x" * 151}, ["title"]),
        ({"article_key": KEY, "body_md": "x", "link_url": "javascript:alert(1)"}, ["link_url"]),
        (
            {"article_key": KEY, "body_md": "x", "section_order": 1.5, "sort_index": True},
            ["section_order", "sort_index"],
        ),
        ({"article_key": KEY, "body_md": "x", "publish_status": "live", "tags": 3}, ["tags", "publish_status"]),
        ({"article_key": KEY, "body_md": "x", "publish_at": "2027-01-02", "expires_at": "2027-01-01"}, ["expires_at"]),
    ],
)
def test_all_problems_of_a_slice_are_reported_at_once(given_: dict[str, object], fields: list[str]) -> None:
    with pytest.raises(SliceRefused) as refused:
        parse_slice(given_)
    assert [each.field for each in refused.value.problems] == fields


def test_placeholders_become_variables_and_other_brackets_stay() -> None:
    text = "Dear [[name|reader]], [[name]] in [[city]]; see [[1]], [a](b) and [[no name]]"
    assert placeholders(text) == {Placeholder("name", "reader"), Placeholder("name"), Placeholder("city")}
    variable = Placeholder("name", "reader").variable
    assert as_template(text) == (
        f"Dear {{{{ {variable} }}}}, {{{{ name }}}} in {{{{ city }}}}; see [[1]], [a](b) and [[no name]]"
    )


def test_placeholder_uses_attribute_or_fallback() -> None:
    assert Placeholder("name", "reader").fill("Ada", {}) == "Ada"
    assert Placeholder("name", "reader").fill(None, {}) == "reader"
    assert Placeholder("city").fill(None, {"city": "Columbus"}) == "Columbus"
    assert Placeholder("city").fill(None, {}) == ""
    assert Placeholder("age").fill(None, {"age": 42}) == "42"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_may_be_separated_by_semicolons_or_tabs(delimiter: str) -> None:
    text = "title,Article_Key,body_md\nHello,spring-vote,Vote!\n".replace(",", delimiter)
    assert only(files.read_texts([("slices.csv", text)])).article_key == "spring-vote"
