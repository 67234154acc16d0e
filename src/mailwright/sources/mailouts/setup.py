"""What mailouts are told by the settings, as values of their own."""

import math
from dataclasses import dataclass, field

from mailwright.sources.mailouts.notion import ErrorNames, MailoutNames


@dataclass(frozen=True, slots=True)
class Statuses:
    """What the states of a mailout are called in Notion."""

    ready: str = "Ready"
    send: str = "Send"
    failed: str = "Failed"


@dataclass(frozen=True, slots=True)
class Footer:
    """What stands below every mailout. `missing` names the settings without which there is none."""

    org_name: str
    org_address: str
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Setup:
    tenant_id: int
    from_email: str
    from_name: str | None
    reply_to: str | None
    footer: Footer
    unsubscribe_url: str  # the page that readers' links to leave lead to
    is_reached_by_readers: bool = True  # so that they see pictures that we keep
    test_emails: str = ""
    rate_per_second: float = 5.0
    batch_size: int = 50
    mailouts_database: str | None = None
    errors_database: str | None = None
    names: MailoutNames = field(default_factory=MailoutNames)
    error_names: ErrorNames = field(default_factory=ErrorNames)
    statuses: Statuses = field(default_factory=Statuses)

    @property
    def interval_ms(self) -> int:
        """Rounded up: a little slower than the rate is within it."""
        return math.ceil(1_000 / self.rate_per_second)
