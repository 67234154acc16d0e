"""The `ses` provider: one message is one signed request of the v2 API. It never raises."""

from functools import partial
from urllib.parse import urlsplit

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import ConfigurationInvalid, setting_problem
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult
from mailwright.domain.translation import lazy_gettext
from mailwright.providers.aws import AwsKeyChain, AwsKeys, AwsKeysMissing, AwsSigner
from mailwright.providers.callbacks import OVER, future_of, run_with_callback, translating_callback
from mailwright.providers.http import Disconnect, HttpClient, HttpResponse
from mailwright.providers.protocol import AccountQuota, ProviderCheck, ResultCallback, SendHandle
from mailwright.providers.purpose import without_purpose
from mailwright.providers.reading_settings import about, missing_setting
from mailwright.providers.ses import account, request, responses
from mailwright.providers.ses.kind import SesFields
from mailwright.providers.ses.settings import SesSettings

SEND = "/v2/email/outbound-emails"
ACCOUNT = "/v2/email/account"
SERVICE = "ses"
JSON = {"Content-Type": "application/json"}
MAX_BYTES = 40 * 1024 * 1024  # The maximum size of a message after base64 encoding.


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
        """Create the provider. `reports_events`: SES publishes its events to Mailwright."""
        self.reports_events = reports_events
        self._settings = settings
        self._url = settings.url
        self._host = urlsplit(settings.url).netloc
        self._http = http
        self._clock = clock
        self._keys = keys or AwsKeyChain(clock)
        self._signer = AwsSigner(SERVICE, settings.region)

    @property
    def capacity(self) -> int:
        return self._http.connections

    @property
    def bulk_capacity(self) -> int:
        return self._http.connections

    def send_with_callback(self, message: OutgoingMessage, on_result: ResultCallback) -> SendHandle:
        keys = self._keys.at_hand()
        return (
            run_with_callback(self.send(message), on_result) if keys is None else self._post(keys, message, on_result)
        )

    async def send(self, message: OutgoingMessage) -> SendResult:
        try:
            keys = await self._keys.keys()
        except AwsKeysMissing as error:
            return responses.KEYS_MISSING.result(str(error))
        return await future_of(partial(self._post, keys), message)

    def _post(self, keys: AwsKeys, message: OutgoingMessage, on_result: ResultCallback) -> SendHandle:
        body = request.build_body(message, self._settings.configuration_set)
        if (refusal := _find_problem(message, body)) is not None:
            on_result(refusal)
            return OVER
        url = self._url + SEND
        return self._http.post(
            url,
            translating_callback(partial(self._interpret, message), self.name, message, on_result),
            headers=self._signer.sign(keys, "POST", url, headers=JSON, body=body, now=self._clock.now()),
            body=body,
            timeout_seconds=self._settings.timeout_seconds,
            may_begin=lambda: not self._is_late(message),
        )

    def _interpret(self, message: OutgoingMessage, reply: HttpResponse | Disconnect) -> SendResult:
        match reply:
            case HttpResponse():
                return self._check_credentials(responses.interpret_response(reply, message))
            case Disconnect() if not reply.is_in_doubt and self._is_late(message):
                return responses.LOCK_EXPIRED.result("The lease on this message ended before it was sent.")
            case Disconnect():
                return responses.interpret_disconnect(reply)

    async def check(self) -> ProviderCheck:
        """Check the account by reading it. Nothing is sent."""
        quota = await self._account()
        if isinstance(quota, SendResult):
            return ProviderCheck(False, f"{self._host}: {quota.message}", quota.code)
        is_ok = quota.is_sending_enabled
        return ProviderCheck(
            is_ok, f"{self._host}: {account.summary(quota)}", None if is_ok else "SES_ACCOUNT_SENDING_PAUSED"
        )

    async def quota(self) -> AccountQuota | None:
        """Return the quota, or None if it is unknown now. SES allows about one such request per second."""
        quota = await self._account()
        return quota if isinstance(quota, AccountQuota) else None

    async def close(self, grace: Instant = 0) -> None:
        """Do nothing, because the owner of `http` closes the connections, and each send in flight returns a result."""

    async def _account(self) -> AccountQuota | SendResult:
        try:
            keys = await self._keys.keys()
        except AwsKeysMissing as error:
            return responses.KEYS_MISSING.result(str(error))
        url = self._url + ACCOUNT
        headers = self._signer.sign(keys, "GET", url, headers=JSON, body=b"", now=self._clock.now())
        reply = await self._http.request("GET", url, headers=headers, timeout_seconds=self._settings.timeout_seconds)
        if isinstance(reply, Disconnect):
            return responses.interpret_disconnect(reply)
        if reply.status != 200:
            return self._check_credentials(responses.interpret_rejection(reply))
        return account.parse_quota(reply.body) or responses.UNKNOWN.result("the response is not an SES account")

    def _check_credentials(self, result: SendResult) -> SendResult:
        if result.code in responses.ABOUT_KEYS:
            self._keys.forget()
        return result

    def _is_late(self, message: OutgoingMessage) -> bool:
        return message.send_before is not None and self._clock.now() >= message.send_before


def _find_problem(message: OutgoingMessage, body: bytes) -> SendResult | None:
    """Return the reason if SES would certainly reject the message, without a request; otherwise None."""
    if len(message.recipients) > request.MAX_RECIPIENTS:
        return responses.TOO_MANY_RECIPIENTS.result(
            f"SES accepts at most {request.MAX_RECIPIENTS} recipients per message"
        )
    if not "".join((message.sender, *message.recipients)).isascii():
        return responses.UTF8_UNSUPPORTED.result("SES accepts only ASCII addresses")
    if len(body) > MAX_BYTES:
        return responses.TOO_LARGE.result(f"SES accepts at most {MAX_BYTES:,} bytes")
    return None


def read_settings(settings: SesFields) -> SesSettings:
    if settings.aws_region is None:
        raise missing_setting("AWS_REGION", "ses", settings)
    if (settings.aws_access_key_id is None) != (settings.aws_secret_access_key is None):
        raise ConfigurationInvalid(
            setting_problem("AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY", lazy_gettext("set both, or neither"))
        )
    url = settings.ses_url
    with about("AWS_REGION, SES_CONFIGURATION_SET, MAILWRIGHT_SES_URL"):
        return SesSettings(
            settings.aws_region, None if url is None else without_purpose(url), settings.ses_configuration_set
        )


def read_keys(settings: SesFields, clock: Clock) -> AwsKeyChain:
    key, secret = settings.aws_access_key_id, settings.aws_secret_access_key
    given = AwsKeys(key, secret.get_secret_value()) if key is not None and secret is not None else None
    return AwsKeyChain(clock, given=given)


def make_provider(settings: SesFields, clock: Clock, http: HttpClient, *, reports_events: bool) -> Ses:
    return Ses(read_settings(settings), http, clock, read_keys(settings, clock), reports_events=reports_events)
