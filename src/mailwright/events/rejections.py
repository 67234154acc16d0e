"""Record bounces that an SMTP server reports during the send, in the same way as other reports."""

from collections.abc import Sequence

from mailwright.audience.status import SoftBounces
from mailwright.domain.bounce import BounceKind
from mailwright.domain.clock import Instant
from mailwright.domain.message import Outcome, Settlement
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.results import BouncedCopy
from mailwright.domain.states import EventType
from mailwright.events.reports import take
from mailwright.storage.hot import Runner

VERDICTS = {BounceKind.HARD: ContactVerdict.HARD_BOUNCE, BounceKind.SOFT: ContactVerdict.SOFT_BOUNCE}


class SmtpRejections:
    """Records bounces in the transaction that settles the messages. The outbox calls this class."""

    def __init__(self, soft: SoftBounces | None = None) -> None:
        self._soft = soft or SoftBounces()

    async def __call__(self, tx: Runner, outcomes: Sequence[Outcome], now: Instant) -> None:
        reports = [
            _report(outcome, outcome.bounce, now)
            for outcome in outcomes
            if isinstance(outcome, Settlement) and outcome.bounce is not None
        ]
        reports += [_copy_report(outcome, copy, now) for outcome in outcomes for copy in outcome.bounced_copies]
        await take(tx, reports, self._soft, now, proves=False)


def _report(settlement: Settlement, bounce: BounceKind, now: Instant) -> Report:
    claimed = settlement.claimed
    return Report(
        # The key must be the same if the transaction is retried.
        key=f"attempt:{claimed.outbox_id}:{claimed.attempt}",
        source=settlement.provider or "smtp",
        type=EventType.BOUNCED,
        at=now,
        recipient=claimed.to_email,
        outbox_id=claimed.outbox_id,
        verdict=VERDICTS[bounce],
        bounce_type=bounce,
        bounce_subtype=settlement.error_code,
        metadata={"attempt": claimed.attempt, "errorMessage": settlement.error_reason},
    )


def _copy_report(outcome: Outcome, copy: BouncedCopy, now: Instant) -> Report:
    claimed = outcome.claimed
    return Report(
        key=f"attempt:{claimed.outbox_id}:{claimed.attempt}:{copy.address}",
        source=outcome.provider or "smtp",
        type=EventType.BOUNCED,
        at=now,
        recipient=copy.address,
        outbox_id=claimed.outbox_id,
        verdict=VERDICTS[copy.bounce],
        bounce_type=copy.bounce,
        bounce_subtype=copy.code,
        metadata={"attempt": claimed.attempt, "errorMessage": copy.message},
    )
