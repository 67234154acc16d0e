"""What the HTTP API is made of, and how a route gets at it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from mailwright.domain.clock import Clock
from mailwright.outbox.intake import Intake
from mailwright.outbox.operate import Operations
from mailwright.outbox.queue import QueueGauges
from mailwright.sources.api.keys import Keys
from mailwright.sources.api.mail import Mail
from mailwright.storage.database import Database


@dataclass(frozen=True)
class ApiParts:
    """Built once by the application; the rest of the API's own parts follow from these."""

    database: Database
    clock: Clock
    intake: Intake
    public_url: str
    # Where a worker runs in the same process: readiness then includes it. None where workers run elsewhere.
    is_worker_alive: Callable[[], bool] | None = None
    keys: Keys = field(init=False)
    mail: Mail = field(init=False)
    operations: Operations = field(init=False)
    gauges: QueueGauges = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", Keys(self.database, self.clock))
        object.__setattr__(self, "mail", Mail(self.database, self.clock, self.intake))
        object.__setattr__(self, "operations", Operations(self.database, self.clock))
        object.__setattr__(self, "gauges", QueueGauges(self.database, self.clock))


def parts_of(request: Request) -> ApiParts:
    parts: ApiParts = request.app.state.parts
    return parts


async def _parts(request: Request) -> ApiParts:
    return parts_of(request)


Parts = Annotated[ApiParts, Depends(_parts)]
