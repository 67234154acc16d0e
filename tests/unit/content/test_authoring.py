"""Compile MJML, Markdown and HTML: template code passes through unchanged."""

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from mailwright.content.authoring import compile_to_html, image_names
from mailwright.content.blocks.compile import compile_template
from mailwright.content.formats import TemplateFormat
from mailwright.content.html import MAX_BYTES
from mailwright.content.template import InvalidTemplate, Template
from mailwright.content.template_markers import find_code

STYLE = "<style>p { color: red } @media (max-width: 400px) { p { color: blue } }</style>"


def mjml(inside: str) -> str:
    return f"<mjml><mj-body><mj-section><mj-column>{inside}</mj-column></mj-section></mj-body></mjml>"


def codes(text: str) -> list[str]:
    return list(find_code(text))


# Template code.

TEXT_CODE = ["{{ name }}", '{{ "}}" }}', "{{ a.b|default('<b>') }}", "{# a note with <p> #}", "{% set x = '>' %}"]
BLOCKS = [
    ("{% if a > 1 %}", "{% endif %}"),
    ("{% for r in rows %}", "{% endfor %}"),
    ("{%- if not b -%}", "{%- endif -%}"),
]

text_pieces = st.sampled_from([*TEXT_CODE, "word ", "<b>bold</b>", "<!-- a remark {{ hidden }} -->", "&amp; ", "é\n"])


def wrapped(pieces: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    inside = st.lists(pieces, max_size=4).map("".join)
    return st.one_of(
        st.tuples(st.sampled_from(BLOCKS), inside).map(lambda each: each[0][0] + each[1] + each[0][1]),
        inside.map(
            lambda text: f'<p class="{{{{ kind }}}} {{% if x %}}a{{% endif %}}" title=\'{{{{ "a" }}}}\'>{text}</p>'
        ),
        inside.map(lambda text: f'<a href="{{{{ url }}}}?a=1&amp;b={{{{ b|urlencode }}}}">{text}</a>'),
        inside.map(
            lambda text: (
                "<table>{% for r in rows %}<tr>{% if r %}<td>" + text + "</td>{% endif %}</tr>{% endfor %}</table>"
            )
        ),
        inside.map(
            lambda text: f"<!--[if mso]>{{% if mso %}}<i>{text.replace('-->', '')}</i>{{% endif %}}<![endif]-->"
        ),
    )


documents = st.recursive(text_pieces, wrapped, max_leaves=12)


@given(document=documents)
def test_template_code_survives_unchanged_and_in_order(document: str) -> None:
    """Otherwise the source is refused: parsers reorder some mixtures, for example a link within a link."""
    source = f"<html><head>{STYLE}<title>{{{{ title }}}}</title></head><body><div>{document}</div></body></html>"
    try:
        html = compile_to_html(source, TemplateFormat.HTML)
    except InvalidTemplate:
        event("refused")
        return
    assert codes(html) == codes(source)
    assert "mwk" not in html


@given(
    lines=st.lists(
        st.sampled_from(
            [
                "# Hello {{ name }}",
                "{% if vip %}",
                "{% endif %}",
                "- an item with {{ thing }}",
                "[a link]({{ url }})",
                "![a picture]({{ picture }})",
                "*{{ loud }}* and `{{ code }}` and {{ 'a' ~ \"b\" }}",
                "    {% raw %}{{ shown as it is{% endraw %}",
                "> {{ quoted }}",
                "",
                "{# a note #}",
            ]
        ),
        max_size=12,
    )
)
def test_template_code_survives_markdown(lines: list[str]) -> None:
    source = "\n".join(lines)
    assert codes(compile_to_html(source, TemplateFormat.MARKDOWN)) == codes(source)


def test_template_code_survives_mjml() -> None:
    source = mjml(
        "{% if shown %}<mj-text align=\"{{ side }}\">Hello {{ name|default('you') }}{% if x %}, {{ x }}{% endif %}"
        "</mj-text>{% endif %}<mj-table>{% for r in rows %}<tr><td>{{ r }}</td></tr>{% endfor %}</mj-table>"
        '<mj-button href="{{ url }}" background-color="{{ brand }}">Go</mj-button>'
    )
    html = compile_to_html(source, TemplateFormat.MJML)
    statements = [code for code in codes(html) if code.startswith("{%")]
    assert statements == [code for code in codes(source) if code.startswith("{%")]
    rendered = Template(subject="x", html=html, text=None).render(
        {"shown": True, "side": "left", "x": 0, "rows": ["one", "two"], "url": "https://a.example", "brand": "#123456"}
    )
    assert rendered.html is not None
    assert rendered.html.count("#123456") > 1
    assert re.findall(r"<td>(\w+)</td>", rendered.html) == ["one", "two"]
    assert "Hello you" in rendered.html


def test_loop_over_rows_makes_rows() -> None:
    source = STYLE + (
        "<table><thead><tr><th>Item</th></tr></thead>"
        "{% for r in rows %}<tr><td><p>{{ r }}</p></td></tr>{% endfor %}</table>"
    )
    html = (
        Template(subject="x", html=compile_to_html(source, TemplateFormat.HTML), text=None)
        .render({"rows": ["a", "b", "c"]})
        .html
    )
    assert html is not None
    assert html.count("<tbody>") == html.count("</tbody>") == 1
    assert html.count("<tr><td>") == 3


def test_loop_over_items_makes_one_list() -> None:
    html = compile_to_html("{% for i in items %}\n- {{ i }}\n{% endfor %}\n", TemplateFormat.MARKDOWN)
    rendered = Template(subject="x", html=html, text=None).render({"items": ["a", "b"]})
    assert rendered.html is not None
    assert (rendered.html.count("<ul"), rendered.html.count("<li")) == (1, 2)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (STYLE + '\n\n<p {% if x %}class="a"{% endif %}>a</p>', 3),
        (STYLE + "\n<p class={% if x %}a{% endif %}>a</p>", 2),
    ],
)
def test_condition_around_attribute_is_refused_with_line(source: str, line: int) -> None:
    with pytest.raises(InvalidTemplate, match="inside the quotes") as refused:
        compile_to_html(source, TemplateFormat.HTML)
    assert refused.value.line == line


