from typing import Any

import minijinja
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.content import text as plain_text
from mailwright.content.headers import InvalidHeader
from mailwright.content.layout import Layout, LayoutCache, RecipientHeaders, SharedHeaders
from mailwright.content.mime import Mailbox
from mailwright.content.template import InvalidTemplate, MissingVariable, Template, UnsafeValue, variables
from tests.unit.content.emails import NOON, assert_is_clean, normal, part, read

FRAME = SharedHeaders(
    sender=Mailbox("news@example.com", "Example News"),
    reply_to=(Mailbox("reply@example.com"),),
    headers={"X-Campaign": "spring"},
    feedback_id="c:t:campaign:mailwright",
    unsubscribe_mailto="mailto:leave@example.com",
)
JANE = RecipientHeaders(
    to=Mailbox("jane@example.org", "Jane Doe"),
    message_id="<0190-1@example.com>",
    date=NOON,
    outbox_id="0190-1",
    unsubscribe_url="https://example.com/u/abc",
)

# The parts of a template that only outputs variables, with white space, comments and trimming.
FIXED = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="{}%#<>&\"'\ue000\ue001\0"), max_size=90)
OUTPUTS = st.sampled_from(
    [
        "{{ a }}",
        "{{b}}",
        "{{- a -}}",
        "{{ c.d }}",
        "{{ c.e -}}",
        "{# no {{ x }} #}",
        "{#- no -#}",
        "<p>",
        "</p>",
        "\n",
        " ",
    ]
)
SOURCES = st.lists(st.one_of(FIXED, OUTPUTS), max_size=12).map("".join)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
# Links: the start that many recipients share, and the token of each recipient, are encoded separately.
BEGINNINGS = st.sampled_from(["https://example.com/", "https://example.com/u?a=1&token=", "/", "é / ", "\n.=/", "."])
TOKENS = st.text("aZ09_.-", max_size=200)
JOINTS = st.sampled_from(["&message=", "&a=b/", "&", "&=", f"&{'a' * 80}="])
LINKS = st.one_of(
    st.tuples(BEGINNINGS, TOKENS).map("".join), st.tuples(BEGINNINGS, TOKENS, JOINTS, TOKENS).map("".join)
)
SCALARS = st.one_of(
    TEXTS, LINKS, st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False), st.lists(TEXTS, max_size=2)
)


def a_layout(html: str | None = "<p>Hello</p>", text: str | None = "Hello", subject: str = "Hello") -> Layout:
    return Layout.compile(FRAME, subject=subject, html=html, text=text)


def rendered(source: str, values: dict[str, Any], escape: bool) -> str:
    environment = minijinja.Environment(
        templates={"it": source}, undefined_behavior="strict", auto_escape_callback=lambda _: "html" if escape else None
    )
    return environment.render_template("it", **values)


@given(SOURCES, SOURCES, SCALARS, SCALARS, SCALARS)
def test_filled_layout_equals_engine_output(html: str, text: str, one: Any, two: Any, three: Any) -> None:
    values = {"a": one, "b": two, "c": {"d": three, "e": one}}
    html += "<i>.</i>"
    layout = a_layout(html, text)
    assert layout.is_flat
    content = layout.fill(JANE, values)
    message = read(content)
    assert part(message, "text/html") == normal(rendered(html, values, escape=True))
    assert part(message, "text/plain") == normal(rendered(text, values, escape=False))
    assert content == layout.fill(JANE, values)


@given(TEXTS, TEXTS)
def test_template_with_logic_is_rendered_per_recipient(name: str, other: str) -> None:
    layout = a_layout("<p>Hi {% if name %}{{ name }}{% else %}you{% endif %}</p>", "{{ other|upper }}.")
    assert not layout.is_flat
    message = read(layout.fill(JANE, {"name": name, "other": other}))
    assert part(message, "text/html") == normal(rendered("<p>Hi {{ name or 'you' }}</p>", {"name": name}, escape=True))
    assert message["X-Campaign"] == "spring"


def test_bulk_email_has_every_header() -> None:
    message = read(a_layout(subject="Hello {{ name }}").fill(JANE, {"name": "Жанна"}))
    assert message["Subject"] == "Hello Жанна"
    assert message["From"] == "Example News <news@example.com>"
    assert message["To"] == "Jane Doe <jane@example.org>"
    assert message["Reply-To"] == "reply@example.com"
    assert message["Message-ID"] == "<0190-1@example.com>"
    assert message["List-Unsubscribe"] == "<https://example.com/u/abc>, <mailto:leave@example.com>"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert message["Feedback-ID"] == "c:t:campaign:mailwright"
    assert message["X-Mailwright-Message"] == "0190-1"
    assert message["Date"].datetime.timestamp() * 1000 == NOON


