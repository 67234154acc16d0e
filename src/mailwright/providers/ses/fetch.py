"""Fetch a URL from Amazon with a single GET, without following redirects. The HTTP library is imported on first use."""

from typing import TYPE_CHECKING

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.providers.inbound.rejected_events import VerificationUnavailable

if TYPE_CHECKING:
    from mailwright.providers.http import HttpClient

TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class FetchedResponse:
    status: int
    body: bytes


class AmazonFetcher:
    """A lazy HTTP client. The caller must have checked the URL."""

    def __init__(self, http: "HttpClient | None" = None) -> None:
        self._http = http

    async def get(self, url: str) -> FetchedResponse:
        from mailwright.providers.http import Disconnect, HttpClient  # noqa: PLC0415 - large and rarely needed

        self._http = self._http or HttpClient(connections=4)
        reply = await self._http.request("GET", url, timeout_seconds=TIMEOUT_SECONDS)
        if isinstance(reply, Disconnect):
            raise VerificationUnavailable(f"Amazon is unreachable: {reply.cause}.")
        return FetchedResponse(reply.status, reply.body)

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
