"""Messages of templates and their catalogues."""

import ast
import copy
import re
from typing import get_args

import orjson
import pytest
from jinja2 import DictLoader, Environment
from pydantic import BaseModel, Field
from tools import translations

from mailwright.app.setting_rules import parse_changes
from mailwright.domain.errors import ConfigurationInvalid, InvalidInput, NotFound
from mailwright.domain.translation import Catalogue, gettext, lazy_gettext, ngettext, number_text, pgettext, using
from mailwright.ops.catalogues import LANGUAGES, Entry, load_catalogue, read_entries
from mailwright.ops.settings import Settings
from mailwright.sources.api.validation import RequestInvalid, parse
from mailwright.web.dashboard.forms import Fields
from mailwright.web.dashboard.hours_form import hours_fields, hours_text
from mailwright.web.dashboard.script_texts import script_messages, script_texts
from mailwright.web.dashboard.shell import make_environment
from mailwright.web.dashboard.template_messages import TranslatedEnvironment


def messages_of(source: str) -> list[str]:
    found: list[str] = []
    environment = TranslatedEnvironment(found.append, autoescape=True)  # type: ignore[arg-type]
    environment.compile(source)
    return found


def rendered(source: str, messages: dict[str, str], **values: object) -> str:
    environment = TranslatedEnvironment(messages.get, autoescape=True, loader=DictLoader({"page": source}))
    environment.filters["context"] = lambda text, context: text
    return environment.get_template("page").render(**values)


@pytest.mark.parametrize(
    ("source", "messages"),
    [
        ("<p>No  campaigns\n yet</p>", ["No campaigns yet"]),
        ("<p>Sent to <b>{{ row.name }}</b> by {{ user.name }}.</p>", ["Sent to <b>{name}</b> by {name2}."]),
        ('<p>Open <a href="/x">the list</a>.</p>', ["Open <1>the list</1>."]),
        ('<a href="/x">First</a> <a href="/y">Next</a>', ["First", "Next"]),
        ('<td>{{ "Source" | context("code") }}</td>', ["code\4Source"]),
        ("<p>{% if a %}One thing{% else %}Two things{% endif %}</p>", ["One thing", "Two things"]),
        ('<input placeholder="Your name" name="Your name">', ["Your name"]),
        ('<p title="Why {{ a }} waits">{{ icon("clock") }}Waits</p>', ["Why {a} waits", "Waits"]),
        ('{{ ui.heading("Lists", "All of them.") }}', ["Lists", "All of them."]),
        ('{{ ui.table("Rows", ["#Sent", ""]) }}', ["Rows", "Sent"]),
        ('{{ f("Delete " ~ name ~ "?") }}', ["Delete {name}?"]),
        ('<td>{{ "yes" if a == "YES" else "no" }}</td>', ["yes", "no"]),
        ('{{ asset("Shell.css") }}<td class="{{ "is-on now" }}">{{ x["Key word"] }}</td><code>a b</code>', []),
        ("<script>let a = 'Two words'</script><pre>Plain text</pre><p>Mailwright · 12</p>", []),
    ],
)
def test_messages_are_whole_sentences(source: str, messages: list[str]) -> None:
    assert messages_of(source) == messages


def test_translation_reorders_placeholders_and_markers() -> None:
    source = '<p>Sent <a href="/{{ id }}">{{ name }}</a> to {{ count }} people.</p>'
    messages = {"Sent <1>{name}</1> to {count} people.": "{count} «leitores» receberam <1>{name}</1>."}
    shown = rendered(source, messages, id=7, name="<i>News</i>", count=3)
    assert shown == '<p>3 «leitores» receberam <a href="/7">&lt;i&gt;News&lt;/i&gt;</a>.</p>'


