"""The `smtpbz` provider: it sends over smtp.bz's SMTP server and reads the quota from its API."""

import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

import orjson
from pydantic import SecretStr

from mailwright.domain.clock import HOUR, Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.results import ErrorCategory, ResultKind, SendResult
from mailwright.domain.translation import lazy_gettext
from mailwright.providers.api_provider import require_https, require_key
from mailwright.providers.http import Disconnect, HttpClient
from mailwright.providers.protocol import AccountQuota, ProviderCheck
from mailwright.providers.reading_settings import about, read_smtp_url
from mailwright.providers.route import providers_of
from mailwright.providers.smtp.settings import SmtpSettings, Timeouts
from mailwright.providers.smtp_account import SmtpAccount
from mailwright.providers.smtpbz.kind import SmtpBzFields

TIMEOUT_SECONDS = 30.0

# smtp.bz does not document its reply when the hourly or monthly quota is used up. Any rejection that mentions limits is
# treated as a used-up quota, unless it is about the message or the mailbox. The message is deferred to the next hour,
# and no attempt is counted.
OTHER_LIMITS = frozenset({"SMTP_MAILBOX_FULL", "SMTP_MESSAGE_TOO_LARGE", "SMTP_RECIPIENT_REJECTED"})
USED_UP = "SMTPBZ_QUOTA_EXCEEDED"
LIMITS = re.compile(r"\bquota|\blimit|лимит|квот|тариф", re.IGNORECASE)
QUOTA_PAUSE: Instant = HOUR

UNAUTHORIZED = "SMTPBZ_UNAUTHORIZED"
UNKNOWN = "SMTPBZ_UNKNOWN_ANSWER"


@dataclass(frozen=True, slots=True)
class SmtpBzSettings:
    smtp: SmtpSettings  # The settings from smtp://login:password@connect.smtp.bz; the login is not the API key.
    api_key: str | None = field(default=None, repr=False)  # Without the API key, the quota is unknown.
    url: str = "https://api.smtp.bz/v1"
    timeout_seconds: float = TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        if self.api_key is not None:
            require_key(lazy_gettext("smtp.bz API key"), self.api_key)
        require_https("smtp.bz", self.url)


class SmtpBz(SmtpAccount):
    name = "smtpbz"

    def __init__(
        self,
        settings: SmtpBzSettings,
        http: HttpClient,
        *,
        clock: Clock | None = None,
        timeouts: Timeouts | None = None,
        hostname: str | None = None,
    ) -> None:
        super().__init__(settings.smtp, clock=clock, timeouts=timeouts, hostname=hostname)
        self._settings = settings
        self._http = http

    async def quota(self) -> AccountQuota | None:
        """Return the quota; None if it is unknown (`check` reports the reason)."""
        found = await self._account()
        return found if isinstance(found, AccountQuota) else None

    async def check(self) -> ProviderCheck:
        """Check SMTP and the API key. An unavailable API is not an error, because messages are sent over SMTP."""
        probe = await super().check()
        match await self._account():
            case AccountQuota(remaining=0, detail=detail):
                return ProviderCheck(False, f"{probe.summary}; {detail}", probe.code or USED_UP)
            case AccountQuota(detail=detail):
                return ProviderCheck(probe.is_ok, f"{probe.summary}; {detail}", probe.code)
            case ProviderCheck() as problem:
                is_ok = probe.is_ok and problem.code != UNAUTHORIZED
                return ProviderCheck(is_ok, f"{probe.summary}; {problem.summary}", probe.code or problem.code)

    def _interpret(self, result: SendResult) -> SendResult:
        result = super()._interpret(result)
        return _used_up(result) if _is_about_limits(result) else result

    async def _account(self) -> AccountQuota | ProviderCheck:
        key = self._settings.api_key
        if key is None:
            return ProviderCheck(True, "the quota is unknown, because no API key is set")
        reply = await self._http.request(
            "GET",
            f"{self._settings.url.rstrip('/')}/user",
            headers={"Authorization": key},
            timeout_seconds=self._settings.timeout_seconds,
        )
        if isinstance(reply, Disconnect):
            return ProviderCheck(False, f"the quota is unknown: {reply.cause}", "NETWORK_ERROR")
        if reply.status in (401, 403):
            return ProviderCheck(
                False, f"the quota is unknown: {reply.status}, the API key is not accepted", UNAUTHORIZED
            )
        if reply.status != 200:
            return ProviderCheck(False, f"the quota is unknown: the API responded with {reply.status}", UNKNOWN)
        try:
            return _quota(orjson.loads(reply.body))
        except ValueError as error:
            return ProviderCheck(False, f"the quota is unknown: the response is not an account ({error})", UNKNOWN)


