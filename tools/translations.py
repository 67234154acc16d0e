"""Write the catalogues of the dashboard: extract the messages of templates and modules, and keep their translations.

`python -m tools.translations` updates the files of src/mailwright/web/dashboard/locale and prints the share that is
translated. `--check` writes nothing and fails if a file is outdated or a translation lost a placeholder.
"""

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from mailwright.domain.translation import message_key, plural_form, split_key
from mailwright.ops.catalogues import LANGUAGES, Entry, read_entries
from mailwright.web.dashboard.script_texts import script_messages
from mailwright.web.dashboard.shell import make_environment

CHECKOUT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = CHECKOUT / "src/mailwright"
DASHBOARD: Final = PACKAGE / "web/dashboard"
TEMPLATES: Final = DASHBOARD / "templates"
LOCALE: Final = DASHBOARD / "locale"
# The sources of the bundled scripts.
ASSETS: Final = CHECKOUT / "tools/assets"
# The catalogue of each folder of templates. A message that several catalogues would contain is in common.po once.
AREAS: Final = {
    "articles": "content",
    "audience": "audience",
    "campaigns": "campaigns",
    "composer": "content",
    "mailbox": "delivery",
    "mailouts": "content",
    "messages": "delivery",
    "notifications": "delivery",
    "overview": "delivery",
    "search": "delivery",
    "schemas": "explanations",
    "sender_domains": "settings",
    "sequences": "sequences",
    "set_up": "settings",
    "settings": "settings",
    "templates": "content",
    "texts": "explanations",
    "webhooks": "delivery",
}
PLURAL_RULES: Final = {
    "ru": "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : 2);",
    "pt": "nplurals=2; plural=(n > 1);",
}
_PART: Final = re.compile(r"</?\w+>|\{\w+\}|%[sd]|%\(\w+\)[sd]")
_CONFLICT: Final = re.compile(r"^<{7}.*?\n(.*?)^={7}\n(.*?)^>{7}.*?\n", re.M | re.S)
# The modules whose errors the pages of the dashboard show.
SHOWN_ERRORS: Final = (
    "access/",
    "app/feeds.py",
    "app/images.py",
    "app/mailouts.py",
    "app/named_providers.py",
    "app/oidc.py",
    "app/s3_images.py",
    "app/segment_removal.py",
    "app/sender_domains.py",
    "app/stored_settings.py",
    "audience/",
    "content/",
    "domain/",
    "events/outbound/",
    "events/report_sources.py",
    "outbox/",
    "sources/articles/",
    "sources/campaigns/",
    "sources/mailouts/",
    "sources/notifications/service.py",
    "sources/send_approvals.py",
    "sources/sequences/",
    "web/bodies.py",
    "web/dashboard/",
    "web/session.py",
    "web/uploads.py",
)
# The modules whose problems of settings the forms of the dashboard show.
SHOWN_SETTINGS: Final = (
    "app/inbound.py",
    "app/providers.py",
    "app/setting_rules.py",
    "app/stored_settings.py",
    "app/wiring.py",
    "events/bounces/mailbox_url.py",
    "providers/",
)
# Errors that only programs, the command line and logs get.
_NOT_SHOWN: Final = (
    "access/id_tokens.py",
    "access/oidc_settings.py",
    "access/signature_v4.py",
    "audience/switching/",
    "content/dkim_key.py",
    "content/forwarded.py",
    "content/raw.py",
    "outbox/retention_export.py",
    "outbox/retention_parquet.py",
)
_CLASS: Final = re.compile(r"^class (\w+)\(([^)]*)\):", re.M)
_OWN_TEXT: Final = re.compile(r"super\(\)\.__init__\([^)]")
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_CALLED: Final = re.compile(r"gettext\(|marked_plural\(|count_text\(")
_CODE: Final = re.compile(r"<code>([^<{]*)</code>")


@dataclass(slots=True)
class Message:
    text: str
    plural: str | None
    places: list[str] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description="Update the catalogues of the dashboard.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a catalogue is wrong")
    is_check = parser.parse_args().check
    outdated = {file: text for file, text in made() if not file.exists() or file.read_text(encoding="utf-8") != text}
    if is_check and outdated:
        names = ", ".join(str(file.relative_to(CHECKOUT)) for file in outdated)
        sys.exit(f"outdated: {names}; run `python -m tools.translations`")
    for file, text in outdated.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for language in PLURAL_RULES:
        print(share(language))
    if found := [*problems()]:
        sys.exit("\n".join(found))


def made() -> Iterator[tuple[Path, str]]:
    """Yield every file with its expected text."""
    for language in PLURAL_RULES:
        known: dict[tuple[str, str | None], Entry] = {}
        for _, entry in stored(language):
            if not known.get((entry.message, entry.plural), Entry()).is_translated:
                known[entry.message, entry.plural] = entry
        yield from catalogues(language, known)