def test_word_with_two_meanings_has_two_translations() -> None:
    messages = {"Source": "Источник", "code\4Source": "Код"}
    source = """<p title='{{ "Source" | context("code") }}'>Source</p>{{ f(["Source" | context("code")]) }}"""
    assert rendered(source, messages, f="".join) == "<p title='Код'>Источник</p>Код"
    assert script_messages('t("Source", { context: "code" }), t("Source",{context:"code"})') == ["code\4Source"] * 2
    with using(Catalogue("ru", messages)):
        assert (gettext("Source"), pgettext("code", "Source"), pgettext("other", "Source")) == (
            "Источник",
            "Код",
            "Source",
        )


def test_lazy_message_is_stored_in_english() -> None:
    with using(Catalogue("ru", {"{what} is full.": "{what}: нет места.", "Disk": "Диск"})):
        text = lazy_gettext("{what} is full.", what=lazy_gettext("Disk"))
        assert (f"{text}", str(text), orjson.dumps(text)) == (
            "Диск: нет места.",
            "Диск: нет места.",
            b'"Disk is full."',
        )
        assert str(copy.deepcopy(text)) == "Диск: нет места."
    assert text == str(text) == "Disk is full."


def test_error_is_english_except_on_pages() -> None:
    messages = {"There is no list {key}.": "Списка {key} нет.", "Not imported: {error}": "Не импортировано: {error}"}
    with using(Catalogue("ru", messages)):
        inner = NotFound("There is no list {key}.", key="news", field="list")
        error = InvalidInput("Not imported: {error}", error=inner)
        assert (str(error), f"{error.text}") == (
            "Not imported: There is no list news.",
            "Не импортировано: Списка news нет.",
        )
    assert (inner.field, str(error.text)) == ("list", str(error))


def test_problem_of_setting_is_english_except_on_pages() -> None:
    with using(load_catalogue("ru")):
        _, problems = parse_changes({"smtp_url": "http://mail.example.com", "rate_per_hour": "many"})
        error = ConfigurationInvalid(*problems)
        assert [str(each).partition(": ")[2] for each in error.problems] == [
            "должно быть целым числом",
            "адрес SMTP должен начинаться с smtp:// или smtps://",
        ]
    assert str(error).splitlines() == [
        "MAILWRIGHT_RATE_PER_HOUR: must be a whole number",
        "MAILWRIGHT_SMTP_URL: an SMTP URL must begin with smtp:// or smtps://",
    ]


def test_installation_can_speak_every_language() -> None:
    assert get_args(Settings.model_fields["language"].annotation) == tuple(LANGUAGES)


def test_validation_error_has_plural_forms() -> None:
    class Form(BaseModel):
        name: str = Field(max_length=1)

    with using(load_catalogue("ru")), pytest.raises(RequestInvalid) as caught:
        parse(Form, {"name": "ab"})
    assert str(caught.value) == "name: must have at most 1 character"
    with using(load_catalogue("pt")):
        assert str(caught.value.errors[0].message) == "deve ter no máximo 1 caractere"


@pytest.mark.parametrize(
    ("source", "is_wrong"),
    [
        ('raise NotFound("There is no list {key}.", key=key)', False),
        ('raise NotFound(f"There is no list {key}.")', True),
        ('raise NotFound("There is no list {key}.", name=key)', True),
        ('raise NotFound("There is no such list.", filed="key")', True),
    ],
)
def test_error_without_values_by_name_is_reported(monkeypatch: pytest.MonkeyPatch, source: str, is_wrong: bool) -> None:
    known = translations.error_parameters()
    monkeypatch.setattr(translations, "modules", lambda: {"audience/example.py": ast.parse(source)})
    monkeypatch.setattr(translations, "error_parameters", lambda: known)
    assert bool([*translations.wrong_errors()]) == is_wrong


def test_problem_of_setting_without_translation_is_reported() -> None:
    tree = ast.parse('ConfigurationInvalid("must be a key"), ConfigurationInvalid(lazy_gettext("must be a key"))')
    assert len([*translations.setting_errors(tree)]) == 1


def test_translation_in_attribute_and_constant_stays_escaped() -> None:
    source = '<b title="All {{ a }}">{{ "All of it" }}</b>'
    messages = {"All {a}": 'so "{a}"', "All of it": "<tudo> & mais"}
    assert rendered(source, messages, a='"x') == '<b title="so &quot;&#34;x&quot;">&lt;tudo&gt; &amp; mais</b>'


