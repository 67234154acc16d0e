"""Decide the sender, the signing keys and the return path of each message, by the sender domains of its tenant."""

import asyncio
from collections.abc import Sequence
from typing import Final

from mailwright.content.dkim import DkimSigner
from mailwright.content.headers import Mailbox, parse_mailbox
from mailwright.domain import address
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import ACCOUNT_EMAIL, ENVELOPE_FROM, FORWARDED_REPLY, OTHER_SENDERS, Claimed
from mailwright.domain.sender_domains import SenderDomains
from mailwright.domain.sender_policy import (
    SENDER_DOMAIN_NOT_VERIFIED,
    UNRESTRICTED,
    SenderPolicy,
    TenantDomain,
)
from mailwright.outbox.sender_domains import SenderDirectory
from mailwright.pipeline.validate import ValidationFailure, ValidationKind
from mailwright.storage.secret_box import SecretBox

KEYS_UNREADABLE: Final = "SENDER_KEYS_UNREADABLE"
# The maximum number of cached signers. Above it, the cache is cleared.
MAX_SIGNERS: Final = 2_000


@dataclass(frozen=True, slots=True)
class MessageSender:
    """The sender of one message. With a failure, the message must not be sent."""

    sender: Mailbox
    is_installations: bool  # Whether it is the sender in the settings, because the message has none.
    signer: DkimSigner | None = None
    return_path: str | None = None  # The domain of the envelope sender; None for the installation's bounce address.
    failure: ValidationFailure | None = None


class MessageSenders:
    def __init__(
        self,
        sender: Mailbox,
        domains: SenderDomains,
        *,
        signer: DkimSigner | None = None,
        directory: SenderDirectory | None = None,
        secret_box: SecretBox | None = None,
    ) -> None:
        """`sender` and `signer` are the installation's. The signer signs for `domains` that belong to no tenant.

        `directory` knows the domains of the tenants. The `secret_box` decrypts their keys.
        """
        self._domains = domains
        self._signer = signer
        self._directory = directory
        self._secret_box = secret_box or SecretBox()
        self._signers: dict[tuple[str, ...], DkimSigner] = {}  # By the selectors, which are never used again.
        self._decided: dict[int, MessageSender] = {}  # By message key, if any tenant has a sender domain.
        self._default = self._of_installation(sender, is_installations=True)

    async def load(self, batch: Sequence[Claimed]) -> None:
        """Decide for a whole batch from one snapshot of the domains, so that the key that was checked also signs."""
        policy = UNRESTRICTED if self._directory is None else await self._directory.current()
        if not policy.is_empty:
            for claimed in batch:
                self._decided[claimed.message_key] = await self._decide(policy, claimed)

    @property
    def has_decided(self) -> bool:
        return bool(self._decided)

    def forget(self, claimed: Claimed) -> None:
        self._decided.pop(claimed.message_key, None)

    def of(self, claimed: Claimed) -> MessageSender:
        if (decided := self._decided.get(claimed.message_key)) is not None:
            return decided
        if "from" not in claimed.payload:
            return self._default
        return self._of_installation(parse_mailbox(claimed.payload["from"]), is_installations=False)

    def failure(self, claimed: Claimed) -> ValidationFailure | None:
        """Return why the message must not be sent from its sender; None if it may."""
        decided = self._decided.get(claimed.message_key)
        return None if decided is None else decided.failure

    def is_decided(self, claimed: Claimed) -> bool:
        """Return whether the sender of equal messages can differ, because it depends on the domains of tenants."""
        return claimed.message_key in self._decided

    def _of_installation(self, sender: Mailbox, *, is_installations: bool) -> MessageSender:
        is_covered = self._signer is not None and self._domains.covers(address.domain_of(sender.address))
        return MessageSender(sender, is_installations, self._signer if is_covered else None)

    async def _decide(self, policy: SenderPolicy, claimed: Claimed) -> MessageSender:
        given = claimed.payload.get("from")
        own = policy.own_sender(claimed.tenant_id) if given is None else None
        try:
            sender = parse_mailbox(given or own or policy.installation_sender)
        except (KeyError, TypeError):
            failure = ValidationFailure(ValidationKind.INTEGRITY, "INVALID_PAYLOAD", "The sender cannot be read.")
            return MessageSender(Mailbox(""), is_installations=False, failure=failure)
        is_installations = given is None and own is None
        # Mailwright itself sends these, from the sender of the installation.
        is_ours = FORWARDED_REPLY in claimed.payload or ACCOUNT_EMAIL in claimed.payload
        refusal = _refusal(policy, claimed, sender)
        if refusal is not None and not is_ours:
            failure = ValidationFailure(ValidationKind.SENDER, SENDER_DOMAIN_NOT_VERIFIED, refusal)
            return MessageSender(sender, is_installations, failure=failure)
        domain = policy.owner_of(address.domain_of(sender.address))
        if domain is None:
            return self._of_installation(sender, is_installations=is_installations)
        try:
            signer = await self._load_signer(domain)
        except ConfigurationInvalid as error:
            reason = f"The DKIM keys of {domain.domain} cannot be read: {error}"
            failure = ValidationFailure(ValidationKind.SENDER, KEYS_UNREADABLE, reason)
            return MessageSender(sender, is_installations, failure=failure)
        return MessageSender(sender, is_installations, signer, domain.return_path)

    async def _load_signer(self, domain: TenantDomain) -> DkimSigner:
        key = tuple(each.selector for each in domain.keys)
        if key not in self._signers:
            if len(self._signers) >= MAX_SIGNERS:
                self._signers.clear()
            self._signers[key] = await asyncio.to_thread(self._build, domain)
        return self._signers[key]

    def _build(self, domain: TenantDomain) -> DkimSigner:
        from mailwright.content.dkim_key import DkimKey  # noqa: PLC0415 - large, and only signing needs it

        return DkimSigner(
            [
                DkimKey.load(
                    self._secret_box.decrypt(each.private_key or ""), domain.domain, each.selector, is_ours=True
                )
                for each in domain.keys
            ]
        )


def _refusal(policy: SenderPolicy, claimed: Claimed, sender: Mailbox) -> str | None:
    """Return why the tenant must not use one of the senders; None if it may.

    These are From and, for a raw email, also Sender and the envelope sender.
    """
    others = claimed.payload.get(OTHER_SENDERS, ())
    if others is None:
        return "From or Sender can be read in several ways. Send the email again with one plain address in each."
    envelope = claimed.payload.get(ENVELOPE_FROM)
    for each in (sender.address, *others, *([envelope] if envelope else ())):
        if (refusal := policy.refusal(claimed.tenant_id, each, accepted_at=claimed.created_at)) is not None:
            return refusal
    return None
