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
from mailwright.web.catalogues import LANGUAGES, Entry, read_entries
from mailwright.web.dashboard.script_texts import script_messages
from mailwright.web.dashboard.shell import make_environment

CHECKOUT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = CHECKOUT / "src/mailwright"
DASHBOARD: Final = PACKAGE / "web/dashboard"
TEMPLATES: Final = DASHBOARD / "templates"
LOCALE: Final = DASHBOARD / "locale"
# The sources of the bundled scripts.
ASSETS: Final = CHECKOUT / "tools/assets"
# The file of each folder of templates. A message of several files is in common.po, once.
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
    "webhooks": "delivery",
}
PLURAL_RULES: Final = {
    "ru": "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : 2);",
    "pt": "nplurals=2; plural=(n > 1);",
}
_PART: Final = re.compile(r"</?\w+>|\{\w+\}|%[sd]|%\(\w+\)[sd]")
_CONFLICT: Final = re.compile(r"^<{7}.*?\n(.*?)^={7}\n(.*?)^>{7}.*?\n", re.M | re.S)
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
    for file in sorted(PACKAGE.rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        # Parsing every module would take seconds.
        for text, plural in called(ast.parse(source)) if _CALLED.search(source) else ():
            note(file.relative_to(PACKAGE).as_posix(), text, plural)
    for file in sorted(PACKAGE.glob("sources/sequences/ready_made/*.json")):
        ready = json.loads(file.read_text(encoding="utf-8"))
        for name in ("title", "description"):
            note(file.relative_to(PACKAGE).as_posix(), ready[name])
    for file in sorted([*DASHBOARD.glob("static/*.js"), *ASSETS.glob("composer/*.js")]):
        for text in script_messages(file.read_text(encoding="utf-8")):
            note(file.relative_to(ASSETS if file.is_relative_to(ASSETS) else PACKAGE).as_posix(), text)
    return found


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