@pytest.mark.parametrize("language", [language for language in LANGUAGES if language != "en"])
def test_every_template_compiles_in_language(language: str) -> None:
    environment = make_environment(load_catalogue(language).messages.get)
    for name in environment.list_templates():
        environment.get_template(name)


def test_template_without_translations_renders_as_in_english() -> None:
    source = '<p title="Two words">\n  Sent  to <b>{{ name }}</b>.\n</p>{{ "Some text" ~ name }}'
    english = Environment(autoescape=True).from_string(source).render(name="Ada")
    assert rendered(source, {}, name="Ada") == english


def test_catalogues_have_no_mistakes() -> None:
    assert [*translations.problems()] == []


@pytest.mark.parametrize("text", ["Olá", "Olá {nome}", "{name} {{ x }}", "{name} <b>x</b>", " {name}"])
def test_wrong_translation_is_reported(text: str) -> None:
    assert [*translations.mistakes(Entry("Hello {name}", None, {0: text}), "pt")]


def test_catalogue_survives_writing_and_reading() -> None:
    """Another test checks that the files contain what is written."""
    files = [*translations.LOCALE.rglob("*.po")]
    assert files
    for file in files:
        text = file.read_text(encoding="utf-8")
        entries = [*read_entries(text)]
        assert len(entries) == len(re.findall(r"^msgid ", text, re.M)) - 1, file


@pytest.mark.parametrize(
    ("count", "text"), [(1, "1 письмо"), (2, "2 письма"), (5, "5 писем"), (11, "11 писем"), (1_021, "1\xa0021 письмо")]
)
def test_russian_has_three_plural_forms(count: int, text: str) -> None:
    forms = {"{count} email": ["{count} письмо", "{count} письма", "{count} писем"]}
    with using(Catalogue("ru", {}, forms)):
        assert ngettext("{count} email", "{count} emails", count) == text


def test_numbers_have_the_separators_of_the_language() -> None:
    shown = {}
    for language in LANGUAGES:
        with using(Catalogue(language)):
            shown[language] = number_text(12_345.6, 1)
    assert shown == {"en": "12,345.6", "ru": "12\xa0345,6", "pt": "12.345,6"}


def test_message_without_translation_stays_in_english() -> None:
    with using(Catalogue("ru", {"Saved.": "Сохранено."})):
        assert gettext("Saved.") == "Сохранено."
        assert gettext("Hello {name}", name="{x}") == "Hello {x}"
    assert gettext("Saved.") == "Saved."


@pytest.mark.parametrize("language", translations.PLURAL_RULES)
def test_every_message_is_translated(language: str) -> None:
    assert [entry.message for _, entry in translations.stored(language) if not entry.is_translated] == []


def test_scripts_have_texts_of_the_language() -> None:
    assert script_messages('show(t("Copied."), t("{count} of \\"all\\"", { count }), text("No"))') == [
        "Copied.",
        '{count} of "all"',
    ]
    assert script_texts() == {}
    with using(load_catalogue("ru")):
        assert script_texts()["Copied."] == "Скопировано."


def test_hours_of_a_form_are_the_same_in_every_language() -> None:
    sent = Fields({"hours": "yes", "hours.days": "Mon,Tue,Wed", "hours.opens": "09:00", "hours.closes": "18:00"})
    catalogue = load_catalogue("ru")
    components = make_environment(catalogue.messages.get).get_template("campaigns/components.html")
    with using(catalogue):
        assert hours_text(sent) == "Mon-Wed 09:00-18:00"
        assert hours_fields("Mon-Wed 09:00-18:00") == sent
        shown = components.make_module().hours(sent, Fields())  # type: ignore[attr-defined]
    assert re.findall(r'value="(\w{3})" checked><label[^>]*>(\w+)', shown) == [
        ("Mon", "Пн"),
        ("Tue", "Вт"),
        ("Wed", "Ср"),
    ]
