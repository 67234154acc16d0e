"""Parse the URL of a bounce mailbox strictly, without ever printing its password.

A URL is `maildir:/path` or `imaps://user:password@host/INBOX`.
"""

from dataclasses import replace
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.translation import lazy_gettext
from mailwright.events.bounces.imap import ImapMailbox, ImapSettings
from mailwright.events.bounces.mailbox import BounceMailbox
from mailwright.events.bounces.maildir import MaildirMailbox
from mailwright.providers.tokens import TokenSource

IMAPS_PORT = 993
IMAP_PORT = 143
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_OPTIONS = ("move", "ca", "auth")


def open_mailbox(url: str, tokens: TokenSource | None = None) -> BounceMailbox:
    """Create the mailbox for a URL. The connection is opened only when emails are read.

    `tokens` is the source of access tokens for `auth=xoauth2`.
    """
    scheme = url.partition(":")[0].lower()
    if scheme == "maildir":
        return MaildirMailbox(_maildir_path(url))
    if scheme in ("imap", "imaps"):
        return ImapMailbox(replace(parse_imap_url(url), tokens=tokens))
    raise ConfigurationInvalid(lazy_gettext("the bounce mailbox URL must begin with maildir: or imaps://"))


def parse_imap_url(url: str) -> ImapSettings:
    parts, port = _split(url)
    host, is_encrypted = parts.hostname, parts.scheme == "imaps"
    if not host:
        raise ConfigurationInvalid(
            lazy_gettext("the IMAP URL has no host; example: imaps://user:password@mail.example.com/INBOX")
        )
    if not is_encrypted and host not in _LOOPBACK:
        raise ConfigurationInvalid(lazy_gettext("imap:// sends the password unencrypted; use imaps://"))
    options = _parse_options(parts.query)
    uses_token = options.get("auth", "password") == "xoauth2"
    if options.get("auth", "password") not in ("password", "xoauth2"):
        raise ConfigurationInvalid(lazy_gettext("auth in the IMAP URL must be password or xoauth2"))
    if uses_token and (parts.username is None or parts.password is not None):
        raise ConfigurationInvalid(
            lazy_gettext("auth=xoauth2 needs a user and no password: imaps://user@host/INBOX?auth=xoauth2")
        )
    if parts.username is None or (parts.password is None and not uses_token):
        raise ConfigurationInvalid(lazy_gettext("the IMAP URL needs a user and a password, percent-encoded"))
    return ImapSettings(
        host=host,
        port=port or (IMAPS_PORT if is_encrypted else IMAP_PORT),
        user=_decode(lazy_gettext("user"), parts.username),
        password=None if parts.password is None else _decode(lazy_gettext("password"), parts.password),
        folder=_check_folder_name(_decode(lazy_gettext("folder"), parts.path.removeprefix("/")) or "INBOX"),
        move_to=_check_folder_name(options["move"]) if "move" in options else None,
        ca=Path(options["ca"]) if "ca" in options else None,
        is_encrypted=is_encrypted,
    )


def _maildir_path(url: str) -> Path:
    path = unquote(url.partition(":")[2])
    if path.startswith("//"):  # maildir:///var/mail/bounces
        path = path.removeprefix("//")
    if not path or "\0" in path:
        raise ConfigurationInvalid(lazy_gettext("the maildir URL has no path; example: maildir:/var/mail/bounces"))
    return Path(path)


def _split(url: str) -> tuple[SplitResult, int | None]:
    if any(character.isspace() or ord(character) < 32 for character in url):
        raise ConfigurationInvalid(lazy_gettext("the IMAP URL contains white space or control characters"))
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        # Use `from None`, because the cause quotes the text, which may be part of the password.
        raise ConfigurationInvalid(lazy_gettext("the host or port of the IMAP URL is invalid")) from None
    # An unencoded / ? or # in the password moves the rest of it into another part of the URL, so never quote that part.
    if "@" in parts.path + parts.query + parts.fragment:
        raise ConfigurationInvalid(
            lazy_gettext("special characters in the user or password of an IMAP URL must be percent-encoded")
        )
    if parts.fragment:
        raise ConfigurationInvalid(lazy_gettext("an IMAP URL must not have a fragment"))
    return parts, port


def _parse_options(query: str) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    options = dict(pairs)
    if len(options) != len(pairs) or not all(options.values()):
        raise ConfigurationInvalid(lazy_gettext("an option of the IMAP URL is empty or set twice"))
    for name in options:
        if name not in _OPTIONS:
            raise ConfigurationInvalid(
                lazy_gettext(
                    "unknown option {name} in the IMAP URL; supported: {options}",
                    name=repr(name),
                    options=", ".join(_OPTIONS),
                )
            )
    return options


def _decode(name: str, text: str) -> str:
    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ConfigurationInvalid(
            lazy_gettext("the {name} in the IMAP URL is not percent-encoded UTF-8", name=name)
        ) from None
    if any(ord(character) < 32 or ord(character) == 127 for character in decoded):
        raise ConfigurationInvalid(lazy_gettext("the {name} in the IMAP URL contains a control character", name=name))
    return decoded


def _check_folder_name(name: str) -> str:
    if not name.isascii() or "&" in name:
        raise ConfigurationInvalid(lazy_gettext("a folder in the IMAP URL must be ASCII without &"))
    if any(ord(character) < 32 for character in name):
        raise ConfigurationInvalid(lazy_gettext("a folder in the IMAP URL contains a control character"))
    return name
