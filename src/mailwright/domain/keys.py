"""Derive keys from names: lower-case ASCII characters, digits and hyphens, as links, headers and commands need them."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Final

_OTHER: Final = re.compile(r"[^a-z0-9]+")

# Lower-case characters that need more than their base character, written as in passports and web addresses.
TRANSLITERATION: Final[Mapping[str, str]] = {
    "ä": "ae",
    "ö": "oe",
    "ü": "ue",
    "ß": "ss",
    "æ": "ae",
    "œ": "oe",
    "ø": "o",
    "å": "a",
    "ł": "l",
    "đ": "d",
    "ð": "d",
    "þ": "th",
    "ı": "i",
    "ħ": "h",
    "ŋ": "ng",
    # Cyrillic
    **dict(zip("абвгдезийклмнопрстуфы", "abvgdeziyklmnoprstufy", strict=True)),
    "ё": "e",
    "ж": "zh",
    "х": "kh",
    "ц": "ts",
    "ч": "ch",
    "ш": "sh",
    "щ": "shch",
    "ъ": "",
    "ь": "",
    "э": "e",
    "ю": "yu",
    "я": "ya",
    "є": "ye",
    "і": "i",
    "ї": "yi",
    "ґ": "g",
    "ў": "u",
    "ђ": "dj",
    "ј": "j",
    "љ": "lj",
    "њ": "nj",
    "ћ": "c",
    "џ": "dz",
    "ѓ": "g",
    "ќ": "k",
    "ѕ": "dz",
    # Greek
    **dict(zip("αβγδεζηικλμνξοπρσςτυφω", "avgdeziiklmnxoprsstyfo", strict=True)),
    "θ": "th",
    "χ": "ch",
    "ψ": "ps",
}


def derive_key(name: str, default: str, longest: int = 50) -> str:
    """Derive a key: `Märzbrief für Gäste` becomes `maerzbrief-fuer-gaeste`, `Новости` becomes `novosti`.

    If no character of the name can be written in ASCII, return the default.
    """
    return _OTHER.sub("-", write_in_ascii(name).lower()).strip("-")[:longest].rstrip("-") or default


def unused_key(key: str, taken: Iterable[str]) -> str:
    """Return the key, or `key-2`, `key-3` … if it is taken."""
    known = set(taken)
    numbered = (f"{key}-{number}" for number in count(2))
    return key if key not in known else next(each for each in numbered if each not in known)


def write_in_ascii(text: str) -> str:
    """Transliterate characters, remove accents, and drop characters without an ASCII form."""
    # First replace whole characters such as ä, then drop the accents of the others.
    whole = "".join(map(_transliterate, unicodedata.normalize("NFC", text)))
    bases = "".join(map(_transliterate, unicodedata.normalize("NFKD", whole)))
    return bases.encode("ascii", "ignore").decode()


def _transliterate(character: str) -> str:
    """Write a character in ASCII, in the same case: `Ä` becomes `Ae`. Other characters stay."""
    written = TRANSLITERATION.get(character.lower())
    if written is None:
        return character
    return written.capitalize() if character.isupper() else written
