"""The steps that a session returns to its connection, and the interface of the server that it uses."""

from collections.abc import Coroutine
from enum import Enum, auto
from typing import Any, Protocol

from mailwright.access.api_keys import Caller
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.api.raw import Envelope


class Next(Enum):
    """The next thing that the connection reads or does after a step."""

    COMMAND = auto()
    DATA = auto()
    CHUNK = auto()
    START_TLS = auto()
    CLOSE = auto()


# These values are immutable, but not declared frozen, because they are created for each command and a frozen class is
# slower.


@dataclass(slots=True)
class Step:
    """The result of a command: a reply, or work that takes time and ends in another step."""

    reply: bytes = b""
    then: Next = Next.COMMAND
    work: "Coroutine[Any, Any, Step] | None" = None
    chunk_bytes: int = 0


@dataclass(slots=True)
class Client:
    """A client that has signed in. All its messages have the request id of its connection."""

    key: str
    request_id: str


class Submitter(Protocol):
    max_bytes: int

    async def sign_in(self, user: str, key: str, address: str) -> None:
        """Raise unless this API key may send."""
        ...

    async def find_caller(self, client: Client) -> Caller:
        """Return who the client is. The key may have been revoked since it signed in."""
        ...

    async def submit(self, client: Client, envelope: Envelope, content: bytes) -> bytes:
        """Store an email durably, and return the reply with the ids of its messages."""
        ...
