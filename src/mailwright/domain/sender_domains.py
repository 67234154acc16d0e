"""The domains that an installation sends from. A From address with any other domain is foreign."""

from collections.abc import Callable, Iterable

from mailwright.domain.lazy_dataclass import dataclass

FOREIGN_FROM = "FOREIGN_FROM"


@dataclass(frozen=True, slots=True)
class AcceptWarning:
    """A problem of an accepted message that does not prevent sending it."""

    code: str
    detail: str


# Returns the warnings about all emails of a tenant.
FindWarnings = Callable[[int], tuple[AcceptWarning, ...]]


class SenderDomains:
    """The domains of the configured senders and of DKIM. If there are none, no domain is foreign."""

    def __init__(self, domains: Iterable[str] = ()) -> None:
        self._domains = frozenset(domain.lower().rstrip(".") for domain in domains)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._domains))

    def covers(self, domain: str) -> bool:
        """Return whether the domain is one of these domains, or their subdomain or parent, which DMARC accepts too."""
        asked = domain.lower().rstrip(".")
        return not self._domains or any(_is_aligned(asked, own) for own in self._domains)

    def warnings(self, domain: str) -> tuple[AcceptWarning, ...]:
        if self.covers(domain):
            return ()
        detail = (
            f"The From domain {domain} is not one of yours, so the email is sent without your DKIM signature and "
            f"receivers may reject it. Use another From address, or add {domain} to your sender domains and publish "
            "its DKIM records."
        )
        return (AcceptWarning(FOREIGN_FROM, detail),)


def is_same_or_below(domain: str, parent: str) -> bool:
    """Return whether the domain is the other one or its subdomain."""
    return domain == parent or domain.endswith(f".{parent}")


def _is_aligned(one: str, other: str) -> bool:
    return is_same_or_below(one, other) or is_same_or_below(other, one)
