"""Read the SES account as a quota and a summary."""

from typing import Any

import orjson

from mailwright.providers.protocol import AccountQuota

UNLIMITED = -1


def parse_quota(body: bytes) -> AccountQuota | None:
    """Return the quota; None if the response does not describe an account."""
    try:
        document: Any = orjson.loads(body)
        allowed = document["SendQuota"]
        limit, rate, used = (float(allowed[name]) for name in ("Max24HourSend", "MaxSendRate", "SentLast24Hours"))
        is_enabled = bool(document["SendingEnabled"])
        is_in_sandbox = not document["ProductionAccessEnabled"]
        enforcement = str(document.get("EnforcementStatus", "HEALTHY"))
    except (orjson.JSONDecodeError, LookupError, TypeError, ValueError):
        return None
    is_limited = limit != UNLIMITED
    return AccountQuota(
        limit_per_day=limit if is_limited else None,
        sent_today=used,
        rate_per_second=rate,
        remaining=max(0.0, limit - used) if is_limited else None,
        is_sending_enabled=is_enabled and enforcement != "SHUTDOWN",
        detail=_condition(is_enabled, is_in_sandbox, enforcement),
    )


def summary(quota: AccountQuota) -> str:
    daily = "without a daily limit" if quota.limit_per_day is None else f"{quota.limit_per_day:,.0f} in 24 hours"
    condition = f"; {quota.detail}" if quota.detail else ""
    return f"{quota.rate_per_second:g} messages per second, {daily}, {quota.sent_today:,.0f} sent{condition}"


def _condition(is_enabled: bool, is_in_sandbox: bool, enforcement: str) -> str:
    """Describe what restricts the account; empty if nothing does."""
    if enforcement == "SHUTDOWN":
        return "Amazon has paused sending for this account"
    if not is_enabled:
        return "sending is paused for this account"
    notes = []
    if enforcement == "PROBATION":
        notes.append("the account is under review, and Amazon may pause it")
    if is_in_sandbox:
        notes.append("in the sandbox: only verified addresses receive messages")
    return "; ".join(notes)
