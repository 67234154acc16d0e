"""Compile blocks: what readers see, what stays template code, and what never becomes code."""

from typing import Any

import pytest

from mailwright.content.blocks.compile import CompiledDocument, compile_document
from mailwright.content.blocks.document import InvalidDocument, parse_document
from mailwright.content.brand import Brand
from mailwright.content.social_icons import icon_urls
from mailwright.content.template import RenderedEmail, Template, variables
from mailwright.web.dashboard.assets import FOLDERS

VALUES = {
    "email": "ada@example.com",
    "unsubscribe_url": "https://example.com/u",
    "preferences_url": "https://example.com/p",
    "postal_address": "Street 1",
}


def compiled(*blocks: dict[str, Any], brand: Brand | None = None, locale: str = "", **changes: Any) -> CompiledDocument:
    numbered = [{"id": f"b{number}", **block} for number, block in enumerate(blocks)]
    document = parse_document({"version": 1, "blocks": numbered, **changes})
    return compile_document(document, brand or Brand(), locale=locale)


def rendered(document: CompiledDocument, **values: Any) -> RenderedEmail:
    return Template(subject="x", html=document.html, text=None).render({**VALUES, **values})


def text_of(*blocks: dict[str, Any], **values: Any) -> str:
    return rendered(compiled(*blocks), **values).text or ""


@pytest.mark.parametrize(
    "typed",
    [
        "{{",
        "}}{{{ name }}",
        "{% if %}",
        "{% if x %} without an end",
        "{# comment #} {#",
        "100 {%",
        "mwk0k and mwk1k",
        "{{ name | nonsense }}",
        "{{ '",
        "<!--mwk0k-->",
        "& < > \" '",
        "{% raw %}",
    ],
)
def test_typed_text_never_breaks_the_template(typed: str) -> None:
    html = typed.replace("&", "&amp;").replace("<", "&lt;")
    document = compiled(
        {"type": "text", "html": f"<p>{html}</p>"},
        {"type": "html", "html": f'<div title="{html}">{html}</div>'},
        {"type": "button", "label": typed, "href": f"https://example.com/?q={typed}"},
        {"type": "image", "src": "https://example.com/a.png", "alt": typed},
        {"type": "card", "title": typed, "html": html, "href": "https://example.com"},
        preheader=typed,
    )
    shown = rendered(document).text or ""
    assert " ".join(typed.split()) in " ".join(shown.split())


def test_variables_keep_their_fallbacks_and_values() -> None:
    chip = '<span data-variable="first_name" data-fallback="you &amp; &quot;all&quot; }}">first name</span>'
    block = {"type": "text", "html": f"Hello {chip}, {{{{ email }}}}"}
    assert text_of(block) == 'Hello you & "all" }}, ada@example.com'
    assert text_of(block, first_name="") == 'Hello you & "all" }}, ada@example.com'
    assert text_of(block, first_name="<Ada>") == "Hello <Ada>, ada@example.com"
    nested = '<span data-variable="shop.name" data-fallback="us">x</span>'
    assert text_of({"type": "text", "html": nested}) == "us"
    assert text_of({"type": "text", "html": nested}, shop={"name": "Bolt"}) == "Bolt"
    city = {"type": "text", "html": '<span data-variable="город" data-fallback="дома">x</span>'}
    assert (text_of(city), text_of(city, город="Псков")) == ("дома", "Псков")


def test_chip_without_a_fallback_needs_a_value() -> None:
    document = compiled({"type": "text", "html": '<span data-variable="city">city</span>'})
    assert "city" in variables(document.html)
    assert Template(subject="x", html=document.html, text=None).required_variables == {"city"}


@pytest.mark.parametrize("name", ["a b", "1a", "a..b", "ﬁnd"])
def test_invalid_variable_name_is_text_with_a_warning(name: str) -> None:
    document = compiled({"type": "text", "html": f'<span data-variable="{name}">shown</span>'})
    assert rendered(document).text == "shown"
    assert [(each.block_id, each.message) for each in document.warnings] == [
        ("b0", f"{name!r} is not the name of a variable.")
    ]


def test_scripts_styles_and_dangerous_links_are_removed() -> None:
    html = '<script>x()</script><p style="position:fixed" onclick="x()">a</p><a href="javascript:x()">b</a>'
    for kind in ("text", "html", "quote"):
        document = compiled({"type": kind, "html": html})
        assert rendered(document).text == "a\n\nb"
        assert not any(word in document.html for word in ("x()", "onclick", "javascript"))


