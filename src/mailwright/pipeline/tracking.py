"""Decide which messages are tracked, and prepare the links of their templates."""

from collections.abc import Collection
from typing import Any, Final

from mailwright.content.template_store import TemplateStore
from mailwright.content.tracked_links import LinkRewriter, TrackedRecipient, add_parameters, fixed_urls
from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Claimed
from mailwright.domain.tracking import TrackingMode, tracking_of
from mailwright.domain.tracking_tokens import TrackingTokens, day_of, link_id_of
from mailwright.outbox.tracked_links import store_links
from mailwright.storage.database import Database

# The path of tracked links; the token follows.
PATH: Final = "/t/"
# The paths of recipients' own pages. Links to them are never tracked.
OWN_PATHS: Final = ("/unsubscribe", "/resubscribe", "/preferences", "/confirm", "/view/", PATH)


@dataclass(frozen=True, slots=True)
class TrackingSettings:
    """The tracking settings of an installation. `mode` is the most permissive mode that any message can have."""

    mode: TrackingMode
    tokens: TrackingTokens
    adds_invisible_link: bool = True  # Emails that identify their recipient contain a link that only programs see.


@dataclass(frozen=True, slots=True)
class CampaignTokens:
    """The tokens of one campaign on one day, without the recipient's part."""

    tokens: TrackingTokens
    day: int
    campaign_key: int | None
    is_anonymous: bool = False
    adds_invisible_link: bool = False

    @property
    def pixel(self) -> str:
        return self.tokens.open(self.day, self.campaign_key, is_anonymous=self.is_anonymous)

    @property
    def invisible_link(self) -> str | None:
        return self.tokens.invisible_link(self.day, self.campaign_key) if self.adds_invisible_link else None

    def personal(self, outbox_id: str, url: str) -> str:
        return self.tokens.personal_link(self.day, self.campaign_key, outbox_id, url)


class MessageTracker:
    def __init__(
        self, database: Database, settings: TrackingSettings | None, *, public_url: str, unsubscribe_url: str
    ) -> None:
        self._database = database
        self._settings = settings
        self._public_url = public_url
        self._unsubscribe_url = unsubscribe_url
        self._stored: set[tuple[Any, ...]] = set()  # Templates whose links were stored today.
        self._stored_on = 0

    def mode_of(self, claimed: Claimed) -> TrackingMode:
        return TrackingMode.OFF if self._settings is None else tracking_of(self._settings.mode, claimed)

    def is_individual(self, claimed: Claimed) -> bool:
        """Return whether the email identifies its recipient. Emails without HTML have no links and no pixel."""
        has_html = claimed.template_key is not None or bool(claimed.payload.get("html"))
        return self._settings is not None and has_html and self.mode_of(claimed) is TrackingMode.INDIVIDUAL

    def recipient(self, claimed: Claimed, mode: TrackingMode) -> TrackedRecipient | None:
        """Return the recipient that the tracked links identify; None in anonymous mode."""
        if mode is not TrackingMode.INDIVIDUAL or self._settings is None:
            return None
        return TrackedRecipient(claimed.outbox_id, self._settings.tokens.recipient(claimed.outbox_id))

    def layout_key(self, claimed: Claimed, mode: TrackingMode) -> tuple[Any, ...]:
        """Return the cache key of a layout's links. It changes every day if they are tracked, because they expire."""
        if mode is TrackingMode.OFF:
            return (_utm(claimed), claimed.tracking_host) if claimed.payload.get("utm") else ()
        return (mode, day_of(claimed.received_at), claimed.campaign_key, claimed.tracking_host, _utm(claimed))

    def _parameters_rewriter(self, claimed: Claimed) -> LinkRewriter | None:
        """Return the rewriter that adds the campaign's parameters, which identify nobody, without tracking."""
        parameters = dict(_utm(claimed))
        if not parameters:
            return None
        own_pages = self._own_pages(claimed)
        return LinkRewriter("", None, {}, parameters=parameters, own_pages=own_pages, is_individual=False)

    def rewriter(self, claimed: Claimed, mode: TrackingMode, source: str) -> LinkRewriter | None:
        """Return the link rewriter of a message. The fixed links in `source` are the same for every recipient.

        Return None if all links stay as they are.
        """
        if mode is TrackingMode.OFF:
            return self._parameters_rewriter(claimed)
        settings, day = self._require_settings(), day_of(claimed.received_at)
        is_anonymous = mode is TrackingMode.ANONYMOUS
        adds_invisible_link = settings.adds_invisible_link and not is_anonymous
        tokens = CampaignTokens(settings.tokens, day, claimed.campaign_key, is_anonymous, adds_invisible_link)
        targets = self._targets(claimed, source)
        return LinkRewriter(
            base_url=f"{self._host(claimed)}{PATH}",
            tokens=tokens,
            fixed={
                url: settings.tokens.link(
                    day, claimed.campaign_key, link_id_of(claimed.tenant_id, target), is_anonymous=is_anonymous
                )
                for url, target in targets.items()
            },
            parameters=dict(_utm(claimed)),
            own_pages=self._own_pages(claimed),
            is_individual=not is_anonymous,
        )

    async def store_links(self, batch: Collection[Claimed], templates: TemplateStore) -> None:
        """Store the links of tracked templates before any message contains them."""
        wanted: dict[str, tuple[int, str]] = {}
        keys = set()
        for claimed in batch:
            if claimed.template_key is None or self.mode_of(claimed) is TrackingMode.OFF:
                continue
            self._forget_yesterday(claimed.received_at)
            key = (claimed.template_key, claimed.tracking_host, _utm(claimed))
            stored = templates.cached(claimed.template_key)
            if stored is None or key in self._stored or key in keys:
                continue
            keys.add(key)
            targets = self._targets(claimed, stored.html)
            wanted |= {link_id_of(claimed.tenant_id, url): (claimed.tenant_id, url) for url in targets.values()}
        if wanted:
            await store_links(self._database, wanted, max(claimed.received_at for claimed in batch))
        self._stored |= keys

    def _forget_yesterday(self, now: Instant) -> None:
        if day_of(now) != self._stored_on:
            self._stored_on = day_of(now)
            self._stored.clear()

    def _targets(self, claimed: Claimed, source: str) -> dict[str, str]:
        parameters = dict(_utm(claimed))
        return {url: add_parameters(url, parameters) for url in fixed_urls(source, self._own_pages(claimed))}

    def _own_pages(self, claimed: Claimed) -> tuple[str, ...]:
        hosts = {self._public_url, self._host(claimed)}
        return (self._unsubscribe_url, *(f"{host}{path}" for host in sorted(hosts) for path in OWN_PATHS))

    def _host(self, claimed: Claimed) -> str:
        return claimed.tracking_host or self._public_url

    def _require_settings(self) -> TrackingSettings:
        if self._settings is None:
            raise RuntimeError("Tracking is off.")
        return self._settings


def _utm(claimed: Claimed) -> tuple[tuple[str, str], ...]:
    utm = claimed.payload.get("utm")
    return tuple((f"utm_{name}", value) for name, value in utm.items()) if utm else ()
