"""An SES stand-in: it checks signatures and members, records messages and rejects as SES does.

async with SesStandIn() as ses:
    ses.refuse("TooManyRequestsException", 429, "Maximum sending rate exceeded.", nth=1)
    ...
    assert ses.messages[0].content == content
"""

import asyncio
import calendar
import hmac
import re
import time
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from mailwright.domain.clock import Clock, SystemClock
from tests.standins.http import Answer, HttpStandIn, Request, json_answer
from tests.standins.options import StandInOptions, misbehave
from tests.standins.sns import TOPIC, certificates

ACCESS_KEY = "AKIASTANDIN000000000"
SECRET_KEY = "stand-in/not+a/secret"
REGION = "eu-west-1"
SEND, ACCOUNT = "/v2/email/outbound-emails", "/v2/email/account"

MOST_RECIPIENTS = 50
MOST_BYTES = 40 * 1024 * 1024
SKEW_SECONDS = 5 * 60

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/ ,]+)/(\d{8})/([^/ ,]+)/([^/ ,]+)/aws4_request, "
    r"SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})"
)
_MOMENT = re.compile(r"\d{8}T\d{6}Z")
_TAG = re.compile(r"[A-Za-z0-9_-]{1,256}")
_ADDRESS = re.compile(r"[!#-'*+/-9=?A-Z^-~.-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")

# The allowed members and their JSON types; a dict is an object, a list of one a list of such values.
DESTINATION = {"ToAddresses": [str], "CcAddresses": [str], "BccAddresses": [str]}
RAW = {"Data": str}
CONTENT = {"Raw": RAW}
TAG = {"Name": str, "Value": str}
SEND_EMAIL: dict[str, Any] = {
    "FromEmailAddress": str,
    "FromEmailAddressIdentityArn": str,
    "Destination": DESTINATION,
    "ReplyToAddresses": [str],
    "FeedbackForwardingEmailAddress": str,
    "FeedbackForwardingEmailAddressIdentityArn": str,
    "Content": CONTENT,
    "EmailTags": [TAG],
    "ConfigurationSetName": str,
    "EndpointId": str,
    "TenantName": str,
    "ListManagementOptions": {"ContactListName": str, "TopicName": str},
}


@dataclass(frozen=True, slots=True)
class SesMail:
    message_id: str
    sender: str  # Of the From header.
    feedback: str | None
    recipients: tuple[str, ...]
    content: bytes
    tags: dict[str, str]
    configuration_set: str | None


class Refusal(Exception):
    def __init__(self, name: str, status: int, message: str) -> None:
        super().__init__(name)
        self.answer = refusal(name, status, message)


def refusal(name: str, status: int, message: str) -> Answer:
    """Return an error as SES sends it: the name in a header, the text in the body."""
    return json_answer(status, {"message": message}, x_amzn_ErrorType=name)


# An error for each status of SES itself; other statuses come from a gateway without a body.
ERRORS = {
    400: ("BadRequestException", "The request is not as it must be."),
    403: ("AccessDeniedException", "User is not authorized to perform: ses:SendEmail"),
    404: ("NotFoundException", "Configuration set <events> does not exist."),
    429: ("TooManyRequestsException", "Maximum sending rate exceeded."),
    500: ("InternalServiceErrorException", "The request processing has failed because of an unknown error."),
    503: ("ServiceUnavailable", "The request has failed due to a temporary failure of the server."),
}


def refused(status: int) -> Answer:
    return refusal(ERRORS[status][0], status, ERRORS[status][1]) if status in ERRORS else Answer(status)


@dataclass(slots=True)
class SesAccount:
    """The state of the account, which tests can change."""

    max_24_hour_send: float = 50_000.0
    max_send_rate: float = 14.0
    is_sending_enabled: bool = True
    is_in_production: bool = True
    enforcement: str = "HEALTHY"
    verified: set[str] | None = None  # Addresses and domains; None means all.
    configuration_sets: set[str] = field(default_factory=lambda: {"events"})
    suppressed: set[str] = field(default_factory=set)  # Recipients whose messages are rejected.

    def is_verified(self, address: str) -> bool:
        return self.verified is None or bool({address, address.rpartition("@")[2]} & self.verified)


