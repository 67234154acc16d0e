"""Notion pages as emails: every block type, deterministic output, and reports of omissions."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from mailwright.content import html as html_rules
from mailwright.sources.mailouts.notion import NotionBlock
from mailwright.sources.mailouts.notion.pages import every
from mailwright.sources.mailouts.rendering import ImageCopy, framed, render
from mailwright.sources.mailouts.rendering.numbering import numeral
from mailwright.sources.mailouts.rendering.render import KNOWN_TYPES
from mailwright.sources.mailouts.rendering.styles import (
    COLOURS,
    INK,
    INK_DARK,
    LINK,
    LINK_DARK,
    MUTED,
    MUTED_DARK,
    PAPER,
    PAPER_DARK,
    SHADE,
    SHADE_DARK,
)
from tests import notion_golden
from tests.examples import examples
from tests.notion_pages import as_block, as_blocks, block, every_type, mention, picture, said, table, text

FIXTURES = Path(__file__).resolve().parents[4] / "shared" / "fixtures" / "notion"
# These are not shown: they are Notion's navigation, private, or useless in an email.
UNSEEN = {"breadcrumb", "table_of_contents", "template", "meeting_notes", "transcription", "unsupported"}


# Golden files.


@pytest.mark.parametrize("page", notion_golden.PAGES)
def test_sample_pages_match_their_golden_files(page: str) -> None:
    for name, content in notion_golden.files(page):
        assert content == (notion_golden.FOLDER / name).read_text(encoding="utf-8"), (
            f"{name} has changed: run `python -m tests.notion_golden`, and look at it"
        )


def test_every_block_type_has_a_renderer() -> None:
    described = every_type(notion_golden.EXPIRING)
    assert len(KNOWN_TYPES) == 37
    assert {each.type for each in every(as_blocks(described))} >= KNOWN_TYPES
    for each in every(as_blocks(described)):
        if each.type in KNOWN_TYPES - UNSEEN - {"divider"}:
            found = render([each], notion_golden.IMAGES)
            assert found.html, each.type
            assert found.text, each.type


@pytest.mark.parametrize("page", notion_golden.PAGES)
def test_rendering_is_deterministic_and_shows_no_ids(page: str) -> None:
    first, second = notion_golden.rendered(page), notion_golden.rendered(page)
    assert first == second
    blocks = [
        NotionBlock(f"secret-id-{each.id}", each.type, each.content, each.children)
        for each in as_blocks(notion_golden.PAGES[page][1])
    ]
    assert "secret-id" not in render(blocks, notion_golden.IMAGES).html


@pytest.mark.parametrize("page", notion_golden.PAGES)
def test_rendered_page_passes_the_content_rules(page: str) -> None:
    subject, _ = notion_golden.PAGES[page]
    html = framed(subject, notion_golden.rendered(page).html, notion_golden.FOOTER)
    assert html_rules.html_problem(html) is None
    assert not re.search(r"<(?:details|input|video|audio|iframe|object|form|script)\b", html)


# What was recorded of the real Notion.


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="recorded blocks of Notion are not here")
def test_recorded_blocks_are_rendered_or_reported() -> None:
    seen: set[str] = set()
    for described in _recorded_blocks():
        each = NotionBlock(described.get("id", "x"), described["type"], described[described["type"]])
        found = render([each], {})
        seen.add(each.type)
        words = "".join(piece.get("plain_text", "") for piece in each.content.get("rich_text", []))
        is_empty_box = each.type in {"column", "column_list", "synced_block", "tab", "table", "divider"}
        if not words.strip() and (each.type in UNSEEN or is_empty_box or "rich_text" in each.content):
            assert each.type in UNSEEN - {"breadcrumb", "table_of_contents"} or not found.issues
            continue
        assert found.text or found.issues, described
        is_coded = each.type == "code"
        for piece in each.content.get("rich_text", []):
            if piece.get("type") == "text":
                assert _squeezed(piece["plain_text"]) in _squeezed(found.text), each.type
                assert is_coded or _squeezed(piece["plain_text"]) in _squeezed(_text_of(found.html)), each.type
    assert len(seen) >= 34


def _recorded_blocks() -> Iterator[dict[str, Any]]:
    for file in sorted(FIXTURES.rglob("*.json")):
        yield from _blocks_in(json.loads(file.read_text(encoding="utf-8")))


def _blocks_in(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        kind = value.get("type")
        is_block = value.get("object") == "block" or set(value) == {"type", "link_preview"}
        if is_block and isinstance(kind, str) and isinstance(value.get(kind), dict):
            yield value
        for inner in value.values():
            yield from _blocks_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _blocks_in(inner)


# Text.


@pytest.mark.parametrize(
    ("piece", "html", "plain"),
    [
        (text("a < b & c"), "a &lt; b &amp; c", "a < b & c"),
        (text("one\ntwo"), "one<br>\ntwo", "one\ntwo"),
        (text("x", bold=True, italic=True), "<em><strong>x</strong></em>", "x"),
        (text("x", strikethrough=True, underline=True), "<u><s>x</s></u>", "x"),
        (mention("@Ada", "user", {"id": "1"}), "@Ada", "@Ada"),
        (mention("Plans", "page", {"id": "1"}, "https://app.notion.com/p/1"), "Plans", "Plans"),
        (mention("Plans", "page", {"id": "1"}, "https://www.notion.so/1"), "Plans", "Plans"),
        (mention("Ships", "database", {"id": "1"}), "Ships", "Ships"),
        (mention("new", "hologram", {"id": "1"}), "new", "new"),
        (mention(":a:", "custom_emoji", {"name": "a", "url": "https://example.com/a.png"}), ":a:", ":a:"),
        ({"plain_text": "bare"}, "bare", "bare"),
        ({"type": "text", "text": {"content": "asked"}}, "asked", "asked"),
        (text("\x00\x07\u202ebell"), "bell", "bell"),
    ],
)
def test_rich_text_keeps_text_and_annotations(piece: dict[str, Any], html: str, plain: str) -> None:
    found = render(as_blocks([said("paragraph", [piece])]), {})
    assert found.html == f'<p style="margin:0 0 16px">{html}</p>'
    assert found.text == f"{plain}\n"


@pytest.mark.parametrize(
    ("about", "plain"),
    [
        ({"start": "2027-03-01"}, "2027-03-01"),
        ({"start": "2027-03-01", "end": "2027-03-03"}, "2027-03-01 → 2027-03-03"),
        ({"start": "2027-03-01T09:30:00.000Z"}, "2027-03-01 09:30 (UTC)"),
        ({"start": "2027-03-01T09:30", "time_zone": "Europe/Lisbon"}, "2027-03-01 09:30 (Europe/Lisbon)"),
        ({"start": "soon"}, "@Soon"),
    ],
)
def test_date_format_is_language_independent(about: dict[str, Any], plain: str) -> None:
    assert render(as_blocks([said("paragraph", [mention("@Soon", "date", about)])]), {}).text == f"{plain}\n"


@pytest.mark.parametrize(
    ("link", "plain"),
    [
        ("https://example.com/?a=1&b=2", "here (https://example.com/?a=1&b=2)\n"),
        ("mailto:ada@example.com", "here (ada@example.com)\n"),
        ("tel:+351210000000", "here (+351210000000)\n"),
    ],
)
def test_link_is_kept_and_shown_in_text(link: str, plain: str) -> None:
    found = render(as_blocks([said("paragraph", [text("here", link=link)])]), {})
    (anchor,) = LexborHTMLParser(found.html).css("a")
    assert anchor.attributes["href"] == link
    assert found.text == plain
    assert found.issues == ()


@pytest.mark.parametrize(
    "link",
    ["javascript:alert(1)", "java\nscript:alert(1)", "data:text/html,x", "/b0b0", "//example.com", "https://", "x y"],
)
def test_unusable_link_is_dropped_and_reported(link: str) -> None:
    found = render(as_blocks([said("paragraph", [text("here", link=link)])]), {})
    assert "<a" not in found.html
    assert found.text == "here\n"
    assert [each.code for each in found.issues] == ["content_link_dropped"]


def test_split_link_is_rendered_as_one() -> None:
    link = "https://example.com/"
    pieces = [text("read ", link=link), text("this", bold=True, link=link), text(" now")]
    found = render(as_blocks([said("paragraph", pieces)]), {})
    assert len(LexborHTMLParser(found.html).css("a")) == 1
    assert found.text == f"read this ({link}) now\n"


# Lists.


def test_lists_are_nested_and_renumbered() -> None:
    page = [
        said("numbered_list_item", "a", said("numbered_list_item", "b", said("numbered_list_item", "c"))),
        said("numbered_list_item", "d", said("bulleted_list_item", "e", said("numbered_list_item", "f"))),
        said("paragraph", "between"),
        said("numbered_list_item", "g"),
    ]
    found = render(as_blocks(page), {})
    assert found.text == "1. a\n   a. b\n      i. c\n2. d\n   - e\n     a. f\n\nbetween\n\n1. g\n"
    tree = LexborHTMLParser(found.html)
    assert len(tree.css("ol")) == 5
    assert [each.text(deep=False).strip() for each in tree.css("ol > li > ol > li > ol > li")] == ["c"]


@pytest.mark.parametrize(
    ("number", "form", "shown"),
    [
        (1, "1", "1"),
        (26, "a", "z"),
        (27, "a", "aa"),
        (703, "a", "aaa"),
        (0, "a", "0"),
        (4, "i", "iv"),
        (1994, "i", "mcmxciv"),
    ],
)
def test_list_numbers_match_browsers(number: int, form: str, shown: str) -> None:
    assert numeral(number, form) == shown


# Pictures and files.


def test_expiring_image_shows_copy_or_caption() -> None:
    page = as_blocks([picture(notion_golden.EXPIRING, "A crane")])
    copied = render(page, {notion_golden.EXPIRING: ImageCopy("https://mail.example.com/images/1.png", 2400)})
    assert 'src="https://mail.example.com/images/1.png" alt="A crane" width="640"' in copied.html
    assert copied.issues == ()
    lost = render(page, {})
    assert "<img" not in lost.html
    assert lost.text == "[Image: A crane]\n"
    assert [each.code for each in lost.issues] == ["content_image_not_copied"]


@pytest.mark.parametrize("kind", ["file", "video", "audio", "pdf"])
def test_file_stored_in_notion_is_not_linked(kind: str) -> None:
    kept = block(kind, type="file", file={"url": notion_golden.EXPIRING}, caption=[], name="plans.pdf")
    found = render(as_blocks([kept]), {})
    assert "amazonaws" not in found.html + found.text
    assert [each.code for each in found.issues] == ["content_file_expires"]


def test_no_sample_contains_a_signed_address() -> None:
    for page in notion_golden.PAGES:
        found = render(as_blocks(notion_golden.PAGES[page][1]), {})
        assert "X-Amz" not in found.html + found.text


def test_signed_external_address_counts_as_expiring() -> None:
    signed = "https://bucket.example.com/a.png?x-amz-signature=1"
    found = render(as_blocks([picture(signed, expires=False)]), {})
    assert [each.code for each in found.issues] == ["content_image_not_copied"]


# What is missing, unknown or empty.


def test_unknown_block_shows_its_text_and_is_reported() -> None:
    page = (as_block(said("hologram", "words", said("paragraph", "inside")), "h"), as_block(block("smell"), "s"))
    found = render(page, {})
    assert found.text == "words\n\n  inside\n"
    assert [(each.block_id, each.type, each.code) for each in found.issues] == [
        ("h", "hologram", "content_block_unsupported"),
        ("s", "smell", "content_block_unsupported"),
    ]


@pytest.mark.parametrize("kind", ["synced_block", "toggle", "bulleted_list_item", "numbered_list_item", "to_do"])
def test_missing_children_are_reported(kind: str) -> None:
    found = render([NotionBlock("x", kind, {"rich_text": [text("words")]}, missing="it contains itself")], {})
    assert [(each.reason, each.code) for each in found.issues] == [("it contains itself", "content_block_incomplete")]


@pytest.mark.parametrize(
    "page",
    [
        [],
        [said("paragraph", "")],
        [said("paragraph", " \n "), block("divider"), said("paragraph", "")],
        [said("heading_1", "")],
        [block("breadcrumb"), block("unsupported", block_type="button")],
        [block("column_list", block("column"), block("column"))],
    ],
)
def test_page_without_visible_content_is_empty(page: list[dict[str, Any]]) -> None:
    found = render(as_blocks(page), {})
    assert (found.html, found.text, found.is_empty) == ("", "", True)


def test_page_with_an_image_is_not_empty() -> None:
    spacer = said("paragraph", "")
    assert not render(as_blocks([picture("https://example.com/a.png", expires=False)]), {}).is_empty
    found = render(as_blocks([spacer, said("paragraph", "a"), spacer, said("paragraph", "b"), spacer]), {})
    assert found.html.count("<p") == 3
    assert found.html.count("&nbsp;") == 1


def test_table_has_headers_and_equal_rows() -> None:
    page = table(["", "a"], ["b", "c"], head=True, side=True)
    page["children"].append(block("table_row", cells=[[text("short")]]))
    tree = LexborHTMLParser(render(as_blocks([page]), {}).html)
    assert [len(row.css("td, th")) for row in tree.css("tr")] == [2, 2, 2]
    assert [each.text() for each in tree.css("th")] == ["", "a", "b", "short"]


# Anything at all.

_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 10**7) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_NAMES = """
    rich_text caption color icon cells url type file external title width_ratio list_start_index list_format checked
    expression name synced_from block_type children
