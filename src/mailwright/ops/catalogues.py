"""The translations of the dashboard: the gettext files of locale/, read at the first use of their language."""

import ast
import re
from collections.abc import Iterator
from dataclasses import field
from functools import cache
from importlib.resources import files
from typing import Final

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import ENGLISH, Catalogue, message_key

LANGUAGES: Final = {"en": "English", "ru": "Русский", "pt": "Português"}
LOCALE: Final = files("mailwright") / "web/dashboard/locale"
_LINE: Final = re.compile(r'(?:(?P<word>msgctxt|msgid_plural|msgid|msgstr)(?:\[(?P<form>\d)\])? +)?(?P<text>".*")')


@dataclass(slots=True)
class Entry:
    """One message of a catalogue. A context is part of its key."""

    message: str = ""
    plural: str | None = None
    translations: dict[int, str] = field(default_factory=dict)
    references: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)

    @property
    def is_translated(self) -> bool:
        return bool(self.translations) and all(self.translations.values()) and "fuzzy" not in self.flags


@cache
def load_catalogue(language: str) -> Catalogue:
    if language == ENGLISH.language:
        return ENGLISH
    folder = LOCALE / language / "LC_MESSAGES"
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".po"))
    found = [entry for name in names for entry in read_entries((folder / name).read_text(encoding="utf-8"))]
    translated = [entry for entry in found if entry.is_translated]
    return Catalogue(
        language,
        {entry.message: entry.translations[0] for entry in translated if entry.plural is None},
        {entry.message: [*entry.translations.values()] for entry in translated if entry.plural is not None},
    )


def read_entries(text: str) -> Iterator[Entry]:
    """Read the entries of a .po file, without its header and its obsolete entries."""
    for block in re.split(r"\n\s*\n", text):
        entry = _read_entry(block)
        if entry.message:
            yield entry


def _read_entry(block: str) -> Entry:
    entry, texts = Entry(), dict[tuple[str, int], str]()
    at = ("", 0)
    for line in block.splitlines():
        if line.startswith("#:"):
            entry.references += line[2:].split()
        elif line.startswith("#,"):
            entry.flags += [flag.strip() for flag in line[2:].split(",")]
        elif line.startswith("# "):
            entry.notes.append(line[2:])
        elif match := _LINE.fullmatch(line.strip()):
            at = (match["word"], int(match["form"] or 0)) if match["word"] else at
            texts[at] = texts.get(at, "") + ast.literal_eval(match["text"])
    message, entry.plural = texts.get(("msgid", 0), ""), texts.get(("msgid_plural", 0))
    entry.message = message_key(message, texts.get(("msgctxt", 0), ""))
    entry.translations = {form: text for (word, form), text in sorted(texts.items()) if word == "msgstr"}
    return entry
