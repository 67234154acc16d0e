"""Resolve the tokens of tracked links, mostly from a cache without the database."""

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from mailwright.domain.clock import Clock
from mailwright.domain.machines import is_machine_request
from mailwright.domain.tracking import TrackingMode
from mailwright.domain.tracking_tokens import TokenKind, TrackingToken, TrackingTokens
from mailwright.domain.unsubscribe_tokens import InvalidToken
from mailwright.events.tracking.spool import Spool, TrackedHit
from mailwright.ops.logs import logger
from mailwright.outbox.installation import UNSUBSCRIBE_SECRET, find_secret, get_or_create_secret
from mailwright.outbox.tracked_links import find_link, newest_links
from mailwright.providers.inbound.sanitize import link_without_query
from mailwright.storage.database import Database

# Maximum number of cached links, about 20 MB. The latest links are loaded at the start, so that most redirects do not
# need the database.
MAX_CACHED_LINKS: Final = 50_000
# Characters that a Location header may contain unencoded. Other characters are encoded as browsers do.
_URL_CHARACTERS: Final = "!#$%&'()*+,/:;=?@[]~-._"

log = logger(__name__)


class Redirects:
    """Resolves tokens to their targets and records opens and clicks."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        folder: Path,
        mode: TrackingMode,
        *,
        secret: str | None = None,
        retired: tuple[str, ...] = (),
    ) -> None:
        """Create the resolver. `secret` comes from the settings; None means that the installation has generated one."""
        self.spool = Spool(folder)
        self._database = database
        self._clock = clock
        self._mode = mode
        self._secret = secret
        self._retired = retired
        self._tokens: TrackingTokens | None = None
        self._links: OrderedDict[str, str] = OrderedDict()

    async def warm(self) -> None:
        """Load the secret and the newest links."""
        await self._load_tokens()
        self._links = OrderedDict(await newest_links(self._database, MAX_CACHED_LINKS))

    async def parse(self, token: str) -> TrackingToken:
        tokens = self._tokens or await self._load_tokens()
        return tokens.parse(token, self._clock.now())

    async def target(self, token: TrackingToken) -> str:
        """Return the URL to redirect to, or raise `InvalidToken` if the link no longer exists."""
        if token.url is not None:
            return token.url
        link_id = token.link_id or ""
        if (known := self._links.get(link_id)) is not None:
            return known
        found = await find_link(self._database, link_id)
        if found is None:
            raise InvalidToken
        self._links[link_id] = found
        if len(self._links) > MAX_CACHED_LINKS:
            self._links.popitem(last=False)
        return found

    def record(self, token: TrackingToken, url: str | None, headers: Mapping[str, str], address: str | None) -> None:
        """Write an open or a click to the spool, unless tracking has been turned off in the meantime."""
        if self._mode is TrackingMode.OFF or (token.outbox_id and self._mode is not TrackingMode.INDIVIDUAL):
            return
        is_invisible_link = is_invisible(token)
        is_machine = is_invisible_link or is_machine_request(headers, address, is_click=not is_open(token))
        if token.url is not None:
            url = link_without_query(token.url)  # The query may contain personal values.
        hit = TrackedHit(self._clock.now(), token.campaign_key, token.outbox_id, url, is_machine, is_invisible_link)
        try:
            self.spool.append(hit)
        except OSError as error:  # Redirect the recipient even if the click cannot be recorded.
            log.error("tracking_spool_not_written", reason=error.strerror or str(error))

    def close(self) -> None:
        self.spool.close()

    async def _load_tokens(self) -> TrackingTokens:
        """Load the secrets, which are the same as for the other links in emails."""
        if self._secret is None:
            secrets = [await get_or_create_secret(self._database, UNSUBSCRIBE_SECRET), *self._retired]
        else:
            generated = await find_secret(self._database, UNSUBSCRIBE_SECRET)
            secrets = [self._secret, *self._retired, *([generated] if generated else [])]
        self._tokens = TrackingTokens(*secrets)
        return self._tokens


def location_of(url: str) -> str:
    """Encode the characters of a URL that a Location header may not contain."""
    return quote(url, safe=_URL_CHARACTERS)


def is_open(token: TrackingToken) -> bool:
    return token.kind is TokenKind.OPEN


def is_invisible(token: TrackingToken) -> bool:
    return token.kind is TokenKind.INVISIBLE_LINK
