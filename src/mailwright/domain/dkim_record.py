"""Check a published DKIM record against the key that signs (RFC 6376, section 3.6.1)."""

from collections.abc import Iterator, Mapping, Sequence


def find_dkim_problem(name: str, wanted: str, found: Sequence[str]) -> str | None:
    """Return why receivers cannot verify signatures with these TXT records, as a sentence; None if they can."""
    if len(found) > 1:
        return f"{name} has {len(found)} TXT records, so receivers may use the wrong one. Keep the one with the key."
    tags, key = dns_tags(found[0]), dns_tags(wanted) or {}
    if tags is None:
        return f"The TXT record {name} is not a list of tags such as k=rsa; p=…, or has one twice."
    problem = next(_problems(tags, key), None)
    return None if problem is None else f"The TXT record {name} {problem}"


def _problems(tags: Mapping[str, str], key: Mapping[str, str]) -> Iterator[str]:
    """Yield the differences from the key, the most telling first."""
    if tags.get("v", "DKIM1") != "DKIM1" or ("v" in tags and next(iter(tags)) != "v"):
        yield "must begin with v=DKIM1."
    if "p" not in tags:
        yield "has no key (p=)."
    elif not tags["p"]:
        yield "revokes the key: its p= is empty."
    algorithm = tags.get("k", "rsa")
    if algorithm.lower() != key.get("k", "rsa"):
        yield f"says k={algorithm[:20]}, but the key is k={key.get('k', 'rsa')}."
    if tags.get("p") != key["p"]:
        yield "has another key"
    if "h" in tags and "sha256" not in tags["h"].lower().split(":"):
        yield f"does not allow SHA-256 (h={tags['h'][:40]}). Remove h=."
    if "s" in tags and not {"*", "email"} & {*tags["s"].lower().split(":")}:
        yield f"is not for email (s={tags['s'][:40]}). Remove s=."


def is_testing(record: str) -> bool:
    """Return whether the record says that the domain is only testing DKIM, so that receivers may ignore signatures."""
    return "y" in (dns_tags(record) or {}).get("t", "").lower().split(":")


def dns_tags(record: str) -> dict[str, str] | None:
    """Parse the tags of a record such as `k=rsa; p=…`, without white space; None if it has a tag twice or no tags."""
    tags: dict[str, str] = {}
    for part in record.split(";"):
        name, mark, value = part.partition("=")
        if not part.strip():
            continue
        if not mark or not name.strip() or name.strip().lower() in tags:
            return None
        tags[name.strip().lower()] = "".join(value.split())
    return tags or None
