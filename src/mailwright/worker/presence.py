"""The state of a provider as a worker reports it to other processes."""

from mailwright.domain.clock import SECOND, Instant, utc_text
from mailwright.domain.retry import LONGEST_OUTAGE_DELAY
from mailwright.outbox.workers import WorkerPresence
from mailwright.providers.route import RouteMember

# A provider that has not responded for this long is reported as unavailable, although its timeouts are longer.
STALLED_AFTER: Instant = 4 * SECOND
# After its pause, a provider stays unavailable until a probe succeeds. If there is no message to probe with, it counts
# as available after this time.
IDLE_PROBE_GRACE: Instant = 5 * SECOND


def provider_presence(
    member: RouteMember,
    unanswered_since: Instant | None,
    *,
    sent: int,
    now: Instant,
    learned_rate: float | None = None,
) -> WorkerPresence:
    """Return the state of a provider. `unanswered_since` is the start of its silence if messages are in flight."""
    outage = member.breaker.outage()
    if outage is not None and (unanswered_since is not None or now < outage.until + IDLE_PROBE_GRACE):
        explanation = member.breaker.explanation
        return WorkerPresence(member.name, outage.until, explanation, sent=sent, defer_reason=outage.reason)
    if unanswered_since is not None and now - unanswered_since >= STALLED_AFTER:
        explanation = f"NO_RESPONSE: no response since {utc_text(unanswered_since)}"
        return WorkerPresence(member.name, unanswered_since + LONGEST_OUTAGE_DELAY, explanation, sent=sent)
    return WorkerPresence(member.name, sent=sent, learned_rate=learned_rate)
