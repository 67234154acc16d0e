"""What the HTTP API is made of, and how a route gets at it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from mailwright.access.api_keys import ApiKeys
from mailwright.access.failed_sign_ins import FailedSignIns
from mailwright.access.initial_setup import InitialSetup
from mailwright.access.sessions import Sessions
from mailwright.access.users import Users
from mailwright.app.mailouts import MailoutDesk
from mailwright.audience.double_opt_in import ConfirmationLinks, DoubleOptIn
from mailwright.audience.importing.imports import Imports
from mailwright.audience.importing.plan import MAX_FILE_BYTES
from mailwright.audience.importing.uploads import ImportUploads
from mailwright.checks.findings import Finding
from mailwright.content.images import ImageStore
from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import Clock
from mailwright.domain.permits import Limits
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.events.inbound_webhooks import InboundWebhooks
from mailwright.events.outbound.endpoints import WebhookEndpoints
from mailwright.outbox.accept import Acceptor
from mailwright.outbox.installation import UNSUBSCRIBE_SECRET, get_or_create_secret
from mailwright.outbox.limits import DefaultLimits
from mailwright.outbox.operations import Operations
from mailwright.outbox.queue_gauges import QueueGauges
from mailwright.pipeline.compose import SenderIdentity
from mailwright.sources.api.messages import ApiMessages
from mailwright.sources.articles.preview import ArticlePreviews
from mailwright.sources.articles.runs import ArticleRuns
from mailwright.sources.articles.slices import SliceStore
from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.mailouts.runs import Runs as MailoutRuns
from mailwright.sources.notifications.service import NotificationService
from mailwright.storage.database import Database
from mailwright.web.cache import ResultCache
from mailwright.web.live import Live


@dataclass(frozen=True, slots=True)
class PublicPages:
    """What the pages for readers take from the settings."""

    # Signs their links; None for the one that the installation made and keeps.
    secret: str | None = field(default=None, repr=False)
    retired: tuple[str, ...] = field(default=(), repr=False, kw_only=True)  # signed links that still work
    asks_first: bool = False  # opening a link to leave shows a button, and only the button acts
    sender: str | None = None  # whose pages they are, in the words of the first tenant's mails
    unsubscribe_url: str | None = None  # where links to leave lead to; our own page where it is not set


@dataclass(frozen=True)
class ApiParts:
    """Built once by the application; the rest of the API's own parts follow from these."""

    database: Database
    clock: Clock
    acceptor: Acceptor
    public_url: str
    # Where a worker runs in the same process: readiness then includes it. None where workers run elsewhere.
    is_worker_alive: Callable[[], bool] | None = None
    # What takes the events of providers; None where nobody posts any.
    webhooks: InboundWebhooks | None = None
    public_pages: PublicPages = PublicPages()
    # What the settings say about limits, for everyone who has none of their own.
    defaults: DefaultLimits = DefaultLimits(Limits())  # noqa: RUF009 - frozen
    # Where uploaded images are, and what bulk mail says of where we are.
    images_folder: Path = Path("var/images")
    postal_address: str | None = None
    # Where files of contacts are handed in, and how large they may be.
    imports_folder: Path = Path("var/imports")
    import_bytes: int = MAX_FILE_BYTES
    # Whether outgoing webhooks may go to private addresses and over plain http.
    webhook_private: bool = False
    # Where the mailbox provider puts mail, for whoever reads it in the browser; None where it carries none.
    mailbox_folder: Path | None = None
    # Who we are in mails that are looked at once more; None where nobody looks.
    identity: SenderIdentity | None = None
    # What opens the routes that scripts of the administrator call; None keeps them shut for everyone.
    admin_password: str | None = field(default=None, repr=False)
    # Pages of Notion on their way to readers; None where nobody sends any.
    mailouts: MailoutDesk | None = None
    # Opens the queue of notifications for one request; None where none is configured.
    open_notifications: Callable[[], AbstractAsyncContextManager[NotificationService]] | None = None
    # Looks the sender's domain up in DNS, and asks the providers; None where nobody can.
    check_sender: Callable[[], AsyncIterator[Finding]] | None = None
    failed_sign_ins: FailedSignIns = field(init=False)
    users: Users = field(init=False)
    sessions: Sessions = field(init=False)
    initial_setup: InitialSetup = field(init=False)
    import_uploads: ImportUploads = field(init=False)
    images: ImageStore = field(init=False)
    templates: TemplateStore = field(init=False)
    keys: ApiKeys = field(init=False)
    mail: ApiMessages = field(init=False)
    operations: Operations = field(init=False)
    gauges: QueueGauges = field(init=False)
    campaigns: Campaigns = field(init=False)
    slices: SliceStore = field(init=False)
    article_previews: ArticlePreviews = field(init=False)
    article_runs: ArticleRuns = field(init=False)
    outgoing: WebhookEndpoints = field(init=False)
    mailout_runs: MailoutRuns = field(init=False)
    live: Live = field(init=False)
    kept: ResultCache = field(init=False)

    def __post_init__(self) -> None:
        images = ImageStore(self.database, self.clock, self.images_folder)
        imports = Imports(self.database, self.clock, largest=self.import_bytes)
        desk = ImportUploads(imports, self.clock, self.imports_folder, largest=self.import_bytes)
        object.__setattr__(self, "import_uploads", desk)
        object.__setattr__(self, "failed_sign_ins", FailedSignIns(self.database, self.clock))
        object.__setattr__(self, "users", Users(self.database, self.clock, self.failed_sign_ins, self.admin_password))
        object.__setattr__(self, "sessions", Sessions(self.database, self.clock))
        object.__setattr__(self, "initial_setup", InitialSetup(self.database, self.users))
        object.__setattr__(self, "images", images)
        templates = TemplateStore(self.database, self.clock, images, self.public_url, self.postal_address)
        object.__setattr__(self, "templates", templates)
        object.__setattr__(self, "keys", ApiKeys(self.database, self.clock))
        object.__setattr__(self, "mail", ApiMessages(self.database, self.clock, self.acceptor))
        object.__setattr__(self, "operations", Operations(self.database, self.clock))
        object.__setattr__(self, "gauges", QueueGauges(self.database, self.clock))
        object.__setattr__(self, "campaigns", Campaigns(self.database, self.clock, self.templates))
        object.__setattr__(self, "slices", SliceStore(self.database, self.clock, self.templates))
        object.__setattr__(self, "article_previews", ArticlePreviews(self.database, self.clock, self.templates))
        object.__setattr__(self, "article_runs", ArticleRuns(self.database, self.clock, self.templates))
        endpoints = WebhookEndpoints(self.database, self.clock, allows_private=self.webhook_private)
        object.__setattr__(self, "outgoing", endpoints)
        object.__setattr__(self, "mailout_runs", MailoutRuns(self.database, self.clock))
        object.__setattr__(self, "live", Live(self.database, self.clock))
        object.__setattr__(self, "kept", ResultCache())

    async def finish(self) -> None:
        """What listeners asked for is answered, whether or not they are there; files end with a portion."""
        await self.live.finish()
        await self.import_uploads.close()

    async def double_opt_in(self) -> DoubleOptIn:
        """Its links are signed with the secret that the other links for readers are signed with."""
        secret = self.public_pages.secret or await get_or_create_secret(self.database, UNSUBSCRIBE_SECRET)
        links = ConfirmationLinks(self.public_url, UnsubscribeTokens(secret))
        return DoubleOptIn(self.database, self.clock, links)


def parts_of(request: Request) -> ApiParts:
    parts: ApiParts = request.app.state.parts
    return parts


async def _parts(request: Request) -> ApiParts:
    return parts_of(request)


Parts = Annotated[ApiParts, Depends(_parts)]