class SesStandIn(HttpStandIn):
    def __init__(
        self,
        *,
        clock: Clock | None = None,
        token: str | None = None,  # Set for credentials of a role.
        announce: Callable[[SesMail], None] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.account = SesAccount()
        self.messages: list[SesMail] = []
        self._clock = clock or SystemClock()
        self._token = token
        self._announce = announce or (lambda message: None)

    def refuse(self, name: str, status: int, message: str, *, nth: int | None = None, times: int | None = None) -> None:
        self.answer(refusal(name, status, message), nth=nth, times=times)

    def usual(self, request: Request) -> Answer:
        try:
            self._check_signature(request)
            match request.method, request.path:
                case "POST", path if path == SEND:
                    return json_answer(200, {"MessageId": self._take(request).message_id})
                case "GET", path if path == ACCOUNT:
                    return json_answer(200, self._describe())
                case _:
                    raise Refusal("UnknownOperationException", 404, "")
        except Refusal as refused:
            return refused.answer

    # Signature check, implemented from the specification and independent of our signer.

    def _check_signature(self, request: Request) -> None:
        authorization = request.headers.getall("Authorization", [])
        if len(authorization) != 1:
            raise Refusal("MissingAuthenticationTokenException", 403, "Missing Authentication Token")
        if not (parts := _AUTHORIZATION.fullmatch(authorization[0])):
            raise Refusal("IncompleteSignatureException", 403, "Authorization header is not as it must be.")
        access_key, day, region, service, listed, signature = parts.groups()
        token = request.headers.get("X-Amz-Security-Token")
        if access_key != ACCESS_KEY or (token is None) != (self._token is None):
            raise Refusal("UnrecognizedClientException", 403, "The security token included in the request is invalid.")
        if token != self._token:
            raise Refusal("ExpiredTokenException", 403, "The security token included in the request is expired")
        if (region, service) != (REGION, "ses"):
            raise Refusal("InvalidSignatureException", 403, f"Credential should be scoped to {REGION}/ses.")
        names = listed.split(";")
        needed = {"host", "x-amz-date"} | {name.lower() for name in request.headers if name.lower().startswith("x-amz")}
        if names != sorted(set(names)) or not needed <= set(names):
            raise Refusal("InvalidSignatureException", 403, "Some headers must be signed and are not.")
        moment = request.headers.get("X-Amz-Date", "")
        self._check_moment(moment, day)
        lines = [f"{name}:{' '.join(','.join(request.headers.getall(name)).split())}\n" for name in names]
        body = sha256(request.body).hexdigest()
        canonical = "\n".join([request.method, request.path, request.query, "".join(lines), listed, body])
        if not hmac.compare_digest(_signature(canonical, moment, region, service), signature):
            raise Refusal(
                "InvalidSignatureException",
                403,
                "The request signature we calculated does not match the signature you provided. Check your AWS Secret "
                "Access Key and signing method.\n\n"
                f"The Canonical String for this request should have been\n'{canonical}'",
            )

    def _check_moment(self, moment: str, day: str) -> None:
        if not _MOMENT.fullmatch(moment) or moment[:8] != day:
            raise Refusal("IncompleteSignatureException", 403, "Date must be in ISO-8601 'basic format'.")
        signed_at = calendar.timegm(time.strptime(moment, "%Y%m%dT%H%M%SZ"))
        if abs(signed_at - self._clock.now() / 1000) > SKEW_SECONDS:
            raise Refusal("RequestExpired", 403, f"Signature expired: {moment}")

    # The message.

    def _take(self, request: Request) -> SesMail:
        if request.headers.get("Content-Type", "").partition(";")[0] != "application/json":
            raise Refusal("UnknownOperationException", 404, "")
        try:
            document = request.json()
        except ValueError as error:
            raise Refusal("SerializationException", 400, "The body is not JSON.") from error
        for problem in problems(document, SEND_EMAIL):
            raise Refusal("BadRequestException", 400, problem)
        message = self._mail(document)
        self._check_account(message)
        self.messages.append(message)
        self._announce(message)
        return message

    def _mail(self, document: Mapping[str, Any]) -> SesMail:
        encoded = document.get("Content", {}).get("Raw", {}).get("Data")
        if encoded is None:
            raise Refusal("BadRequestException", 400, "Content.Raw.Data is required here.")
        if len(encoded) > MOST_BYTES:
            raise Refusal("BadRequestException", 400, "Message length is more than 41943040 bytes long.")
        try:
            content = b64decode(encoded, validate=True)
        except NotBase64 as error:
            raise Refusal("SerializationException", 400, "Content.Raw.Data is not base64.") from error
        destination = document.get("Destination", {})
        recipients = tuple(address for kind in DESTINATION for address in destination.get(kind, ()))
        if not recipients:
            raise Refusal("BadRequestException", 400, "There is no recipient.")
        if len(recipients) > MOST_RECIPIENTS:
            raise Refusal("BadRequestException", 400, "Recipient count exceeds 50.")
        feedback = document.get("FeedbackForwardingEmailAddress")
        for address in (*recipients, *([feedback] if feedback is not None else [])):
            if not _ADDRESS.fullmatch(address):
                raise Refusal("BadRequestException", 400, f"Illegal address: {address}")
        tags = {tag["Name"]: tag["Value"] for tag in document.get("EmailTags", [])}
        if not all(_TAG.fullmatch(text) for pair in tags.items() for text in pair):
            raise Refusal("BadRequestException", 400, "A tag holds letters, digits, _ and - only.")
        return SesMail(
            f"0102{len(self.messages):012x}-stand-in-000000",
            document.get("FromEmailAddress") or _from(content),
            feedback,
            recipients,
            content,
            tags,
            document.get("ConfigurationSetName"),
        )

    def _check_account(self, message: SesMail) -> None:
        account = self.account
        if not account.is_sending_enabled or account.enforcement == "SHUTDOWN":
            raise Refusal("SendingPausedException", 400, "Email sending is disabled for this account.")
        if message.configuration_set is not None and message.configuration_set not in account.configuration_sets:
            raise Refusal("NotFoundException", 404, f"Configuration set <{message.configuration_set}> does not exist.")
        checked = [message.sender, *([message.feedback] if message.feedback else [])]
        checked += [] if account.is_in_production else message.recipients
        unverified = [address for address in checked if not account.is_verified(address)]
        if unverified:
            raise Refusal(
                "MessageRejected",
                400,
                "Email address is not verified. The following identities failed the check in region "
                f"{REGION.upper()}: {', '.join(dict.fromkeys(unverified))}",
            )
        if account.suppressed.intersection(message.recipients):
            raise Refusal("MessageRejected", 400, "Email address is on the suppression list.")
        if self._sent() + len(message.recipients) > account.max_24_hour_send >= 0:
            raise Refusal("TooManyRequestsException", 429, "Daily message quota exceeded.")

    def _sent(self) -> int:
        return sum(len(message.recipients) for message in self.messages)

    def _describe(self) -> dict[str, Any]:
        account = self.account
        return {
            "DedicatedIpAutoWarmupEnabled": False,
            "EnforcementStatus": account.enforcement,
            "ProductionAccessEnabled": account.is_in_production,
            "SendQuota": {
                "Max24HourSend": account.max_24_hour_send,
                "MaxSendRate": account.max_send_rate,
                "SentLast24Hours": float(self._sent()),
            },
            "SendingEnabled": account.is_sending_enabled,
        }


async def serve(host: str, port: int, asked: StandInOptions) -> None:
    """Serve until interrupted; print the settings to use and every accepted message."""

    def announce(message: SesMail) -> None:
        print(f"{message.message_id}  {', '.join(message.recipients)}  {len(message.content):,} bytes", flush=True)

    async with SesStandIn(host=host, port=port, announce=announce) as ses:
        misbehave(ses, asked, SEND, refused)
        print(f"SES stands in at {ses.url}. For `mailwright serve`, set:")
        print("  export MAILWRIGHT_PROVIDER=ses MAILWRIGHT_FROM=news@example.com")
        print(f"  export MAILWRIGHT_SES_URL={ses.url} AWS_REGION={REGION}")
        print(f"  export AWS_ACCESS_KEY_ID={ACCESS_KEY} AWS_SECRET_ACCESS_KEY={SECRET_KEY}")
        print("and, to believe the events that `python -m tests.standins sns` posts from the same folder:")
        print(f"  export MAILWRIGHT_SNS_CERTS={certificates()} SNS_TOPIC_ARNS={TOPIC}", flush=True)
        await asyncio.Event().wait()


def problems(document: Any, expected: Any, place: str = "") -> Iterator[str]:
    """Return unknown members and values of a wrong type."""
    if isinstance(expected, Mapping):
        if not isinstance(document, Mapping):
            yield f"{place or 'the body'} must be an object"
            return
        for name, value in document.items():
            if name not in expected:
                yield f"{place}{name} is not known"
            else:
                yield from problems(value, expected[name], f"{place}{name}.")
        required = {"Raw": ("Data",), "EmailTags": ("Name", "Value")}.get(place.rstrip(".").rpartition(".")[2], ())
        yield from (f"{place}{name} is missing" for name in required if name not in document)
    elif isinstance(expected, Sequence):
        if not isinstance(document, list):
            yield f"{place} must be a list"
            return
        for value in document:
            yield from problems(value, expected[0], place)
    elif not isinstance(document, expected):
        yield f"{place} must be of another type"


def _signature(canonical: str, moment: str, region: str, service: str) -> str:
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{SECRET_KEY}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), sha256).digest()
    return key.hex()


def _from(content: bytes) -> str:
    """Return the From address of the message, which SES uses if the request names none."""
    head = re.sub(rb"\r\n[ \t]+", b" ", content.partition(b"\r\n\r\n")[0])
    line = re.search(rb"^From:(.*)$", head, re.IGNORECASE | re.MULTILINE)
    if line is None or not (address := re.search(r"<?([^<>\s]+@[^<>\s]+?)>?\s*$", line[1].decode("ascii", "replace"))):
        raise Refusal("BadRequestException", 400, "Missing required header 'From'.")
    return address[1]
