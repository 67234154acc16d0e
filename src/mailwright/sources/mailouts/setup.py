"""The settings of mailouts as values."""

import math
from dataclasses import dataclass, field

from mailwright.sources.mailouts.notion import ErrorColumns, MailoutColumns


@dataclass(frozen=True, slots=True)
class NotionStatuses:
    """The names of the mailout statuses in Notion."""

    ready: str = "Ready"
    send: str = "Send"
    failed: str = "Failed"


@dataclass(frozen=True, slots=True)
class FooterDetails:
    """The content of the footer. `missing` names required settings that are not set."""

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
    unsubscribe_url: str  # the page of unsubscribe links
    has_public_url: bool = True  # without it, recipients cannot load the images that Mailwright stores
    test_emails: str = ""
    is_local: bool = False  # email goes to the local mailbox and reaches nobody
    allows_local: bool = False  # real mailouts may go to the local mailbox
    rate_per_second: float = 5.0
    batch_size: int = 50
    mailouts_database: str | None = None
    errors_database: str | None = None
    columns: MailoutColumns = field(default_factory=MailoutColumns)
    error_columns: ErrorColumns = field(default_factory=ErrorColumns)
    statuses: NotionStatuses = field(default_factory=NotionStatuses)

    @property
    def interval_ms(self) -> int:
        """The interval between messages, rounded up so that the rate is never exceeded."""
        return math.ceil(1_000 / self.rate_per_second)