def test_repeat_shows_each_item_up_to_its_limit() -> None:
    item = {"id": "t", "type": "card", "title": "{{ row.title }}", "href": "https://example.com/{{ row.id }}"}
    block = {"type": "repeat", "over": "order.rows", "as": "row", "limit": 2, "blocks": [item]}
    order = {"rows": [{"title": name, "id": name} for name in "abc"]}
    assert text_of(block, order=order) == "a (https://example.com/a)\n\nb (https://example.com/b)"


@pytest.mark.parametrize("inner", [{"id": "t", "type": "text", "html": "vip"}, None])
@pytest.mark.parametrize("is_member", [True, False])
def test_condition_shows_one_of_its_branches(inner: dict[str, Any] | None, is_member: bool) -> None:
    text = {"id": "t", "type": "text", "html": "vip"}
    columns = {"id": "c", "type": "columns", "columns": [{"blocks": [text]}, {}]}
    other = {"id": "o", "type": "text", "html": "other"}
    block = {"type": "condition", "segment": "vip-1", "blocks": [inner or columns], "otherwise": [other]}
    assert text_of(block, in_segments={"vip-1": is_member}) == ("vip" if is_member else "other")


def test_unknown_and_unfinished_blocks_are_warnings() -> None:
    unfinished = ("image", "button", "video", "condition", "repeat", "poll")
    document = compiled({"type": "text", "html": "x"}, *({"type": kind} for kind in unfinished))
    assert [warning.block_id for warning in document.warnings] == [f"b{number}" for number in range(1, 7)]
    assert rendered(document).text == "x"


def test_empty_blocks_and_unreadable_colours_are_warnings() -> None:
    pale = '<p>Read <span style="color:#f4f4f5">this</span></p>'
    document = compiled(
        *({"type": kind, "html": "<p> </p>"} for kind in ("heading", "text", "quote")),
        *({"type": kind} for kind in ("card", "social", "html")),
        {"type": "condition", "segment": "vip"},
        {"type": "text", "html": pale},
        {"type": "text", "html": pale, "background": "#000000"},
        {"type": "button", "label": "Go", "href": "https://mw.test", "color": "#777777", "textColor": "#888888"},
    )
    codes = ["EMPTY_BLOCK"] * 7 + ["LOW_CONTRAST"] * 2
    assert [each.code for each in document.warnings] == codes
    assert [each.block_id for each in document.warnings[-2:]] == ["b7", "b9"]


def test_footer_has_address_and_links_in_the_language() -> None:
    brand = Brand(name="Acme", footer_html="<p>Made with care</p>", postal_address="1 Main St\n1000 Town")
    html = compiled({"type": "footer"}, brand=brand).html
    assert all(part in html for part in ("Made with care", "1 Main St<br />1000 Town", "{{ unsubscribe_url }}"))
    portuguese = compile_document(
        parse_document({"version": 1, "blocks": [{"id": "f", "type": "footer"}]}), locale="pt"
    )
    assert "Cancelar a inscrição" in portuguese.html
    assert "{{ postal_address }}" in portuguese.html
    transactional = compiled({"type": "footer", "transactional": True}).html
    assert variables(transactional) == {"postal_address"}


def test_text_is_readable_on_every_background() -> None:
    html = compiled({"type": "text", "html": "x", "background": "brand:text"}).html
    assert "color:#ffffff" in html
    dark = compiled({"type": "text", "html": "x"}, settings={"contentBackground": "#101010"}).html
    assert "prefers-color-scheme:dark" not in dark


def test_slots_fill_the_mjml_of_a_developer() -> None:
    mjml = (
        '<mjml><mj-body><mj-section><mj-column><mj-image src="[[hero]]" alt="[[hero.alt]]" />'
        '<mj-text>[[ intro ]]</mj-text><mj-button href="[[link]]">Go</mj-button></mj-column></mj-section>'
        "</mj-body></mjml>"
    )
    slots = (
        {"type": "slot", "name": "hero", "kind": "image", "value": "https://example.com/a.png", "alt": 'A "b" {{'},
        {"type": "slot", "name": "intro", "kind": "richText", "value": "<p>Hi <script>x</script>{{ email }}</p>"},
        {"type": "slot", "name": "link", "kind": "link", "value": "https://example.com/?a=1&b={{ email }}"},
    )
    shown = rendered(compiled(*slots, mjml=mjml))
    assert 'alt="A &quot;b&quot; &#123;&#123;"' in (shown.html or "")
    assert "Hi ada@example.com" in (shown.text or "")
    assert "Go (https://example.com/?a=1&b=ada@example.com)" in (shown.text or "")
    with pytest.raises(InvalidDocument, match=r"\[\[hero\]\] has no slot"):
        compiled(*slots[1:], mjml=mjml)


