"""`maildir:/path` or `imaps://user:password@host/INBOX`: read strictly, and never print the password."""

from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from mailwright.domain.errors import ConfigurationInvalid
from mailwright.events.bounces.imap import ImapMailbox, ImapSettings
from mailwright.events.bounces.mailbox import BounceMailbox
from mailwright.events.bounces.maildir import MaildirMailbox

IMAPS_PORT = 993
IMAP_PORT = 143
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_OPTIONS = ("move", "ca")


def open_mailbox(url: str) -> BounceMailbox:
    """Nothing is touched before the first arrivals are asked for."""
    scheme = url.partition(":")[0].lower()
    if scheme == "maildir":
        return MaildirMailbox(_folder(url))
    if scheme in ("imap", "imaps"):
        return ImapMailbox(parse_imap_url(url))
    raise ConfigurationInvalid("the bounce mailbox begins with maildir: or imaps://")


def parse_imap_url(url: str) -> ImapSettings:
    parts, port = _split(url)
    host, is_encrypted = parts.hostname, parts.scheme == "imaps"
    if not host:
        raise ConfigurationInvalid("the IMAP URL names no host, as in imaps://user:password@mail.example.com/INBOX")
    if not is_encrypted and host not in _LOOPBACK:
        raise ConfigurationInvalid("imap:// would send the password in the clear: use imaps://")
    if parts.username is None or parts.password is None:
        raise ConfigurationInvalid("the IMAP URL needs a user and a password, percent-encoded")
    options = _options(parts.query)
    return ImapSettings(
        host=host,
        port=port or (IMAPS_PORT if is_encrypted else IMAP_PORT),
        user=_decoded("user", parts.username),
        password=_decoded("password", parts.password),
        folder=_mailbox_name(_decoded("folder", parts.path.removeprefix("/")) or "INBOX"),
        move_to=_mailbox_name(options["move"]) if "move" in options else None,
        ca=Path(options["ca"]) if "ca" in options else None,
        is_encrypted=is_encrypted,
    )


def _folder(url: str) -> Path:
    path = unquote(url.partition(":")[2])
    if path.startswith("//"):  # maildir:///var/mail/bounces
        path = path.removeprefix("//")
    if not path or "\0" in path:
        raise ConfigurationInvalid("the maildir of the bounce mailbox is missing, as in maildir:/var/mail/bounces")
    return Path(path)


def _split(url: str) -> tuple[SplitResult, int | None]:
    if any(character.isspace() or ord(character) < 32 for character in url):
        raise ConfigurationInvalid("the IMAP URL contains white space or control characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        # Without its cause: that one quotes the text, which may be a piece of the password.
        raise ConfigurationInvalid("the host or the port in the IMAP URL cannot be read") from None
    # A raw / ? or # in a password moves the rest of it into another part of the URL. Naming that part would print it.
    if "@" in parts.path + parts.query + parts.fragment:
        raise ConfigurationInvalid("special characters in the user or password of an IMAP URL must be percent-encoded")
    if parts.fragment:
        raise ConfigurationInvalid("an IMAP URL has no fragment")
    return parts, port


def _options(query: str) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    options = dict(pairs)
    if len(options) != len(pairs) or not all(options.values()):
        raise ConfigurationInvalid("an option of the IMAP URL is empty or set twice")
    for name in options:
        if name not in _OPTIONS:
            raise ConfigurationInvalid(f"the IMAP URL has no option {name!r}; it knows {', '.join(_OPTIONS)}")
    return options


def _decoded(name: str, text: str) -> str:
    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ConfigurationInvalid(f"the {name} in the IMAP URL is not percent-encoded UTF-8") from None
    if any(ord(character) < 32 or ord(character) == 127 for character in decoded):
        raise ConfigurationInvalid(f"the {name} in the IMAP URL contains a control character")
    return decoded


def _mailbox_name(name: str) -> str:
    if not name.isascii() or "&" in name:
        raise ConfigurationInvalid("a folder in the IMAP URL has other than plain ASCII letters, or an &")
    if any(ord(character) < 32 for character in name):
        raise ConfigurationInvalid("a folder in the IMAP URL contains a control character")
    return name
