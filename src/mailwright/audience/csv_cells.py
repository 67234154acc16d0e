"""Cells of exported files: none is a formula to a spreadsheet, and an import takes each back as it was."""

import re
from typing import Final

# What makes a spreadsheet compute instead of show, in any script's width.
_FORMULA: Final = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
_NUMBER: Final = re.compile(r"-?[0-9]+(?:[.,][0-9]+)?")


def escape_formula(text: str) -> str:
    """With a quote in front where it would be taken for a formula; plain numbers stay numbers."""
    if text[:1].isalnum():  # nearly every cell
        return text
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unescape_formula(text: str) -> str:
    """The opposite of `harmless`."""
    return text[1:] if text[:1] == "'" and _FORMULA.match(text) else text
