"""Count messages that are sent without a campaign towards what a person may send without an approval.

Otherwise a person could reach any number of recipients with messages to a list, in single requests, batches, over SMTP
or as an agent, without a second person.
"""

from collections.abc import Sequence

from mailwright.domain.clock import Clock
from mailwright.domain.message import NewMessage
from mailwright.domain.translation import lazy_gettext, lazy_number, lazy_text, ngettext
from mailwright.outbox.accept import Acceptor
from mailwright.sources.campaigns.approval_gate import AwaitsApproval
from mailwright.sources.campaigns.unapproved_sends import add_unapproved_messages
from mailwright.sources.send_approvals import find_limit
from mailwright.storage.database import Database


class MessageApprovals:
    def __init__(self, database: Database, clock: Clock, acceptor: Acceptor) -> None:
        self._database = database
        self._clock = clock
        self._acceptor = acceptor

    async def find_refusal(
        self, messages: Sequence[NewMessage], *, actor: str, is_person: bool
    ) -> AwaitsApproval | None:
        """Return why these messages of one tenant must not be accepted. If they may be, count them and return None.

        Messages to a list count. If `is_person`, a signed-in person sends them, and all of them count. Messages that
        were accepted before do not count again.
        """
        counted = [each for each in messages if is_person or each.is_bulk]
        if not counted:
            return None
        tenant_id = counted[0].tenant_id
        async with self._database.read() as tx:
            over = await find_limit(tx, tenant_id)
        if over is None:
            return None
        recipients = sum(_count_recipients(each) for each in await self._without_replays(tenant_id, counted))
        if not recipients:
            return None
        async with self._database.write() as tx:
            earlier = await add_unapproved_messages(
                tx, self._clock.now(), tenant_id, recipients, over=over, actor=actor
            )
        return None if earlier + recipients <= over else _refusal(recipients, earlier, over)

    async def _without_replays(self, tenant_id: int, messages: Sequence[NewMessage]) -> list[NewMessage]:
        digests = {each.dedupe_key: each.body_digest or "" for each in messages if each.dedupe_key is not None}
        known = await self._acceptor.find_accepted(tenant_id, digests)
        return [each for each in messages if each.dedupe_key not in known]


def _count_recipients(message: NewMessage) -> int:
    return 1 + len(message.payload.get("cc") or ()) + len(message.payload.get("bcc") or ())


def _refusal(recipients: int, earlier: int, over: int) -> AwaitsApproval:
    reason = lazy_gettext(
        "These messages would reach {people}. Without an approval, this user or API key may reach at most {over} in 24 "
        "hours, and has already reached {earlier}. Send them as a campaign, which a second person can approve.",
        people=lazy_text(lambda: ngettext("{count} person", "{count} people", recipients)),
        over=lazy_number(over),
        earlier=lazy_number(earlier),
    )
    return AwaitsApproval("{why}", why=reason)
