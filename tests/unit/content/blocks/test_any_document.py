"""Any tree of blocks survives a round trip, compiles and renders, whatever people type."""

from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from mailwright.content.blocks.compile import compile_document
from mailwright.content.blocks.document import BlockDocument, parse_document
from mailwright.content.segments_used import segments_used
from mailwright.content.template import Template

# Text that looks like code, markup or a marker of the compiler is more likely than in random text.
_PIECES = (
    *("{{", "}}", "{%", "%}", "{#", "#}", "{{ name }}", "{% if x %}", "{% endif %}", "{% raw %}", "<p>", "</p>", "<b>"),
    *(
        "<script>",
        "<!--",
        "-->",
        "<![endif]-->",
        "mwk0k",
        "mwcode0c0x",
        "[[x]]",
        "&amp;",
        "&",
        "<",
        ">",
        '"',
        "'",
        "\\",
    ),
    *(
        "</mj-text>",
        "<mj-section>",
        "<td>",
        "<table>",
        "</table>",
        '<a href="{{ url }}">',
        "</a>",
        "\ue0000\ue001",
        "\0",
    ),
    *(
        '<span data-variable="name" data-fallback="a }} &quot;">n</span>',
        '<span data-variable="a b">n</span>',
        "é",
        "\n",
    ),
)
texts = (
    st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=8)), max_size=8)
    .map("".join)
    .filter(lambda text: text.encode("utf-8", "replace").decode() == text)
)
colors = st.sampled_from(["#000000", "#ffffff", "#abc", "brand:primary", "brand:background"])
urls = st.one_of(
    st.sampled_from(["", "https://example.com/?a=1&b={{ name }}", "{{ url }}", "cat.png"]), texts.map("/".__add__)
)
names = st.sampled_from(["rows", "order.rows"])
unknown = st.dictionaries(
    st.sampled_from(["future", "blocks", "html", "x"]), st.one_of(texts, st.none(), st.integers(0, 9))
)


def leaf(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    shared = {
        "padding": st.fixed_dictionaries({}, optional={"top": st.integers(0, 99), "left": st.integers(0, 9)}),
        "background": colors,
        "align": st.sampled_from(["left", "center", "right"]),
        "hideOn": st.sampled_from(["phone", "desktop"]),
        "locked": st.booleans(),
        "note": texts,
    }
    return st.fixed_dictionaries({"type": st.just(kind)}, optional={**shared, **fields})


leaves = st.one_of(
    leaf("heading", level=st.integers(1, 3), html=texts),
    leaf("text", html=texts),
    leaf("image", src=urls, alt=texts, href=urls, width=st.integers(1, 900)),
    leaf("button", label=texts, href=urls, color=colors, textColor=colors, fullWidth=st.booleans()),
    leaf("divider", color=colors, thickness=st.integers(1, 9)),
    leaf("spacer", height=st.integers(0, 90)),
    leaf("social", links=st.lists(st.fixed_dictionaries({"network": st.just("x"), "href": urls}), max_size=2)),
    leaf("video", href=urls, thumbnail=urls, alt=texts),
    leaf("quote", html=texts, cite=texts),
    leaf("html", html=texts),
    leaf("card", image=urls, alt=texts, title=texts, html=texts, href=urls, label=texts),
    leaf("header", logo=urls, alt=texts, href=urls),
    leaf("footer", html=texts, transactional=st.booleans()),
    leaf("slot", value=texts).map(lambda block: {**block, "name": "intro"}),
    unknown.map(lambda block: {**block, "type": "future"}),
)


def containers(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    lists = st.lists(inner, max_size=3)
    short = st.one_of(st.sampled_from(["", "vip", "a-b"]), texts.map(lambda text: text[:60]))
    return st.one_of(
        leaf("condition", segment=short, blocks=lists, otherwise=lists),
        leaf("repeat", over=names, blocks=lists, limit=st.integers(1, 3)).map(lambda block: {**block, "as": "row"}),
    )


inside = st.recursive(leaves, containers, max_leaves=6)
columns = st.lists(
    st.fixed_dictionaries({"blocks": st.lists(inside, max_size=2)}, optional={"width": st.integers(1, 100)}),
    min_size=2,
    max_size=3,
)
rows = leaf("columns", stackOnPhone=st.booleans()).flatmap(
    lambda block: columns.map(lambda found: {**block, "columns": found})
)
trees = st.recursive(st.one_of(leaves, rows), containers, max_leaves=8)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    blocks = draw(st.lists(trees, max_size=5))
    counter = iter(range(10_000))
    document = {"version": 1, "preheader": draw(texts), "blocks": [numbered(block, counter) for block in blocks]}
    return {**document, "later": draw(unknown)}


def numbered(block: dict[str, Any], counter: Any) -> dict[str, Any]:
    found = {"id": f"b{next(counter)}", **block}
    for name in ("blocks", "otherwise"):
        if isinstance(found.get(name), list):
            found[name] = [numbered(each, counter) for each in found[name]]
    if found["type"] == "columns":
        found["columns"] = [
            {**each, "blocks": [numbered(inner, counter) for inner in each["blocks"]]} for each in found["columns"]
        ]
    return found


VALUES = {
    "name": "Ada <b>",
    "url": "https://example.com/",
    "x": True,
    "rows": [{"title": "a"}, {"title": "b"}],
    "order": {"rows": [1]},
    "unsubscribe_url": "https://example.com/u",
    "preferences_url": "https://example.com/p",
    "postal_address": "Street 1",
}


@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=60)
@given(documents())
def test_any_document_survives_compiles_and_renders(document: dict[str, Any]) -> None:
    parsed = parse_document(orjson.dumps(document))
    assert parsed.to_json() == document
    shown = {"id": "shown", "type": "text", "html": "shown"}
    with_text = BlockDocument.model_validate({**document, "blocks": [*document["blocks"], shown]})
    compiled = compile_document(with_text, title="Any")
    members = dict.fromkeys(segments_used(compiled.html), True)
    rendered = Template(subject="x", html=compiled.html, text=None).render({**VALUES, "in_segments": members})
    assert "shown" in (rendered.text or "")
    assert LexborHTMLParser(rendered.html or "").body is not None
