"""Check the published DMARC records of a name (RFC 7489, section 6.3)."""

import re
from collections.abc import Sequence
from typing import Final

from mailwright.domain.dkim_record import dns_tags

_VERSION: Final = re.compile(r"v\s*=\s*DMARC1\s*(?:;|$)")
_POLICIES: Final = ("none", "quarantine", "reject")


def dmarc_records(texts: Sequence[str]) -> list[str]:
    """Return the texts that receivers read as DMARC records: the version comes first, and its case matters."""
    return [text for text in texts if _VERSION.match(text)]


def find_dmarc_problem(name: str, found: Sequence[str]) -> str | None:
    """Return the problem of the TXT records of a `_dmarc` name as a sentence; None if there is none."""
    records = dmarc_records(found)
    if len(records) > 1:
        return f"{name} has {len(records)} DMARC records, so receivers ignore all. Keep one."
    if not records:
        return f"The TXT record {name} does not begin with `v=DMARC1;`, so receivers ignore it"
    tags = dns_tags(records[0])
    if tags is None:
        return f"The DMARC record {name} is not a list of tags such as v=DMARC1; p=none, or has one twice"
    if "p" not in tags:
        return f"The DMARC record {name} has no policy (p=none, quarantine or reject)"
    for tag in ("p", "sp"):
        if tags.get(tag, "none").lower() not in _POLICIES:
            return f"The DMARC record {name} has {tag}={tags[tag][:40]}, which is not none, quarantine or reject"
    return None


def dmarc_advice(record: str, *, is_parent: bool) -> str:
    """Return the next step for a valid record as a sentence, or an empty text."""
    tags = dns_tags(record) or {}
    policy = (tags.get("sp") if is_parent else None) or tags["p"]
    if "rua" not in tags:
        return "Add rua=mailto:… to receive reports."
    if policy.lower() == "none":
        return "When the reports show that all your email passes, change p=none to p=quarantine."
    return ""
