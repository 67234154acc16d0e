"""The settings of mailouts as values."""

import math
from dataclasses import field

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.mailouts.notion import ErrorColumns, MailoutColumns


@dataclass(frozen=True, slots=True)
class NotionStatuses:
    """The names of the mailout statuses in Notion.

    A page with the status `ready` is sent. If there is a status `test`, a page with it is sent only as a test. `reset`
    clears the results of a page. If they are set, a page has the status `in_progress` while it is being sent, and
    `not_started` after a test or a refusal.
    """

    ready: str = "Ready"
    send: str = "Send"
    failed: str = "Failed"
    test: str | None = None
    reset: str | None = None
    in_progress: str | None = None
    not_started: str | None = None

    @property
    def triggers(self) -> dict[str, str]:
        """The statuses that trigger an action, by field name."""
        named = {"ready": self.ready, "test": self.test, "reset": self.reset}
        return {field: status for field, status in named.items() if status is not None}

    def is_sent(self, status: str | None) -> bool:
        """Return whether the status says that the page was sent, with or without failures."""
        return (status or "").casefold() in (self.send.casefold(), self.failed.casefold())

    def is_test_only(self, status: str | None) -> bool:
        return self.test is not None and (status or "").casefold() == self.test.casefold()


@dataclass(frozen=True, slots=True)
class FooterDetails:
    """The content of the footer. `missing` names required settings that are not set."""

    org_name: str
    org_address: str
    missing: tuple[str, ...] = ()
    html: str = ""  # shown before the address
    text: str = ""


@dataclass(frozen=True, slots=True)
class MailoutSetup:
    tenant_id: int
    from_email: str
    from_name: str | None
    reply_to: str | None
    footer: FooterDetails
    unsubscribe_url: str  # the page that unsubscribe links open
    has_public_url: bool = True  # without it, recipients cannot load the images that Mailwright stores
    test_emails: str = ""
    is_local: bool = False  # email goes to the local mailbox and reaches nobody
    allows_local: bool = False  # real mailouts may go to the local mailbox
    rate_per_second: float = 5.0
    one_at_a_time: bool = True  # each message waits for the response to the one before it
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
