"""Enforce the senders of an API key and the sender domains of its tenant.

Every request that can send email with a key calls `require_senders` and, if it names a sender, `require_domains`.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from mailwright.access.api_keys import Caller
from mailwright.content.headers import Mailbox
from mailwright.domain import address
from mailwright.domain.sender_policy import SENDER_DOMAIN_NOT_VERIFIED, SenderPolicy
from mailwright.sources.api.validation import FieldError, RequestInvalid

# Text in a name that people would take for an address. Some mail programs show only the name.
_ADDRESS: Final = re.compile(r"[^\s<>\"'(),;:@]+@[^\s<>\"'(),;:@]+")


class SenderNotAllowed(RequestInvalid):
    """The API key may not use this sender."""

    code = "SENDER_NOT_ALLOWED"


class SenderDomainNotVerified(SenderNotAllowed):
    """The tenant may not send from this domain."""

    code = SENDER_DOMAIN_NOT_VERIFIED


def require_domains(policy: SenderPolicy, tenant_id: int, emails: Iterable[str], field: str = "from") -> None:
    """Raise unless the tenant may send from the domains of all these addresses."""
    for email in emails:
        if (reason := policy.refusal(tenant_id, email)) is not None:
            raise SenderDomainNotVerified([FieldError(field, SenderDomainNotVerified.code, reason)])


def require_senders(caller: Caller, senders: Iterable[Mailbox], field: str = "from") -> None:
    """Raise unless the caller may use all senders. A name that contains another address is refused too."""
    if caller.senders is None:
        return
    for sender in senders:
        shown = _ADDRESS.findall(unicodedata.normalize("NFKC", sender.name or ""))
        for each in (sender.address, *shown):
            if not caller.senders.allow(each):
                reason = f"must be a sender of this API key ({caller.senders}), not {each[:120]!r}"
                raise SenderNotAllowed([FieldError(field, SenderNotAllowed.code, f"{reason}; or use another key")])


def require_sender(caller: Caller, text: str, field: str = "from") -> None:
    """Raise unless the caller may use the sender `name@example.com` or `Jane Doe <name@example.com>`."""
    name, email = address.split_mailbox(text)
    require_senders(caller, [Mailbox(email, name)], field)