"""
_FIELDS = st.sampled_from(_NAMES.split())
_PIECES = st.fixed_dictionaries(
    {"plain_text": st.text(max_size=20), "type": st.sampled_from(["text", "mention", "equation", "other"])},
    optional={
        "href": _ANYTHING,
        "annotations": _ANYTHING | st.dictionaries(st.sampled_from(["bold", "color", "code"]), _ANYTHING),
        "mention": _ANYTHING,
        "text": _ANYTHING,
        "equation": _ANYTHING,
    },
)
_BLOCKS = st.recursive(
    st.builds(
        NotionBlock,
        st.just("x"),
        st.sampled_from([*sorted(KNOWN_TYPES), "other"]),
        st.dictionaries(_FIELDS, _ANYTHING | st.lists(_PIECES, max_size=3), max_size=5),
    ),
    lambda inner: st.builds(
        NotionBlock,
        st.just("x"),
        st.sampled_from([*sorted(KNOWN_TYPES), "other"]),
        st.dictionaries(_FIELDS, st.lists(_PIECES, max_size=2), max_size=3),
        st.lists(inner, max_size=3).map(tuple),
    ),
    max_leaves=8,
)


@settings(max_examples=examples(50), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(_BLOCKS, max_size=4))
def test_any_page_renders_without_active_content(blocks: list[NotionBlock]) -> None:
    found = render(blocks, {})
    tags = {node.tag for node in LexborHTMLParser(found.html).css("*")}
    assert tags <= _TAGS
    assert found.is_empty or html_rules.html_problem(framed("x", found.html, "<p>x</p>")) is None
    assert (found.html + found.text).encode().decode() == found.html + found.text  # no half of a character


_TAG_NAMES = """
    html head body p br strong em s u a span code pre h1 h2 h3 h4 ul ol li blockquote div table tbody tr td th img hr