def test_style_sheet_with_code_stays_unchanged() -> None:
    styled = "<style>p { color: {{ brand }} }</style>"
    html = compile_to_html(
        f"<html><head>{styled}<style>p {{ margin: 0 }}</style></head><body><p>a</p></body></html>", TemplateFormat.HTML
    )
    assert styled in html
    assert '<p style="margin: 0;">' in html


def test_reserved_markers_are_refused() -> None:
    with pytest.raises(InvalidTemplate, match="reserves"):
        compile_to_html(f"{STYLE}<p>mwk0k</p>", TemplateFormat.HTML)


# Styles.


def test_styles_are_inlined_and_media_queries_stay() -> None:
    html = compile_to_html(f"<html><head>{STYLE}</head><body><p>a</p></body></html>", TemplateFormat.HTML)
    assert '<p style="color: red;">' in html
    assert "@media (max-width: 400px)" in html.replace("(max-width:400px)", "(max-width: 400px)")


def test_html_without_style_sheet_stays_unchanged() -> None:
    source = "<TABLE><tr><td {% if a %}class=x{% endif %}>&nbsp;{{ a }}\r\n<br></TABLE>"
    assert compile_to_html(source, TemplateFormat.HTML) == source


# Nothing is fetched.


@contextmanager
def a_server_that_must_not_be_called() -> Iterator[tuple[str, list[object]]]:
    calls: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def watch() -> None:
            while True:
                try:
                    connection, address = listener.accept()
                except OSError:
                    return
                calls.append(address)
                connection.close()

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", calls
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            watching.join(10)


def test_nothing_is_ever_fetched() -> None:
    with a_server_that_must_not_be_called() as (url, calls):
        head = f'<link rel="stylesheet" href="{url}/a.css"><style>@import url({url}/b.css); p {{ color: red }}</style>'
        html = compile_to_html(
            f'<html><head>{head}</head><body><p>a</p><img src="{url}/c.png"></body></html>', TemplateFormat.HTML
        )
        compile_to_html(f"{head}\n\n![x]({url}/d.png)\n\n<p>b</p>", TemplateFormat.MARKDOWN)
        compile_to_html(mjml(f'<mj-image src="{url}/e.png" /><mj-text>x</mj-text>'), TemplateFormat.MJML)
        for include in (f"{url}/f.mjml", "file:///etc/hostname", "./g.mjml"):
            with pytest.raises(InvalidTemplate, match="included template"):
                compile_to_html(f'<mjml><mj-body><mj-include path="{include}" /></mj-body></mjml>', TemplateFormat.MJML)
    assert calls == []
    assert f"{url}/a.css" in html