@pytest.mark.parametrize("url", ["https://example.com/", "", "ada"])
@pytest.mark.parametrize("label", ["More", "", "https://example.com/"])
@pytest.mark.parametrize(
    "html",
    [
        '<a href="{{ url }}">More</a>.',
        '<a href="{{ url }}">{{ label }}</a>.',
        '<a href="https://example.com/{{ url }}">{{ label }}</a>.',
        '<a href="{{ url }}">https://example.com/</a>.',
        '<a href="{{ url }}"><img src="x.png" alt="{{ label }}"></a>.',
    ],
)
def test_derived_text_equals_text_of_rendered_html(html: str, url: str, label: str) -> None:
    values = {"url": url, "label": label}
    message = read(a_layout(html, text=None).fill(JANE, values))
    assert part(message, "text/plain") == plain_text.from_html(part(message, "text/html"))


def test_missing_text_is_derived_once_with_slots() -> None:
    layout = a_layout('<h1>Hi {{ name }}</h1><p><a href="{{ url }}">More</a></p>', text=None)
    assert layout.is_flat
    message = read(layout.fill(JANE, {"name": "<Jane>", "url": "https://example.com/?a=1&b=2"}))
    assert part(message, "text/plain") == "Hi <Jane>\n\nMore (https://example.com/?a=1&b=2)"
    assert "Hi &lt;Jane&gt;" in part(message, "text/html")


def test_template_without_html_is_plain_text() -> None:
    for text in ("Hi {{ name }}", "Hi {{ name|trim }}"):
        message = read(a_layout(html=None, text=text).fill(JANE, {"name": "Jane"}))
        assert message.get_content_type() == "text/plain"
        assert part(message, "text/plain") == "Hi Jane\n"


def test_values_are_never_rendered_as_templates() -> None:
    for html in ("<p>{{ a }}</p>", "<p>{{ a|trim }}</p>"):
        message = read(a_layout(html).fill(JANE, {"a": "{{ secret }}", "secret": "no"}))
        assert part(message, "text/html") == "<p>{{ secret }}</p>"


@pytest.mark.parametrize(
    ("html", "values", "missing"),
    [
        ("<p>{{ a }}</p>", {}, "a"),
        ("<p>{{ a.b }}</p>", {"a": {}}, "a.b"),
        ("<p>{{ a.b }}</p>", {"a": "text"}, "a.b"),
        ("<p>{{ a|upper }}</p>", {}, "a"),
        ("<p>{% if a.b %}x{% endif %}</p>", {"a": {}}, "a.b"),
        ("<p>{{ a|length }}</p>", {"b": 1}, "a"),
        # Names that the engine also uses for a method or a function.
        ("<p>{{ items }}</p>", {"b": 1}, "items"),
        ("<p>{{ items|upper }}</p>", {"b": 1}, "items"),
        ("<p>{% for each in values %}{{ each }}{% endfor %}</p>", {"b": 1}, "values"),
        ("<p>{% if b.keys %}x{% endif %}</p>", {"b": {"c": 1}}, "b.keys"),
        ("<p>{{ b.count|upper }}</p>", {"b": [1]}, "b.count"),
        ("<p>{{ range|upper }}</p>", {"b": 1}, "range"),
    ],
)
def test_missing_variable_is_named_with_and_without_engine(html: str, values: dict[str, Any], missing: str) -> None:
    with pytest.raises(MissingVariable) as failed:
        a_layout(html).fill(JANE, values)
    assert failed.value.variable == missing


@pytest.mark.parametrize("name", ["items", "keys", "values", "get", "pop", "update", "copy", "clear", "range"])
def test_variable_may_have_the_name_of_a_method(name: str) -> None:
    source = f"<p>{{{{ {name} }}}} {{{{ of.{name}|upper }}}} {{{{ {name}2|default('none') }}}}</p>"
    template = Template(subject="x", html=source, text=None)
    assert template.required_variables == {name, "of"}
    given = {name: "this", "of": {name: "that"}}
    assert template.render(given).html == "<p>this THAT none</p>"
    for missing in given:
        with pytest.raises(MissingVariable) as failed:
            template.render({key: value for key, value in given.items() if key != missing})
        assert failed.value.variable == missing
    by_default = Template(subject="x", html=f"<p>{{{{ {name}|default('none') }}}} {{{{ b }}}}</p>", text=None)
    assert (by_default.required_variables, by_default.render({"b": 1}).html) == ({"b"}, "<p>none 1</p>")