"""
_TAGS = set(_TAG_NAMES.split())


def test_endless_nesting_is_cut_off() -> None:
    deep = NotionBlock("x", "toggle", {"rich_text": [text("x")]})
    for _ in range(500):
        deep = NotionBlock("x", "toggle", {"rich_text": [text("x")]}, (deep,))
    assert "it is nested too deeply" in {each.reason for each in render([deep], {}).issues}


# Colours.


@pytest.mark.parametrize(
    ("ink", "paper"),
    [
        (INK, PAPER),
        (INK, SHADE),
        (MUTED, PAPER),
        (MUTED, SHADE),
        (LINK, PAPER),
        (INK_DARK, PAPER_DARK),
        (INK_DARK, SHADE_DARK),
        (MUTED_DARK, PAPER_DARK),
        (MUTED_DARK, SHADE_DARK),
        (LINK_DARK, PAPER_DARK),
        *((colour.ink, PAPER) for colour in COLOURS.values()),
        *((colour.ink, SHADE) for colour in COLOURS.values()),
        *((colour.ink_dark, PAPER_DARK) for colour in COLOURS.values()),
        *((colour.ink_dark, SHADE_DARK) for colour in COLOURS.values()),
        *((INK, colour.paper) for colour in COLOURS.values()),
        *((LINK, colour.paper) for colour in COLOURS.values()),
        *((INK_DARK, colour.paper_dark) for colour in COLOURS.values()),
        *((LINK_DARK, colour.paper_dark) for colour in COLOURS.values()),
    ],
)
def test_every_colour_has_contrast_in_both_modes(ink: str, paper: str) -> None:
    light, dark = sorted((_luminance(ink), _luminance(paper)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def _luminance(colour: str) -> float:
    """Return the contrast ratio as defined by WCAG."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _squeezed(words: str) -> str:
    return "".join(words.split()).replace(">", "")


def _text_of(html: str) -> str:
    return LexborHTMLParser(html).text()