def problems() -> Iterator[str]:
    yield from wrong_errors()
    for language in PLURAL_RULES:
        for file, entry in stored(language):
            yield from (f"{file}: {problem}" for problem in mistakes(entry, language))


@cache
def messages() -> dict[tuple[str, str | None], Message]:
    """Return every message of the templates, modules and scripts, in the order of their paths."""
    found: dict[tuple[str, str | None], Message] = {}

    def note(place: str, text: str, plural: str | None = None) -> None:
        message = found.setdefault((text, plural), Message(text, plural))
        if place not in message.places:
            message.places.append(place)

    place = ""
    environment = make_environment(lambda text: note(place, text), lambda one, many: note(place, one, many))
    for file in sorted(TEMPLATES.rglob("*.html")):
        place = file.relative_to(TEMPLATES).as_posix()
        environment.compile(file.read_text(encoding="utf-8"), place, raw=True)
    for place, tree in modules().items():
        for text, plural in called(tree):
            note(place, text, plural)
        for text in error_texts(tree) if shows_errors(place) else ():
            note(place, text)
    for file in sorted(
        [*PACKAGE.glob("sources/sequences/ready_made/*.json"), *PACKAGE.glob("content/blocks/starter_templates/*.json")]
    ):
        ready = json.loads(file.read_text(encoding="utf-8"))
        for name in ("title", "description"):
            note(file.relative_to(PACKAGE).as_posix(), ready[name])
    for file in sorted([*DASHBOARD.glob("static/*.js"), *ASSETS.glob("composer/*.js")]):
        for text in script_messages(file.read_text(encoding="utf-8")):
            note(file.relative_to(ASSETS if file.is_relative_to(ASSETS) else PACKAGE).as_posix(), text)
    return found


