"""Check settings before they are stored: the same rules for the dashboard, `mailwright setting` and `mailwright setup`.

The environment and `mailwright.toml` may use values that these rules refuse, for example the URL of a test server.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from mailwright.domain import address
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.translation import lazy_gettext
from mailwright.ops.stored import parse_stored, text_of, variable_of

MAILGUN_REGIONS: Final = (
    ("https://api.mailgun.net", "United States"),
    ("https://api.eu.mailgun.net", "European Union"),
)
SENDGRID_REGIONS: Final = (("https://api.sendgrid.com", "Global"), ("https://api.eu.sendgrid.com", "European Union"))


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


def _region_url(regions: Iterable[tuple[str, str]]) -> Callable[[str], str]:
    known = [url for url, _ in regions]

    def check(text: str) -> str:
        if text.rstrip("/") not in known:
            raise ConfigurationInvalid(
                lazy_gettext(
                    "use {first} or {second}; another server can be set in the environment",
                    first=known[0],
                    second=known[1],
                )
            )
        return text.rstrip("/")

    return check


def _smtp_url(url: Any) -> Any:
    from mailwright.providers.smtp import parse_smtp_url  # noqa: PLC0415 - slow to import

    parse_smtp_url(text_of(url))
    return url


_RULES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "base_url": _public_url,
    "reply_address": _email_address,
    "reply_forward_to": _email_address,
    "bounce_address": _email_address,
    "sendgrid_url": _region_url(SENDGRID_REGIONS),
    "mailgun_url": _region_url(MAILGUN_REGIONS),
    "smtp_url": _smtp_url,
    "brevo_smtp_url": _smtp_url,
    "smtpbz_smtp_url": _smtp_url,
}