def test_mjml_adds_no_external_fonts() -> None:
    assert "fonts.googleapis.com" not in compile_to_html(mjml("<mj-text>x</mj-text>"), TemplateFormat.MJML)


# Errors and limits.


@pytest.mark.parametrize(
    ("source", "message", "line"),
    [
        ("<mjml>\n<mj-body>\n<mj-txt>x</mj-txt></mj-body></mjml>", "MJML has no element <mj-txt>", 3),
        ("<mjml>{# a\nb #}\n<mj-body><mj-section></mj-body></mj-section></mjml>", "</mj-body> does not match", 3),
        ('<mjml>\n<mj-body>{{ "é" }}\n\n<mj-include path="x" /></mj-body></mjml>', "included template", 4),
        ("<mjml><mj-body>", "<mj-body> is not closed", None),
        ("<p>Hello</p>", "MJML is not valid", 1),
        ("", "MJML is not valid", None),
    ],
)
def test_mjml_problem_is_reported_with_its_line(source: str, message: str, line: int | None) -> None:
    with pytest.raises(InvalidTemplate, match=re.escape(message)) as refused:
        compile_to_html(source, TemplateFormat.MJML)
    assert refused.value.line == line


@pytest.mark.parametrize(
    ("source", "format_"),
    [
        (STYLE + "<div>" * 100_000, TemplateFormat.HTML),
        (STYLE + "<b><i>" * 50_000, TemplateFormat.HTML),
        ("<div>" * 100_000, TemplateFormat.MARKDOWN),
        (mjml("<mj-text>" + "<div>" * 100_000 + "</mj-text>"), TemplateFormat.MJML),
        ("<mjml><mj-body>" + "<mj-wrapper>" * 40_000 + "</mj-wrapper>" * 1, TemplateFormat.MJML),
        (mjml("<mj-text>" + "<p>" * 100_000 + "</mj-text>"), TemplateFormat.MJML),
        (STYLE + "<div title='</div>'>" * 5_000, TemplateFormat.HTML),
        (STYLE + '<div a">' + "<div>" * 5_000 + '">', TemplateFormat.HTML),
        (STYLE + "<!-->" + "<div>" * 5_000 + "-->", TemplateFormat.HTML),
        (mjml("<mj-text><!-->" + "<div>" * 5_000 + "--></mj-text>"), TemplateFormat.MJML),
    ],
    ids=["html", "formatting", "markdown", "mjml", "wrappers", "paragraphs", "quotes", "endings", "comments", "hidden"],
)
def test_excessive_nesting_is_refused(source: str, format_: TemplateFormat) -> None:
    with pytest.raises(InvalidTemplate, match=r"nested more than \d+ levels|More than \d+ elements|larger than"):
        compile_template(source, format_)