@cache
def modules() -> dict[str, ast.Module]:
    """Return the modules that may contain messages, by their paths. Parsing every module would take seconds."""
    sources = {file.relative_to(PACKAGE).as_posix(): file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py")}
    return {
        place: ast.parse(source)
        for place, source in sorted(sources.items())
        if _CALLED.search(source)
        or place.startswith(SHOWN_SETTINGS)
        or (shows_errors(place) and any(name in source for name in error_classes()))
    }


def shows_errors(place: str) -> bool:
    return place.startswith(SHOWN_ERRORS) and not place.startswith(_NOT_SHOWN)


@cache
def error_classes() -> frozenset[str]:
    """Return the names of all errors that take a message with placeholders."""
    bases = {
        name: {each.strip().rpartition(".")[2] for each in given.split(",")}
        for file in PACKAGE.rglob("*.py")
        for name, given in _CLASS.findall(file.read_text(encoding="utf-8"))
    }
    found = {"MailwrightError", "InvalidAddress"}
    while more := {name for name, of in bases.items() if of & found and name not in found | {"ConfigurationInvalid"}}:
        found |= more
    return frozenset(found)


def error_calls(tree: ast.Module) -> Iterator[ast.Call]:
    """Yield the calls that make an error with a text, also those of `super().__init__` in the class of an error."""
    errors = error_classes()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name in errors:
            yield from (
                each
                for each in ast.walk(node)
                if isinstance(each, ast.Call) and ast.unparse(each.func) == "super().__init__" and each.args
            )
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in errors and node.args:
            yield node


def setting_errors(tree: ast.Module) -> Iterator[ast.Call]:
    """Yield the problems of settings whose text has no translation."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) != "ConfigurationInvalid":
            continue
        if any(isinstance(each, ast.Constant | ast.JoinedStr) for each in node.args):
            yield node


def error_texts(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of errors: the docstring of a class is its default one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name in error_classes() and not _OWN_TEXT.search(ast.unparse(node)):
            yield from filter(None, [ast.get_docstring(node, clean=False)])
    for call in error_calls(tree):
        yield from filter(_has_words, constants(call.args[0]))


def constants(text: ast.expr) -> list[str]:
    """Return the texts that an argument can have."""
    match text:
        case ast.Constant(value=str(value)):
            return [value]
        case ast.IfExp():
            return [*constants(text.body), *constants(text.orelse)]
    return []


def wrong_errors() -> Iterator[str]:
    """Yield errors that pages could not translate or show: f-strings, and placeholders without their values."""
    for place, tree in modules().items():
        for call in setting_errors(tree) if place.startswith(SHOWN_SETTINGS) else ():
            yield f'{place}:{call.lineno}: translate the problem of the setting: lazy_gettext("must be a number")'
        for call in error_calls(tree) if shows_errors(place) else ():
            where, given = f"{place}:{call.lineno}", {each.arg for each in call.keywords}
            if isinstance(call.args[0], ast.JoinedStr):
                yield f'{where}: pass the values by name, for example "There is no list {{key}}.", key=key'
            if not (texts := constants(call.args[0])) or None in given:
                continue
            wanted = {name for text in texts for name in _PLACEHOLDER.findall(text)}
            if wanted - given or given - wanted - error_parameters():
                yield f"{where}: the message needs {sorted(wanted)}, the call gives {sorted(map(str, given))}"


@cache
def error_parameters() -> frozenset[str | None]:
    """Return the names of the parameters of errors that are not values of the message."""
    return frozenset(
        parameter.arg
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name in error_classes()
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
        for parameter in (*method.args.args, *method.args.kwonlyargs)
    )


def _has_words(text: str) -> bool:
    return re.search(r"[^\W\d_]{2}", _PLACEHOLDER.sub("", text)) is not None


def called(tree: ast.Module) -> Iterator[tuple[str, str | None]]:
    """Yield the messages of the calls of `gettext` and its relatives."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        texts = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        match node.func.id, texts:
            case (("gettext" | "lazy_gettext"), [text]):
                yield text, None
            case (("pgettext" | "lazy_pgettext"), [context, text]):
                yield message_key(text, context), None
            case (("ngettext" | "marked_plural"), [one, many]):
                yield one, many
            case "count_text", [word, *words]:
                yield f"{{count}} {word}", f"{{count}} {words[0] if words else f'{word}s'}"


def area_of(message: Message) -> str:
    folders = {
        place.partition("/")[0]: "modules" if place.endswith((".py", ".js", ".json")) else "common"
        for place in message.places
    }
    areas = {AREAS.get(folder, default) for folder, default in folders.items()}
    return areas.pop() if len(areas) == 1 else "common"


def catalogues(language: str, known: dict[tuple[str, str | None], Entry]) -> Iterator[tuple[Path, str]]:
    """Yield each file of a language with its new text. Messages keep their translations when they move."""
    by_area: dict[str, list[str]] = {
        area: [_header(language)] for area in ("common", "modules", *sorted({*AREAS.values()}))
    }
    for (text, plural), message in messages().items():
        entry = known.get((text, plural)) or Entry(text, plural)
        entry.references = message.places
        by_area[area_of(message)].append(_block(entry, language))
    for area, blocks in by_area.items():
        yield LOCALE / language / "LC_MESSAGES" / f"{area}.po", "\n".join(blocks)


def stored(language: str) -> Iterator[tuple[str, Entry]]:
    """Yield the entries of a language. In a file with merge conflicts, both sides count."""
    for file in sorted((LOCALE / language).rglob("*.po")):
        text = file.read_text(encoding="utf-8")
        for side in {_CONFLICT.sub(rf"\{side}", text) for side in (1, 2)}:
            for entry in read_entries(side):
                yield str(file.relative_to(CHECKOUT)), entry


def mistakes(entry: Entry, language: str) -> Iterator[str]:
    """Yield what is wrong with a translation: every placeholder, marker and piece of code must be in it."""
    if not any(entry.translations.values()):
        return
    forms = {plural_form(language, number) for number in range(200)} if entry.plural else {0}
    if {form for form, text in entry.translations.items() if text} != forms:
        yield f"{entry.message!r} needs {len(forms)} forms"
    for text in filter(None, entry.translations.values()):
        for pattern in (_PART, _CODE):
            wanted, given = (sorted(pattern.findall(each)) for each in (entry.plural or entry.message, text))
            if wanted != given:
                yield f"{entry.message!r} has {wanted}, its translation has {given}"
        if re.search(r"\{\{|\{%|\{#", text) or text != text.strip():
            yield f"the translation of {entry.message!r} begins or ends with a space, or contains template syntax"


def share(language: str) -> str:
    entries = [entry for _, entry in stored(language)]
    translated = sum(entry.is_translated for entry in entries)
    return f"{LANGUAGES[language]}: {translated} of {len(entries)} messages, {100 * translated // len(entries)} %"


def _header(language: str) -> str:
    lines = [f"Language: {language}", "MIME-Version: 1.0", "Content-Type: text/plain; charset=UTF-8"]
    lines += ["Content-Transfer-Encoding: 8bit", f"Plural-Forms: {PLURAL_RULES[language]}"]
    return 'msgid ""\nmsgstr ""\n' + "".join(f"{_quoted(line + chr(10))}\n" for line in lines)


def _block(entry: Entry, language: str) -> str:
    lines = [f"# {note}" for note in entry.notes]
    lines += [f"#: {place}" for place in entry.references]
    lines += [f"#, {', '.join(entry.flags)}"] if entry.flags else []
    context, message = split_key(entry.message)
    lines += [f"msgctxt {_quoted(context)}"] if context else []
    lines.append(f"msgid {_quoted(message)}")
    if entry.plural is None:
        lines.append(f"msgstr {_quoted(entry.translations.get(0, ''))}")
    else:
        lines.append(f"msgid_plural {_quoted(entry.plural)}")
        forms = range(max(plural_form(language, number) for number in range(200)) + 1)
        lines += [f"msgstr[{form}] {_quoted(entry.translations.get(form, ''))}" for form in forms]
    return "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


if __name__ == "__main__":
    main()
