"""Decide from which domains a tenant may send, and its default sender."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mailwright.domain import address
from mailwright.domain.clock import Instant
from mailwright.domain.dkim_rotation import DomainKey
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.sender_domains import is_same_or_below
from mailwright.domain.translation import lazy_gettext
from mailwright.domain.unsubscribe_tokens import FIRST_TENANT

SENDER_DOMAIN_NOT_VERIFIED = "SENDER_DOMAIN_NOT_VERIFIED"
NONE_LEFT: Final = lazy_gettext(
    "This tenant had a verified sender domain and has none left, so it sends nothing. Add a domain and publish its "
    "DKIM records, or ask an administrator of the installation to lift the restriction."
)


@dataclass(frozen=True, slots=True)
class TenantDomain:
    """A sender domain of a tenant, without its keys."""

    id: int
    tenant_id: int
    domain: str
    sender: str  # The tenant's default From address.
    is_verified: bool
    created_at: Instant
    keys: tuple[DomainKey, ...] = ()  # The keys that sign, if it is verified.
    missing: str = ""  # The records that are not published yet.
    return_path: str | None = None  # The domain of the envelope sender, if its records are published.


@dataclass(frozen=True, slots=True)
class InstallationSenders:
    """The settings about senders."""

    sender: str  # The default From address.
    domains: tuple[str, ...] = ()  # The domains that the default tenant may use without adding them.
    requires_verified: bool = False  # Whether every tenant needs a verified domain.
    # Whether every tenant but the default one needs a verified domain as soon as there are several tenants.
    separates_tenants: bool = False


class SenderPolicy:
    """The sender domains of all tenants at one moment.

    A verified domain belongs to one tenant. So do its subdomains, except those that another tenant has verified. A
    tenant that has sender domains may send only from the verified ones. If its last verified domain is deleted, it
    stays restricted and sends nothing, until an administrator of the installation lifts the restriction. If there is
    only one tenant, or the installation does not separate tenants, any other tenant may send from every domain that
    belongs to no tenant, and from the installation's sender, unless the installation requires verified domains.
    Otherwise only the default tenant may send without a verified domain, from the domains in the settings.
    """

    def __init__(
        self,
        installation: InstallationSenders,
        domains: Iterable[TenantDomain] = (),
        restricted: Mapping[int, Instant] | None = None,
        several_since: Instant | None = None,
    ) -> None:
        """`restricted`: the tenants that have or had a verified domain, and since when they are restricted.

        `several_since`: when the second tenant was created, or None.
        """
        self._installation = installation
        self._installation_address = _normal_address(installation.sender)
        self._verified: dict[str, TenantDomain] = {}
        self._by_tenant: dict[int, list[TenantDomain]] = {}
        self._restricted = restricted or {}
        self._separate_since = several_since if installation.separates_tenants else None
        for each in sorted(domains, key=lambda one: one.id):
            self._by_tenant.setdefault(each.tenant_id, []).append(each)
            if each.is_verified:
                self._verified[each.domain] = each

    @property
    def is_empty(self) -> bool:
        """Whether every tenant may send from every domain."""
        is_free = not self._installation.requires_verified and self._separate_since is None
        return is_free and not self._by_tenant and not self._restricted

    def owner_of(self, domain: str) -> TenantDomain | None:
        """Return the verified sender domain that the domain is, or is a subdomain of."""
        if not self._verified:
            return None
        return next((self._verified[each] for each in _with_parents(domain) if each in self._verified), None)

    def home_of(self, domain: str) -> tuple[int, str] | None:
        """Return the tenant, and its domain, for reports about a domain; None if no tenant has the domain.

        The domains in the settings belong to the default tenant, unless another tenant has verified them.
        """
        if (owner := self.owner_of(domain)) is not None:
            return owner.tenant_id, owner.domain
        own = [each for each in self._installation.domains if is_same_or_below(_normal_domain(domain), each)]
        return (FIRST_TENANT, max(own, key=len)) if own else None

    @property
    def installation_sender(self) -> str:
        return self._installation.sender

    def own_sender(self, tenant_id: int) -> str | None:
        """Return the tenant's default From address; None if the installation's applies."""
        verified = [each for each in self._by_tenant.get(tenant_id, ()) if each.is_verified]
        if not verified or self.is_own(tenant_id, self._installation_address):
            return None
        return verified[0].sender

    def default_sender(self, tenant_id: int) -> str:
        """Return the From address for email without a sender."""
        return self.own_sender(tenant_id) or self._installation.sender

    def refusal(self, tenant_id: int, sender: str, *, accepted_at: Instant | None = None) -> str | None:
        """Return why the tenant must not send from this address, which may have a name; None if it may.

        A message that was accepted before its tenant had a sender domain, or before there was a second tenant, is still
        sent, unless another tenant has verified the domain.
        """
        if self.is_empty or self.is_own(tenant_id, sender):
            return None
        sender = address.split_mailbox(sender)[1]
        own = self._by_tenant.get(tenant_id, [])
        if self._is_installation_sender(tenant_id, sender):
            return None
        domain = _normal_domain(address.domain_of(sender))
        shown = address.both_forms(domain)
        # The only tenant is not restricted without a sender domain, and neither are messages that were accepted before
        # it had one.
        since = [each.created_at for each in own]
        if self._separate_since is not None:
            since.append(self._separate_since)
        if tenant_id in self._restricted:
            since.append(self._restricted[tenant_id])
        is_restricted = any(accepted_at is None or accepted_at >= each for each in since)
        if is_restricted and self.has_none_left(tenant_id):
            return _not_verified(domain, own) or NONE_LEFT
        if self.owner_of(domain) is not None:
            return lazy_gettext(
                "The domain {domain} belongs to another tenant. Use a sender of your own domain.", domain=shown
            )
        if not is_restricted and not self._installation.requires_verified:
            return None
        return _not_verified(domain, own) or lazy_gettext(
            "The domain {domain} is not one of your sender domains. Use a sender of a verified domain, or add the "
            "domain and publish its DKIM records.",
            domain=shown,
        )

    def has_none_left(self, tenant_id: int) -> bool:
        """Return whether the tenant sends nothing, because it had a verified domain and has none now."""
        return tenant_id in self._restricted and not self._has_verified(tenant_id)

    def is_own(self, tenant_id: int, sender: str) -> bool:
        """Return whether the sender, which may have a name, has a verified domain of the tenant."""
        owner = self.owner_of(address.domain_of(address.split_mailbox(sender)[1]))
        return owner is not None and owner.tenant_id == tenant_id

    def _has_verified(self, tenant_id: int) -> bool:
        return any(each.is_verified for each in self._by_tenant.get(tenant_id, ()))

    def _is_installation_sender(self, tenant_id: int, sender: str) -> bool:
        """Return whether the settings allow this sender to a tenant that has never verified a domain."""
        is_restricted = tenant_id in self._restricted or self._has_verified(tenant_id)
        is_separate = self._separate_since is not None and tenant_id != FIRST_TENANT
        if self._installation.requires_verified or is_restricted or is_separate:
            return False
        if _normal_address(sender) == self._installation_address:
            return True
        domain = _normal_domain(address.domain_of(sender))
        is_listed = any(is_same_or_below(domain, each) for each in self._installation.domains)
        return tenant_id == FIRST_TENANT and is_listed and self.owner_of(domain) is None


def _not_verified(domain: str, own: Iterable[TenantDomain]) -> str | None:
    """Return why the tenant's sender domain for this sender is not verified; None if the tenant has no such domain."""
    for each in own:
        if is_same_or_below(domain, each.domain):
            return lazy_gettext(
                "The domain {domain} is not verified: {missing}. Publish its DNS records, then check the domain again.",
                domain=address.both_forms(each.domain),
                missing=each.missing or lazy_gettext("its DNS records are not checked yet"),
            )
    return None


def parse_domain(text: str) -> str:
    """Return the domain in ASCII lower case, or raise `InvalidAddress`."""
    return address.parse(f"postmaster@{address.trim(text).removesuffix('.')}")[1]


def known_domain(name: str) -> str:
    """Return the domain to search for. A text that is not a domain is not found."""
    try:
        return parse_domain(name)
    except address.InvalidAddress:
        return name[:253]


def _normal_domain(domain: str) -> str:
    try:
        return parse_domain(domain)
    except address.InvalidAddress:
        return domain.lower()


def _normal_address(sender: str) -> str:
    email = address.split_mailbox(sender)[1]
    return f"{email.rpartition('@')[0].lower()}@{_normal_domain(address.domain_of(email))}"


def _with_parents(domain: str) -> Iterator[str]:
    labels = _normal_domain(domain).split(".")
    return (".".join(labels[start:]) for start in range(len(labels) - 1))


# Every tenant may send from every domain.
UNRESTRICTED: Final = SenderPolicy(InstallationSenders(""))