@pytest.mark.parametrize("format_", list(TemplateFormat))
def test_oversized_source_is_refused(format_: TemplateFormat) -> None:
    with pytest.raises(InvalidTemplate, match="larger than 512 KB"):
        compile_template("é" * (MAX_BYTES // 2 + 1), format_)


@pytest.mark.parametrize(
    "piece", ["{{", "{% raw %}{{", "<style ", "<!--", "<a ", "<a '", "<table", "<!--mw", "{#", "<p {{ a"]
)
@pytest.mark.parametrize("format_", list(TemplateFormat))
def test_unclosed_code_is_scanned_in_linear_time(piece: str, format_: TemplateFormat) -> None:
    source = piece * (200_000 // len(piece))
    began = time.process_time()
    with suppress(InvalidTemplate):
        compile_template(STYLE + source, format_)
    assert time.process_time() - began < 20  # Quadratic time would take hours.


def test_many_paragraphs_do_not_count_as_nesting() -> None:
    assert compile_to_html(STYLE + "<p>x" * 2_000, TemplateFormat.HTML).count("<p") == 2_000


@given(
    source=st.text(alphabet=st.sampled_from(list("<>!-/\"'{}%# \nabpmj=&")), max_size=80),
    format_=st.sampled_from(list(TemplateFormat)),
)
def test_any_source_compiles_or_is_refused(source: str, format_: TemplateFormat) -> None:
    with suppress(InvalidTemplate):
        compile_template(STYLE + source if format_ is TemplateFormat.HTML else source, format_)


@pytest.mark.parametrize("source", ["# Hello", mjml("<mj-text>x</mj-text>")])
def test_title_is_the_subject_with_its_variables(source: str) -> None:
    format_ = TemplateFormat.MJML if "<mjml" in source else TemplateFormat.MARKDOWN
    html = compile_to_html(source, format_, title="A & B for {{ name }}")
    assert "<title>A &amp; B for {{ name }}</title>" in html
    assert "und" not in html.partition("<head>")[0]
    assert "<title></title>" in compile_to_html(source, format_, title="{{ name | safe }}")


# Markdown.


def test_markdown_becomes_a_page_in_its_language() -> None:
    html = compile_to_html(
        "# Hello\n\n| a | b |\n|---|---|\n| 1 | 2 |", TemplateFormat.MARKDOWN, title="<News>", locale="pt-BR"
    )
    assert '<html lang="pt-BR">' in html
    assert "<title>&lt;News&gt;</title>" in html
    assert "lang=" not in compile_to_html("x", TemplateFormat.MARKDOWN).partition("<head>")[0]
    assert "prefers-color-scheme: dark" in html.replace("prefers-color-scheme:dark", "prefers-color-scheme: dark")
    assert "<td" in html


def test_only_footer_with_unsubscribe_link_is_small_print() -> None:
    source = "One\n\n---\n\nTwo\n\n---\n\n[Leave]({{ unsubscribe_url }})"
    html = compile_to_html(source, TemplateFormat.MARKDOWN)
    assert html.count("font-size: 14px;") == 1
    assert compile_to_html("One\n\n---\n\nTwo", TemplateFormat.MARKDOWN).count("font-size: 14px;") == 0


# Images.


@pytest.mark.parametrize(
    ("source", "format_"),
    [
        ('<img src="logo.png" alt="">', TemplateFormat.HTML),
        ("<img src='logo.png' alt=''>", TemplateFormat.HTML),
        ('<style>p{margin:0}</style><table background="logo.png"><tr><td>a</table>', TemplateFormat.HTML),
        ("![Our logo](logo.png)", TemplateFormat.MARKDOWN),
        (mjml('<mj-image src="logo.png" alt="" />'), TemplateFormat.MJML),
        (
            '<mjml><mj-body><mj-section background-url="logo.png"><mj-column /></mj-section></mj-body></mjml>',
            TemplateFormat.MJML,
        ),
    ],
)
def test_uploaded_image_is_shown_by_its_name(source: str, format_: TemplateFormat) -> None:
    address = "https://mail.example/images/0a.png"
    assert image_names(source) == {"logo.png"}
    html = compile_to_html(source, format_, images={"logo.png": address})
    assert address in html
    assert not re.search(r"""["'(]logo\.png""", html)


def test_image_names_inside_urls_and_words_stay() -> None:
    source = '<a href="https://a.example/logo.png">logo.png</a><img src="https://b.example/logo.png" alt="logo.png">'
    assert (
        compile_to_html(source, TemplateFormat.HTML, images={"logo.png": "https://mail.example/images/0a.png"})
        == source
    )


MARKDOWN = "Hello\n\n- a\n\n> b\n\n| c | d |\n|---|---|\n| e | f |"
MJML = "<mjml>{}<mj-body><mj-section><mj-column><mj-text>a</mj-text></mj-column></mj-section></mj-body></mjml>"


@pytest.mark.parametrize(
    ("format_", "source"),
    [
        (TemplateFormat.MARKDOWN, MARKDOWN),
        *((TemplateFormat.MJML, MJML.format(head)) for head in ("", "<mj-head></mj-head>", "<mj-head />")),
    ],
)
@pytest.mark.parametrize("locale", ["ar", "he-IL", "fa", "ur", "pt-BR"])
def test_text_begins_at_the_side_of_its_language(format_: TemplateFormat, source: str, locale: str) -> None:
    html = compile_to_html(source, format_, locale=locale)
    is_right = locale != "pt-BR"
    assert (re.search(r'<html[^>]* dir="rtl"', html) is not None) == is_right
    body = html[html.index("<body") :]
    assert (re.search(r"direction: ?rtl", body) is not None) == is_right
    assert (re.search(r"text-align: ?left|padding-left: ?16px|border-left", body) is None) == is_right


def test_author_decides_the_direction_of_mjml() -> None:
    source = MJML.format("").replace("<mjml>", '<mjml dir="ltr">')
    assert compile_to_html(source, TemplateFormat.MJML, locale="ar").count("rtl") == 0
