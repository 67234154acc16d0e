"""The texts of the dashboard's scripts: `t("Copied.")` in a script uses the translations that the page contains."""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from mailwright.domain.translation import current_catalogue, message_key
from mailwright.web.dashboard.assets import FOLDERS

_STRING: Final = r'"(?:[^"\\]|\\.)+"'
_CALL: Final = re.compile(rf"\bt\(({_STRING})(?:,\s*\{{\s*context:\s*({_STRING}))?")


def script_messages(source: str) -> list[str]:
    """Return the messages of a script."""
    return [message_key(json.loads(text), json.loads(context or '""')) for text, context in _CALL.findall(source)]


def script_texts(bundle: str = "") -> Mapping[str, str]:
    """Return the translations of all messages of the scripts, and of a bundle, by message. English needs none."""
    translations = current_catalogue().messages
    return {message: translations[message] for message in _messages(bundle) if message in translations}


@cache
def _messages(bundle: str) -> tuple[str, ...]:
    own, bundles = FOLDERS
    files = [*sorted(own.glob("*.js")), *(bundles.glob(bundle) if bundle else ())]
    scripts = (file.read_text(encoding="utf-8") for file in files)
    return tuple(dict.fromkeys(message for script in scripts for message in script_messages(script)))
