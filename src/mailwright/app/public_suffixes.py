"""The public suffix list: domains under which anybody can register a name, such as `co.uk`.

The list is the copy in the library for passkeys.
"""

from functools import cache

from mailwright.domain.address import readable


def is_public_suffix(domain: str) -> bool:
    """Return whether a domain in ASCII is a public suffix. A domain that the list does not know is none."""
    name, rules = readable(domain), _load_rules()
    _, _, parent = name.partition(".")
    return f"!{name}" not in rules and (name in rules or f"*.{parent}" in rules)


@cache
def _load_rules() -> frozenset[str]:
    """Return the rules of the list: `co.uk`, `*.ck` and the exception `!www.ck`."""
    from fido2.rpid import suffixes  # noqa: PLC0415 - the list is large, and rarely needed

    return frozenset(suffixes)