@pytest.mark.parametrize("name", ["e", "escape", "first", "join", "last", "length", "max", "round", "sum", "urlencode"])
def test_used_variable_must_have_a_value(name: str) -> None:
    template = Template(subject="x", html=f"<p>{{{{ other.part }}}} {{{{ a|{name} }}}}</p>", text=None)
    assert template.required_variables == {"a", "other"}
    with pytest.raises(InvalidTemplate):
        template.render({"other": {"part": "x"}})


def test_variable_in_a_condition_may_be_missing() -> None:
    source = "<p>{{ customer.name }}{% if vip is defined %}!{% endif %}{% if is_new %}{{ gift }}{% endif %}</p>"
    template = Template(subject="x", html=source, text=None)
    assert template.required_variables == {"customer", "is_new"}


@pytest.mark.parametrize(
    "html",
    [
        '<a href="{{ v }}">x</a>',
        '<a href=" {{ v }}">x</a>',
        '<a href="{{ v }}?a=1">x</a>',
        "<!--[if mso]><v:rect href='{{ v }}'>x</v:rect><![endif]-->x",
        '<a href="{{ v|trim }}">x</a>',
        '<p style="background:url({{ v }})">x</p>',
        '<img srcset="{{ v }} 2x">',
        '<meta http-equiv="refresh" content="0;url={{ v }}">x',
    ],
)
@pytest.mark.parametrize("value", ["javascript:alert(1)", " JAVA\tscript:alert(1)", "vbscript:x", "data:text/html,x"])
def test_dangerous_url_value_is_refused(html: str, value: str) -> None:
    with pytest.raises(UnsafeValue):
        a_layout(html).fill(JANE, {"v": value})
    assert b"https" in a_layout(html).fill(JANE, {"v": "https://example.com"})


@pytest.mark.parametrize(
    ("html", "values"),
    [
        ('<a href="java{{ v }}">x</a>', {"v": "script:x"}),
        ('<a href="{{ v }}:x">x</a>', {"v": "javascript"}),
        ('<a href="{{ v }}{{ w }}">x</a>', {"v": "java", "w": "script:x"}),
        ('<a href="data:{{ v }}">x</a>', {"v": "text/html,x"}),
        ('<a href="&{{ v }};avascript:x">x</a>', {"v": "#106"}),
        ('<a href="&#10{{ v }}avascript:x">x</a>', {"v": "6;"}),
        ("<a href={{ v }}>x</a>", {"v": "javascript:x"}),
        ("<p {{ v }}>x</p>", {"v": "onclick=x"}),
        ("<p{{ v }}>x</p>", {"v": " onclick=x"}),
        ('<p title="a"{{ v }}>x</p>', {"v": "onclick=x"}),
        ("<p title={{ v }}>x</p>", {"v": "a onclick=x"}),
        ("<{{ v }}>x", {"v": "script"}),
        ("<p {{ v }}=x>x</p>", {"v": "onclick"}),
        ("<p>{{ v|safe }}</p>", {"v": "<script>x</script>"}),
    ],
)
def test_value_cannot_create_active_content(html: str, values: dict[str, str]) -> None:
    layout = a_layout(html)
    assert not layout.is_flat
    with pytest.raises(UnsafeValue):
        layout.fill(JANE, values)


def test_value_in_title_or_url_path_is_unrestricted() -> None:
    html = '<a href="https://example.com/{{ v }}" title="{{ v }}">{{ v }}</a>'
    layout = a_layout(html)
    assert layout.is_flat
    assert "javascript:x" in part(read(layout.fill(JANE, {"v": "javascript:x"})), "text/html")


@pytest.mark.promise("content-injection")
@pytest.mark.parametrize("subject", ["Hi {{ name }}", "Hi {{ name|trim }}x"])
@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\0", "\u2028", "\x85"])
def test_line_break_in_subject_value_is_refused(subject: str, line_break: str) -> None:
    with pytest.raises(InvalidTemplate, match=r"a line break|NUL"):
        a_layout(subject=subject).fill(JANE, {"name": f"a{line_break}Bcc: victim@example.com"})


@pytest.mark.promise("content-injection")
def test_line_break_in_recipient_headers_is_refused() -> None:
    with pytest.raises(InvalidHeader):
        a_layout().fill(RecipientHeaders(Mailbox("a@example.com", "x\r\nBcc: y"), "<1@example.com>", NOON, "1"), {})
    with pytest.raises(InvalidHeader):
        Layout.compile(SharedHeaders(FRAME.sender, headers={"Bcc": "x@example.com"}), subject="x", html="<p>x</p>")


