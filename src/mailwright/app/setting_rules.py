"""Check settings before they are stored: the same rules for the dashboard, `mailwright setting` and `mailwright setup`.

The environment and `mailwright.toml` may use values that these rules refuse, for example the URL of a test server.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from mailwright.domain import address
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.translation import lazy_gettext
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.stored import parse_stored, text_of, variable_of


def parse_changes(texts: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the values to store by field, and a problem for each text that must not be stored."""
    values, problems = parse_stored(texts)
    for name, value in list(values.items()):
        if name not in _RULES:
            continue
        try:
            values[name] = _RULES[name](value)
        except ConfigurationInvalid as error:
            problems += error.of(variable_of(name)).problems
            del values[name]
    return values, problems


def _public_url(text: str) -> str:
    """Return the URL without its final slash."""
    invalid = ConfigurationInvalid(lazy_gettext("enter the beginning of the URL, for example https://mail.example.com"))
    try:
        parts = urlsplit(text)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise invalid from None
    is_plain = not any(character in parts.netloc for character in "@\\ ") and text.isprintable()
    rest = parts.path.strip("/") or parts.query or parts.fragment
    if parts.scheme not in ("http", "https") or not has_host or not is_plain or rest:
        raise invalid
    return f"{parts.scheme}://{parts.netloc}"


def _email_address(text: str) -> str:
    try:
        address.parse(text)
    except address.InvalidAddress as error:
        raise ConfigurationInvalid(lazy_gettext("this is not a valid address: {error}", error=error)) from error
    return text


def _known_url(known: Sequence[str]) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text.rstrip("/") not in known:
            raise ConfigurationInvalid(
                lazy_gettext(
                    "use {first} or {second}; another server can be set in the environment",
                    first=", ".join(known[:-1]),
                    second=known[-1],
                )
            )
        return text.rstrip("/")

    return check


def _smtp_url(url: Any) -> Any:
    from mailwright.providers.smtp.url import parse_smtp_url  # noqa: PLC0415 - slow to import

    parse_smtp_url(text_of(url))
    return url


_RULES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "base_url": _public_url,
    "reply_address": _email_address,
    "reply_forward_to": _email_address,
    "bounce_address": _email_address,
    **{
        field.name: _known_url([url for url, _ in field.choices])
        for kind in KINDS.values()
        for field in kind.form_fields
        if field.choices
    },
    **{kind.smtp_server.name: _smtp_url for kind in KINDS.values() if kind.smtp_server is not None},
}
