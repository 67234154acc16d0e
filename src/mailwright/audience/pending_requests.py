"""End requests to subscribe that nobody has confirmed yet, because the contact said no since.

The newest wish counts: the links of earlier confirmation emails subscribe nobody any more, and those that are not sent
yet are cancelled. A request after the no starts again with a new email.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mailwright.domain.clock import Instant
from mailwright.outbox.operations import cancel_or_expire
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

END_PENDING = statement(__package__, "end_pending")
UNSENT_CONFIRMATIONS = statement(__package__, "unsent_confirmations")

# The request IDs of confirmation emails begin with this and the list.
CONFIRMATION_PREFIX: Final = "opt-in-"


async def end_pending(tx: Runner, facts: Sequence[Mapping[str, Any]], now: Instant) -> None:
    """End the requests of contacts that are not younger than their unsubscribe or complaint."""
    if not facts:
        return
    ended = [(row.contact_key, row.list_key) for row in await tx.run(END_PENDING, facts=facts)]
    if ended:
        await cancel_or_expire(tx, await tx.run(UNSENT_CONFIRMATIONS, ended=ended, prefix=CONFIRMATION_PREFIX), now)
