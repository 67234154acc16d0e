"""The default sender of the installation and its DKIM key, from the settings."""

from typing import TYPE_CHECKING

from mailwright.content.dkim import DkimSigner
from mailwright.content.headers import Mailbox, find_unwritable, parse_mailbox
from mailwright.domain import address
from mailwright.domain.errors import ConfigurationInvalid, setting_problem
from mailwright.domain.translation import lazy_gettext
from mailwright.ops.settings import Settings, secret_text

if TYPE_CHECKING:
    from mailwright.content.dkim_key import DkimKey


def sender_of(settings: Settings) -> Mailbox:
    sender = parse_mailbox(settings.sender)
    if sender.name is not None and (found := find_unwritable(sender.name)):
        raise ConfigurationInvalid(
            setting_problem("MAILWRIGHT_FROM", lazy_gettext("remove {found} from the name", found=found))
        )
    for name, text in (("MAILWRIGHT_FROM", sender.address), ("MAILWRIGHT_BOUNCE_ADDRESS", settings.bounce_address)):
        try:
            if text is not None:
                address.parse(text)
        except address.InvalidAddress as error:
            raise ConfigurationInvalid(setting_problem(name, error)) from error
    return sender


def make_signer(settings: Settings) -> DkimSigner | None:
    key = dkim_key(settings)
    return None if key is None else DkimSigner([key])


def dkim_key(settings: Settings) -> "DkimKey | None":
    if settings.dkim_selector is None and settings.dkim_key_file is None and settings.dkim_key is None:
        return None
    if settings.dkim_selector is None or (settings.dkim_key_file is None and settings.dkim_key is None):
        raise ConfigurationInvalid(
            setting_problem("MAILWRIGHT_DKIM_KEY_FILE, MAILWRIGHT_DKIM_SELECTOR", lazy_gettext("set both, or neither"))
        )
    from mailwright.content.dkim_key import DkimKey  # noqa: PLC0415 - imported only if a key is configured

    domain = settings.dkim_domain or address.domain_of(parse_mailbox(settings.sender).address)
    name = "MAILWRIGHT_DKIM_KEY_FILE" if settings.dkim_key_file is not None else "MAILWRIGHT_DKIM_KEY"
    try:
        pem = secret_text(settings.dkim_key) or ""
        if settings.dkim_key_file is not None:
            pem = settings.dkim_key_file.read_text(encoding="utf-8")
        return DkimKey.load(pem, domain, settings.dkim_selector)
    except OSError as error:
        raise ConfigurationInvalid(setting_problem(name, error.strerror or error)) from error
    except ConfigurationInvalid as error:
        raise error.of(name) from error
