"""What mailouts are told by the settings, as values of their own."""

import math
from dataclasses import dataclass, field

from mailwright.sources.mailouts.notion import ErrorColumns, MailoutColumns


@dataclass(frozen=True, slots=True)
class NotionStatuses:
    """What the states of a mailout are called in Notion."""

    ready: str = "Ready"
    send: str = "Send"
    failed: str = "Failed"


@dataclass(frozen=True, slots=True)
class FooterDetails:
    """What stands below every mailout. `missing` names the settings without which there is none."""

    org_name: str
    org_address: str
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MailoutSetup:
    tenant_id: int
    from_email: str
    from_name: str | None
    reply_to: str | None
    footer: FooterDetails
    unsubscribe_url: str  # the page that readers' links to leave lead to
    has_public_url: bool = True  # so that they see pictures that we keep
    test_emails: str = ""
    rate_per_second: float = 5.0
    batch_size: int = 50
    mailouts_database: str | None = None
    errors_database: str | None = None
    columns: MailoutColumns = field(default_factory=MailoutColumns)
    error_columns: ErrorColumns = field(default_factory=ErrorColumns)
    statuses: NotionStatuses = field(default_factory=NotionStatuses)

    @property
    def interval_ms(self) -> int:
        """Rounded up: a little slower than the rate is within it."""
        return math.ceil(1_000 / self.rate_per_second)
