"""The block document: lossless parsing, limits, and errors that name the block and the field."""

from typing import Any

import orjson
import pytest

from mailwright.content.blocks.document import (
    MAX_BLOCK_LEVELS,
    MAX_BLOCKS,
    MAX_JSON_LEVELS,
    InvalidDocument,
    parse_document,
)
from mailwright.content.variables import KNOWN_VARIABLES


def a_document(*blocks: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"version": 1, "blocks": list(blocks), **changes}


def nested(levels: int) -> dict[str, Any]:
    block: dict[str, Any] = {"id": "b0", "type": "text", "html": "x"}
    for level in range(1, levels):
        block = {"id": f"b{level}", "type": "condition", "segment": "vip", "blocks": [block]}
    return block


def test_unknown_blocks_and_fields_survive_a_round_trip() -> None:
    document = a_document(
        {"id": "b1", "type": "poll", "question": "Why?", "answers": [{"text": None, "votes": 1.5}], "blocks": "later"},
        {"id": "b2", "type": "text", "html": "<p>x</p>", "tone": {"warm": True}, "padding": {"top": 4, "left": 2}},
        {"id": "b3", "type": "columns", "columns": [{"blocks": [], "gap": 3}, {"width": 33.3}]},
        {"id": "b4", "type": "image", "href": None, "full_width": True},
        settings={"font": "georgia", "shadow": "soft"},
        comments=[{"by": "ada"}],
    )
    assert parse_document(orjson.dumps(document)).to_json() == document
    assert parse_document(document).to_json() == document


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"id": "b1", "type": "heading", "level": 4}, "Block 'b1', field level: "),
        ({"id": "b1", "type": "button", "href": "javascript:alert(1)"}, "Block 'b1', field href: has the scheme"),
        ({"id": "b1", "type": "button", "href": " java\tscript:x"}, "Block 'b1', field href: has the scheme"),
        ({"id": "b1", "type": "image", "src": "data:text/html,x"}, "Block 'b1', field src: has the scheme"),
        ({"id": "b1", "type": "divider", "color": "red"}, "Block 'b1', field color: must be a colour"),
        (
            {"id": "b1", "type": "divider", "color": "brand:red"},
            "Block 'b1', field color: must be one of brand:primary",
        ),
        ({"id": "b1", "type": "columns", "columns": [{}]}, "Block 'b1', field columns: "),
        ({"id": "b1", "type": "repeat", "over": "a b"}, "Block 'b1', field over: must be the name of a variable"),
        ({"id": "b1", "type": "repeat", "as": "loop"}, "Block 'b1', field as: must be a name"),
        *(
            ({"id": "b1", "type": "repeat", "as": name}, "Block 'b1', field as: is the name")
            for name in sorted(KNOWN_VARIABLES)
        ),
        ({"id": "b1", "type": "slot"}, "Block 'b1', field name: Field required"),
        ({"id": "b1", "type": "social", "links": [{"network": "myspace"}]}, "Block 'b1', field links.1.network: "),
        ({"id": "b1", "type": "text", "padding": {"top": -1}}, "Block 'b1', field padding.top: "),
        ({"type": "text"}, "Field blocks.1.id: Field required"),
        ({"id": "b1", "type": "repeat", "blocks": [{"id": "b2", "type": "spacer", "height": "9"}]}, "Block 'b2', "),
    ],
)
def test_error_names_the_block_and_the_field(block: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidDocument) as refused:
        parse_document(a_document(block))
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "must be a JSON object"),
        ('{"version": 2}', "Field version: "),
        (" " * 600_000, "larger than 512 KB"),
        ({"version": 1, "blocks": [{"id": "a", "type": "text"}] * 2}, "another block has the same id"),
        (a_document(*({"id": str(n), "type": "spacer"} for n in range(MAX_BLOCKS + 1))), "more than 500 blocks"),
        (a_document(nested(MAX_BLOCK_LEVELS + 1)), "nested more than 8 levels"),
        ('{"version": 1, "x": ' + "[" * MAX_JSON_LEVELS + "]" * MAX_JSON_LEVELS + "}", "nested more than 60 levels"),
        (a_document({"id": "t", "type": "text"}, mjml="<mjml></mjml>"), "only slots"),
    ],
)
def test_document_beyond_limits_is_refused(source: Any, message: str) -> None:
    with pytest.raises(InvalidDocument, match=message):
        parse_document(source)


def test_deepest_and_largest_documents_are_accepted() -> None:
    largest = [{"id": str(n), "type": "spacer"} for n in range(MAX_BLOCKS)]
    for document in (a_document(nested(MAX_BLOCK_LEVELS)), a_document(*largest)):
        assert parse_document(document).to_json() == orjson.loads(orjson.dumps(document))


@pytest.mark.parametrize("code", ["{{ a }}", "{% if a %}{% endif %}", '<span data-variable="a"></span>'])
def test_too_many_pieces_of_code_are_refused(code: str) -> None:
    with pytest.raises(InvalidDocument, match="pieces of template code"):
        parse_document(a_document({"id": "a", "type": "text", "html": code * 2_001}))


def test_columns_inside_columns_are_refused() -> None:
    inner = {"id": "in", "type": "columns", "columns": [{}, {}]}
    around = {"id": "if", "type": "condition", "segment": "vip", "blocks": [inner]}
    outer = {"id": "out", "type": "columns", "columns": [{"blocks": [around]}, {}]}
    with pytest.raises(InvalidDocument, match="Block 'in': columns cannot be inside columns"):
        parse_document(a_document(outer))
