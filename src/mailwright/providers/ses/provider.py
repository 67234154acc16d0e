"""The `ses` provider: one message is one signed request of the v2 API. It never raises."""

from functools import partial
from urllib.parse import urlsplit

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult
from mailwright.providers.aws import AwsKeyChain, AwsKeys, AwsKeysMissing, AwsSigner
from mailwright.providers.callbacks import OVER, future_of, run_with_callback, translating_callback
from mailwright.providers.http import Disconnect, HttpClient, HttpResponse
from mailwright.providers.protocol import AccountQuota, ProviderCheck, ResultCallback, SendHandle
from mailwright.providers.ses import account, request, responses
from mailwright.providers.ses.settings import SesSettings

SEND = "/v2/email/outbound-emails"
ACCOUNT = "/v2/email/account"
SERVICE = "ses"
JSON = {"Content-Type": "application/json"}
MOST_BYTES = 40 * 1024 * 1024  # Of a message after base64.


class Ses:
    name = responses.PROVIDER

    def __init__(
        self,
        settings: SesSettings,
        http: HttpClient,
        clock: Clock,
        keys: AwsKeyChain | None = None,
        *,
        reports_events: bool = True,
    ) -> None:
        """`reports_events`: whether SES publishes its events to us."""
        self.reports_events = reports_events
        self._settings = settings
        self._url = settings.url
        self._host = urlsplit(settings.url).netloc
        self._http = http
        self._clock = clock
        self._keys = keys or AwsKeyChain(clock)
        self._signer = AwsSigner(SERVICE, settings.region)

    def send_with_callback(self, message: OutgoingMessage, answered: ResultCallback) -> SendHandle:
        keys = self._keys.at_hand()
        return run_with_callback(self.send(message), answered) if keys is None else self._carry(keys, message, answered)

    async def send(self, message: OutgoingMessage) -> SendResult:
        try:
            keys = await self._keys.keys()
        except AwsKeysMissing as error:
            return responses.KEYS_MISSING.result(str(error))
        return await future_of(partial(self._carry, keys), message)

    def _carry(self, keys: AwsKeys, message: OutgoingMessage, answered: ResultCallback) -> SendHandle:
        body = request.body(message, self._settings.configuration_set)
        if (refusal := _objection(message, body)) is not None:
            answered(refusal)
            return OVER
        url = self._url + SEND
        return self._http.post(
            url,
            translating_callback(partial(self._meaning, message), self.name, message, answered),
            headers=self._signer.sign(keys, "POST", url, headers=JSON, body=body, now=self._clock.now()),
            body=body,
            timeout_seconds=self._settings.timeout_seconds,
            may_begin=lambda: not self._is_late(message),
        )

    def _meaning(self, message: OutgoingMessage, reply: HttpResponse | Disconnect) -> SendResult:
        match reply:
            case HttpResponse():
                return self._noted(responses.answered(reply, message))
            case Disconnect() if not reply.is_in_doubt and self._is_late(message):
                return responses.LOCK_EXPIRED.result("The lease on this message ended before it was sent.")
            case Disconnect():
                return responses.cut(reply)

    async def check(self) -> ProviderCheck:
        """Request the account, which sends nothing."""
        asked = await self._account()
        if isinstance(asked, SendResult):
            return ProviderCheck(False, f"{self._host}: {asked.message}", asked.code)
        is_ok = asked.is_sending_enabled
        return ProviderCheck(
            is_ok, f"{self._host}: {account.summary(asked)}", None if is_ok else "SES_ACCOUNT_SENDING_PAUSED"
        )

    async def quota(self) -> AccountQuota | None:
        """Return the quota; None if it is unknown now. SES answers this about once a second."""
        asked = await self._account()
        return asked if isinstance(asked, AccountQuota) else None

    async def close(self, grace: Instant = 0) -> None:
        """Every send ends with its own result; the owner of `http` closes the connections."""

    async def _account(self) -> AccountQuota | SendResult:
        try:
            keys = await self._keys.keys()
        except AwsKeysMissing as error:
            return responses.KEYS_MISSING.result(str(error))
        url = self._url + ACCOUNT
        headers = self._signer.sign(keys, "GET", url, headers=JSON, body=b"", now=self._clock.now())
        reply = await self._http.request("GET", url, headers=headers, timeout_seconds=self._settings.timeout_seconds)
        if isinstance(reply, Disconnect):
            return responses.cut(reply)
        if reply.status != 200:
            return self._noted(responses.refused(reply))
        return account.read(reply.body) or responses.UNKNOWN.result("the response is not an SES account")

    def _noted(self, result: SendResult) -> SendResult:
        if result.code in responses.ABOUT_KEYS:
            self._keys.forget()
        return result

    def _is_late(self, message: OutgoingMessage) -> bool:
        return message.send_before is not None and self._clock.now() >= message.send_before


def _objection(message: OutgoingMessage, body: bytes) -> SendResult | None:
    """Reject what SES is known to reject, without a request."""
    if len(message.recipients) > request.MOST_RECIPIENTS:
        return responses.TOO_MANY_RECIPIENTS.result(
            f"SES accepts at most {request.MOST_RECIPIENTS} recipients per message"
        )
    if not "".join((message.sender, *message.recipients)).isascii():
        return responses.UTF8_UNSUPPORTED.result("SES accepts only ASCII addresses")
    if len(body) > MOST_BYTES:
        return responses.TOO_LARGE.result(f"SES accepts at most {MOST_BYTES:,} bytes")
    return None