def _is_about_limits(result: SendResult) -> bool:
    is_refusal = result.kind in (ResultKind.RETRYABLE, ResultKind.FAILED) and result.original_code is not None
    return is_refusal and result.code not in OTHER_LIMITS and LIMITS.search(result.message or "") is not None


def _used_up(result: SendResult) -> SendResult:
    return replace(
        result,
        kind=ResultKind.RETRYABLE,
        code=USED_UP,
        category=ErrorCategory.QUOTA,
        retry_after=max(QUOTA_PAUSE, result.retry_after or 0),
        blames_provider=False,
        bounce=None,
    )


FIELDS = ("quota", "tarif_quota", "hsent", "hlimit", "dsent", "dlimit")


def _quota(account: Any) -> AccountQuota:
    if not isinstance(account, Mapping):
        raise ValueError("no object")
    numbers = {name: _number(name, account.get(name)) for name in FIELDS}
    if all(number is None for number in numbers.values()):
        raise ValueError("it has no figures")
    return AccountQuota(
        limit_per_day=numbers["dlimit"],
        sent_today=numbers["dsent"],
        rate_per_second=None,
        remaining=numbers["quota"],
        limit_per_hour=numbers["hlimit"],
        sent_this_hour=numbers["hsent"],
        is_sending_enabled=numbers["quota"] != 0,
        detail=_detail(numbers),
        left_in_plan=numbers["quota"],
    )


def _number(name: str, value: Any) -> int | None:
    """Accept numbers, numbers as text, or nothing. Anything else is not an smtp.bz account."""
    match value:
        case None | "":
            return None
        case bool():
            pass
        case int() if value >= 0:
            return value
        case float() if value >= 0 and value.is_integer():
            return int(value)
        case str() if value.isascii() and value.isdigit() and len(value) < 16:
            return int(value)
    raise ValueError(f"{name} is not a number")


def _detail(numbers: Mapping[str, int | None]) -> str:
    left, limit = numbers["quota"], numbers["tarif_quota"]
    parts = [f"{'?' if left is None else left} of {'?' if limit is None else limit} messages left"]
    for period, sent, most in (("hour", "hsent", "hlimit"), ("day", "dsent", "dlimit")):
        if numbers[most] is not None:
            parts.append(f"{numbers[sent] or 0} of {numbers[most]} sent this {period}")
    return ", ".join(parts)


def read_settings(settings: SmtpBzFields) -> SmtpBzSettings:
    smtp = read_smtp_url("smtpbz", *_smtp_url(settings), settings)
    key = settings.smtpbz_api_key
    with about("SMTPBZ_API_KEY, MAILWRIGHT_SMTPBZ_URL"):
        return SmtpBzSettings(smtp, key.get_secret_value() if key else None, settings.smtpbz_url)


def _smtp_url(settings: SmtpBzFields) -> tuple[str, SecretStr | None]:
    """Return SMTPBZ_SMTP_URL, or the general SMTP URL if `smtp` is not in the route."""
    if settings.smtpbz_smtp_url is None and settings.smtp_url is not None and "smtp" not in providers_of(settings):
        return "MAILWRIGHT_SMTP_URL", settings.smtp_url
    return "SMTPBZ_SMTP_URL", settings.smtpbz_smtp_url


def make_provider(settings: SmtpBzFields, clock: Clock, http: HttpClient, *, reports_events: bool) -> SmtpBz:
    return SmtpBz(read_settings(settings), http, clock=clock)
