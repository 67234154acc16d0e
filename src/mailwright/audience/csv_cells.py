"""Cells of exported files: escaped so that spreadsheets do not run them as formulas, and restored by imports."""

import re
from typing import Final

# Characters that start a formula in a spreadsheet, also in their full-width forms.
_FORMULA: Final = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
_NUMBER: Final = re.compile(r"-?[0-9]+(?:[.,][0-9]+)?")


def escape_formula(text: str) -> str:
    """Prefix a quote to text that a spreadsheet would run as a formula. Plain numbers stay unchanged."""
    if text[:1].isalnum():  # A fast exit, because this is true for nearly every cell.
        return text
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unescape_formula(text: str) -> str:
    """Undo `escape_formula`."""
    return text[1:] if text[:1] == "'" and _FORMULA.match(text) else text
