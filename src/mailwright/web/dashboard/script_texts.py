"""The texts of the dashboard's scripts: `t("Copied.")` in a script uses the translations that the page contains."""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from mailwright.domain.translation import current_catalogue

FOLDER: Final = Path(__file__).parent / "static"
_CALL: Final = re.compile(r'\bt\(("(?:[^"\\]|\\.)+")')


def script_messages(source: str) -> list[str]:
    """Return the messages of a script."""
    return [json.loads(text) for text in _CALL.findall(source)]


def script_texts() -> Mapping[str, str]:
    """Return the translations of all messages of the scripts, by message. English needs none."""
    translations = current_catalogue().messages
    return {message: translations[message] for message in _messages() if message in translations}


@cache
def _messages() -> tuple[str, ...]:
    scripts = (file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob("*.js")))
    return tuple(dict.fromkeys(message for script in scripts for message in script_messages(script)))
