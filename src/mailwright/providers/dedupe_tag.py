"""The tag under which a provider gets the dedupe key of a message, and values for providers that restrict them."""

import hashlib
import re
from typing import Final

DEDUPE_TAG: Final = "dedupe_key"


def dedupe_tag(dedupe_key: str, allowed: re.Pattern[str]) -> str:
    """Return the key, or its hash if the provider does not allow the key as a value. The same key has the same tag."""
    if allowed.fullmatch(dedupe_key):
        return dedupe_key
    return f"sha256-{hashlib.sha256(dedupe_key.encode()).hexdigest()}"
