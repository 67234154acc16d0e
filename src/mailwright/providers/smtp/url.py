"""Parse `smtp://user:password@host:port?tls=starttls` strictly, and never print the password."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.translation import lazy_gettext
from mailwright.providers.smtp.settings import Purpose, SmtpAuth, SmtpSettings, Tls, is_loopback

RELAY_PORT = 25
SUBMISSION_PORT = 587
SMTPS_PORT = 465


def parse_smtp_url(url: str) -> SmtpSettings:
    parts = _split(url)
    host = parts.hostname
    if not host:
        raise ConfigurationInvalid(
            lazy_gettext("the SMTP URL has no host; use for example smtp://mail.example.com:587")
        )
    options = _options(parts.query)
    port = _port(parts) or _default_port(parts.scheme, host)
    tls = options.pop("tls", None) or _default_tls(parts.scheme, host, port)
    if parts.scheme == "smtps" and tls is not Tls.TLS:
        raise ConfigurationInvalid(
            lazy_gettext("smtps:// uses TLS from the first byte and contradicts tls={tls}", tls=tls)
        )
    return SmtpSettings(
        host=host,
        port=port,
        tls=tls,
        user=_credential(lazy_gettext("user"), parts.username),
        password=_credential(lazy_gettext("password"), parts.password),
        **options,
    )


def _split(url: str) -> SplitResult:
    if any(character.isspace() or ord(character) < 32 for character in url):
        raise ConfigurationInvalid(lazy_gettext("the SMTP URL contains white space or control characters"))
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigurationInvalid(
            lazy_gettext("the SMTP URL cannot be parsed: check the brackets around the host")
        ) from error
    if parts.scheme not in ("smtp", "smtps"):
        raise ConfigurationInvalid(lazy_gettext("an SMTP URL must begin with smtp:// or smtps://"))
    # An unencoded / ? or # in a password moves its rest to another part of the URL. The error must not show that part.
    if "@" in parts.path + parts.query + parts.fragment:
        raise ConfigurationInvalid(
            lazy_gettext("special characters in the user or password of an SMTP URL must be percent-encoded")
        )
    if parts.path not in ("", "/") or parts.fragment:
        raise ConfigurationInvalid(lazy_gettext("an SMTP URL must not have a path or a fragment after host and port"))
    return parts


def _port(parts: SplitResult) -> int | None:
    try:
        port = parts.port
    except ValueError:
        # Drop the cause, because its text may quote a part of the password.
        raise ConfigurationInvalid(lazy_gettext("the port in the SMTP URL is not a number from 1 to 65535")) from None
    if port == 0:
        raise ConfigurationInvalid(lazy_gettext("the port in the SMTP URL is not a number from 1 to 65535"))
    return port


def _default_port(scheme: str, host: str) -> int:
    if scheme == "smtps":
        return SMTPS_PORT
    return RELAY_PORT if is_loopback(host) else SUBMISSION_PORT


def _default_tls(scheme: str, host: str, port: int) -> Tls:
    if scheme == "smtps" or port == SMTPS_PORT:
        return Tls.TLS
    if port == SUBMISSION_PORT or not is_loopback(host):
        return Tls.STARTTLS
    return Tls.NONE


def _credential(name: str, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ConfigurationInvalid(
            lazy_gettext("the {name} in the SMTP URL is not percent-encoded UTF-8", name=name)
        ) from None
    if "\0" in decoded:
        raise ConfigurationInvalid(lazy_gettext("the {name} in the SMTP URL contains a NUL character", name=name))
    return decoded


def _options(query: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in _OPTIONS:
            raise ConfigurationInvalid(
                lazy_gettext(
                    "the SMTP URL has an unknown option {name}; valid options: {options}",
                    name=repr(name),
                    options=", ".join(_OPTIONS),
                )
            )
        field, read, meaning = _OPTIONS[name]
        if field in options:
            raise ConfigurationInvalid(lazy_gettext("the SMTP URL sets {name} twice", name=name))
        try:
            options[field] = read(text)
        except ValueError as error:
            raise ConfigurationInvalid(
                lazy_gettext(
                    "{name}={text} in the SMTP URL: it must be {meaning}", name=name, text=text, meaning=meaning
                )
            ) from error
    return options


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _file(text: str) -> Path:
    if not text:
        raise ValueError(text)
    return Path(text)


_OPTIONS: dict[str, tuple[str, Callable[[str], object], str]] = {
    "tls": ("tls", Tls, lazy_gettext("none, starttls or tls")),
    "ca": ("ca", _file, lazy_gettext("the path of a PEM file")),
    "auth": ("auth", SmtpAuth, lazy_gettext("password or xoauth2")),
    "connections": ("connections", _positive, lazy_gettext("a whole number from 1")),
    "purpose": ("purpose", Purpose, lazy_gettext("test, or left out")),
    "messages": ("messages_per_connection", _positive, lazy_gettext("a whole number from 1")),
}