@pytest.mark.parametrize(
    ("locale", "side"),
    [("ar", "right"), ("he-IL", "right"), ("fa", "right"), ("ur", "right"), ("az-Arab", "right"), ("pt-BR", "left")],
)
def test_email_begins_at_the_side_of_its_language(locale: str, side: str) -> None:
    html = compiled(
        {"type": "text", "html": "<p>a</p><ul><li>b</li></ul>"},
        {"type": "quote", "html": "<p>c</p>"},
        {"type": "button", "label": "d", "href": "https://example.com"},
        {"type": "columns", "stackOnPhone": False, "columns": [{"blocks": []}, {"blocks": []}]},
        {"type": "card", "title": "f", "image": "https://example.com/f.png"},
        locale=locale,
    ).html
    body = html[html.index("<body") :]
    is_right = side == "right"
    assert ('dir="rtl"' in html, "direction:rtl" in body, "direction:ltr" in body) == (is_right, is_right, not is_right)
    other = "left" if is_right else "right"
    assert (f'align="{side}"' in body, f'align="{other}"' in body, f"text-align:{other};color" in body) == (
        True,
        False,
        False,
    )
    assert f"border-{side}:3px" in body
    assert ("padding:0 24px 0 0" if is_right else "padding:0 0 0 24px") in body
    assert 'lang="und"' not in html


CARD: dict[str, Any] = {"type": "card", "title": "Spring", "html": "<p>Words</p>", "href": "https://example.com/s"}


@pytest.mark.parametrize(
    ("changes", "alt", "text"),
    [
        ({"label": "Read"}, "", "Spring\n\nWords\n\nRead → (https://example.com/s)"),
        ({"alt": "Spring"}, "", "Spring (https://example.com/s)\n\nWords"),
        ({"alt": "A tree"}, "A tree", "A tree\n\nSpring (https://example.com/s)\n\nWords"),
        ({"title": "", "html": None, "alt": "A tree"}, "A tree", "A tree (https://example.com/s)"),
    ],
)
def test_card_names_its_link_once(changes: dict[str, Any], alt: str, text: str) -> None:
    document = compiled({**CARD, "image": "https://example.com/a.png", **changes})
    assert document.text == text
    assert f'<img alt="{alt}"' in document.html
    # A link without a name is hidden from screen readers, which read the title's link.
    assert document.html.count('aria-hidden="true" tabindex="-1"') == (0 if alt else 1)
    assert document.warnings == ()


def test_image_alone_and_empty_columns_are_warnings() -> None:
    document = compiled(
        {"type": "card", "title": "", "image": "https://example.com/a.png", "href": "https://example.com"},
        {"type": "columns", "columns": [{"blocks": []}, {"blocks": [{"id": "t", "type": "text", "html": "t"}]}]},
    )
    assert [each.block_id for each in document.warnings] == ["b0", "b1"]


def test_social_links_are_icons_that_recipients_can_load() -> None:
    social = {"id": "s", "type": "social", "links": [{"network": "linkedin", "href": "https://a.test"}]}
    document = parse_document({"version": 1, "blocks": [social]})
    shown = compile_document(document, images=icon_urls("https://mail.acme.test"))
    address = "https://mail.acme.test/assets/social/mailwright-social-linkedin.png"
    assert f'<img src="{address}" alt="LinkedIn" width="32" height="32"' in shown.html
    assert shown.text.strip() == "LinkedIn (https://a.test)"
    for local in ("http://127.0.0.1:8025", "http://localhost", ""):
        words = compile_document(document, images=icon_urls(local))
        assert ("<img" in words.html, words.text.strip()) == (False, "LinkedIn (https://a.test)")
    assert {f"/assets/social/{name}" for name in icon_urls("https://a.test")} == {
        f"/assets/social/{file.name}" for file in FOLDERS[0].glob("mailwright-social-*.png")
    }