@pytest.mark.promise("body-limits")
@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(90000) %}{% for j in range(90000) %}x{% endfor %}{% endfor %}",
        "{% for i in range(90000) %}" + "x" * 100_000 + "{% endfor %}",
        "{% for i in range(9000) %}{{ long }}{% endfor %}",
        "{{ long|replace('a', long)|replace('a', long) }}",
        "{{ range(90000)|join(long) }}",
        "{{ 'a' * 99999999 }}",
        "{{ [1] * 99999999 }}",
        "{% set a = long %}" + "{% set a = a ~ a %}" * 40,
        "{% set a = long %}" + "{% set a = [a, a] %}" * 40 + "{{ a }}",
        "{% set a %}{{ long }}{{ long }}{% endset %}",
        "{% macro m(x) %}{{ m(x ~ x) }}{% endmacro %}{{ m(long) }}",
        "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% include 'other' %}",
        "{{ items.append(1) }}",
        "{{ (items.append)(1) }}",
        "{{ items|attr('append') }}",
        "{{ items|map('upper') }}",
        "{{ debug() }}",
        "{{ namespace() }}",
    ],
)
def test_runaway_template_fails_with_an_error(source: str) -> None:
    with pytest.raises(InvalidTemplate):
        Template(subject="x", html=None, text=source).render({"long": "a" * 1000, "items": []})


@pytest.mark.promise("body-limits")
def test_supported_jinja_features_work() -> None:
    source = (
        "{# greeting #}{% set who = first ~ ' ' ~ last %}Hi {{ who|title }}"
        "{% if points > 10 and not (vip is true) %}!{% endif %}\n"
        "{% for item in items if item.shown %}{{ loop.index }}. {{ item.name|default('?') }}\n"
        "{% else %}nothing{% endfor %}"
        "{{ tags|join(', ') }} {{ text|replace('a', 'b') }} {{ attributes.get('x') }} "
        "{% raw %}{{ left alone }}{% endraw %}"
    )
    values = {
        "first": "jane",
        "last": "doe",
        "points": 11,
        "vip": False,
        "items": [{"name": "one", "shown": True}, {"name": "two", "shown": False}],
        "tags": ["a", "b"],
        "text": "abc",
        "attributes": {"x": 1},
    }
    assert Template(subject="x", html=None, text=source).render(values).text == (
        "Hi Jane Doe!\n1. one\na, b bbc 1 {{ left alone }}"
    )


@pytest.mark.promise("body-limits")
@pytest.mark.parametrize("source", ["{{ a", "{% if a %}", "{{ a b }}", "{% endif %}", "{{ }}", "{% %}", "x\n{{ 1 + }}"])
def test_broken_template_is_refused_with_its_line(source: str) -> None:
    with pytest.raises(InvalidTemplate) as failed:
        a_layout(html="<p>x</p>" + source)
    assert failed.value.line == source.count("\n") + 1


@pytest.mark.promise("body-limits")
def test_template_with_active_content_is_refused() -> None:
    with pytest.raises(InvalidTemplate, match="<script>"):
        a_layout(html="<script>{{ x }}</script>")


def test_template_variables_are_those_without_values() -> None:
    assert variables("{{ a.b }}{% for c in d %}{{ c }}{% endfor %}{% set e = f %}{{ e }}{{ range(3) }}") == {
        "a",
        "d",
        "f",
    }
    assert a_layout("<p>{{ a }}</p>", "{{ b }}", "{{ c.d }}").variables == {"a", "b", "c"}


def test_layout_cache_evicts_the_least_recently_used() -> None:
    layouts = LayoutCache(most_bytes=2 * a_layout().size_bytes)
    compiled: list[int] = []

    def get(version: int) -> None:
        layouts.get(version, lambda: (compiled.append(version), a_layout())[1])

    for version in (1, 2, 1, 3, 1, 2):
        get(version)
    assert compiled == [1, 2, 3, 2]


def test_layout_cache_is_limited_by_size() -> None:
    small, large = a_layout(), a_layout(html=f"<p>{'x' * 50_000}</p>")
    rendered = a_layout(html="<p>{% if name %}{{ name }}{% endif %}</p>")
    assert (small.is_flat, rendered.is_flat) == (True, False)
    assert small.size_bytes < rendered.size_bytes < large.size_bytes
    layouts = LayoutCache(most_bytes=10 * small.size_bytes)
    for version in range(10):
        assert layouts.get(version, lambda: small) is small
    assert layouts.get("large", lambda: large) is large
    assert layouts.get("large", lambda: small) is large
    assert layouts.get(9, lambda: rendered) is rendered  # All small layouts were evicted.


@given(st.one_of(LINKS, st.text(st.characters(exclude_categories=["Cs"]), min_size=60, max_size=300)))
def test_long_values_keep_lines_short(value: str) -> None:
    assert_is_clean(a_layout("<p>{{ a }}{{ a }} {{ a }}</p>", "{{ a }}").fill(JANE, {"a": value}))
