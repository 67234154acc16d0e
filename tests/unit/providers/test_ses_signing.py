"""Signatures equal botocore's, and the stand-in checks them as strictly as AWS."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.auth import SIGV4_TIMESTAMP, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from botocore.session import Session
from hypothesis import given, settings
from hypothesis import strategies as st

from mailwright.domain.clock import ManualClock, SystemClock
from mailwright.domain.results import ResultKind
from mailwright.providers.aws import AwsKeys, AwsSigner
from mailwright.providers.http import HttpClient, HttpResponse
from tests.examples import examples
from tests.standins.http import Request
from tests.standins.ses import ACCESS_KEY, REGION, SECRET_KEY, SEND, SesStandIn
from tests.unit.providers.ses_builders import CONTENT, READER, a_mail, ses_to

WORDS = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=40)
URLS = st.sampled_from(
    [
        "https://email.eu-west-1.amazonaws.com/v2/email/outbound-emails",
        "https://email.eu-west-1.amazonaws.com:443/v2/email/account",
        "https://email.eu-west-1.amazonaws.com:8443/",
        "http://127.0.0.1:4566/v2/email/outbound-emails",
        "http://[::1]:80/a~b/c d",
        "https://SQS.eu-west-1.amazonaws.com/123456789012/my_queue.fifo",
        "https://example.com",
    ]
)


def botocores(keys: AwsKeys, method: str, url: str, headers: dict[str, str], body: bytes, now: int, *scope: str) -> str:
    """Do what `add_auth` does, at a given time."""
    auth = SigV4Auth(Credentials(keys.access_key, keys.secret_key, keys.token), *scope)
    request = AWSRequest(method, url, headers=dict(headers), data=body)
    request.context["timestamp"] = datetime.fromtimestamp(now // 1000, UTC).strftime(SIGV4_TIMESTAMP)
    auth._modify_request_before_signing(request)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    auth._inject_signature_to_request(request, auth.signature(text, request))
    return str(request.headers["Authorization"])


@settings(max_examples=examples(50), deadline=None)
@given(
    secret=WORDS,
    token=st.none() | WORDS.map(str.strip).filter(bool).map(lambda text: " ".join(text.split())),
    method=st.sampled_from(["POST", "GET"]),
    url=URLS,
    target=WORDS,
    body=st.binary(max_size=2_000),
    now=st.integers(946_684_800_000, 4_102_444_800_000),
    service=st.sampled_from(["ses", "sqs"]),
    region=st.sampled_from(["eu-west-1", "us-gov-west-1"]),
)
def test_signature_equals_that_of_botocore(
    secret: str,
    token: str | None,
    method: str,
    url: str,
    target: str,
    body: bytes,
    now: int,
    service: str,
    region: str,
) -> None:
    keys = AwsKeys("AKIDEXAMPLE", secret, token)
    headers = {"Content-Type": "application/json", "X-Amz-Target": target}
    ours = AwsSigner(service, region).sign(keys, method, url, headers=headers, body=body, now=now)
    assert ours["authorization"] == botocores(keys, method, url, headers, body, now, service, region)


def test_one_signer_handles_many_days_and_keys() -> None:
    signer = AwsSigner("ses", "eu-west-1")
    url = "https://email.eu-west-1.amazonaws.com/v2/email/outbound-emails"
    start = datetime(2027, 2, 27, 23, 59, 58, tzinfo=UTC)
    for number in range(200):
        keys = AwsKeys("AKID", f"secret {number // 7 % 3}", None if number % 2 else "token")
        now = round((start + timedelta(seconds=number * 5_000)).timestamp() * 1000)
        body = b"x" * number
        ours = signer.sign(keys, "POST", url, headers={}, body=body, now=now)["authorization"]
        assert ours == botocores(keys, "POST", url, {}, body, now, "ses", "eu-west-1")


# The stand-in checks signatures.


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda headers: headers | {"authorization": headers["authorization"][:-1] + "x"}, "IncompleteSignature"),
        (lambda headers: headers | {"authorization": headers["authorization"][:-64] + "0" * 64}, "InvalidSignature"),
        (lambda headers: headers | {"content-type": "application/json; charset=utf-8"}, "InvalidSignature"),
        (lambda headers: headers | {"x-amz-date": "20200101T000000Z"}, "IncompleteSignature"),
        (lambda headers: headers | {"x-amz-target": "unsigned"}, "InvalidSignature"),
        (lambda headers: headers | {"x-amz-security-token": "made up"}, "UnrecognizedClient"),
        (lambda headers: {"content-type": "application/json"}, "MissingAuthenticationToken"),
    ],
)
async def test_stand_in_rejects_a_modified_request(
    spoil: Callable[[dict[str, str]], dict[str, str]], code: str
) -> None:
    assert (await _asked(spoil)).headers["x-amzn-ErrorType"] == f"{code}Exception"


async def test_stand_in_accepts_the_unmodified_request() -> None:
    """Send a signed request that lacks one member."""
    assert (await _asked(lambda headers: headers)).headers["x-amzn-ErrorType"] == "BadRequestException"


async def test_stand_in_rejects_an_old_request() -> None:
    clock = ManualClock()
    async with SesStandIn() as stand_in, ses_to(stand_in, clock=clock) as ses:
        assert (await ses.send(a_mail())).code == "SES_KEYS_EXPIRED"


async def _asked(spoil: Callable[[dict[str, str]], dict[str, str]]) -> HttpResponse:
    http = HttpClient()
    async with SesStandIn() as stand_in:
        url = stand_in.url + SEND
        keys, now = AwsKeys(ACCESS_KEY, SECRET_KEY), SystemClock().now()
        headers = {"Content-Type": "application/json"}
        signed = AwsSigner("ses", REGION).sign(keys, "POST", url, headers=headers, body=b"{}", now=now)
        reply = await http.request("POST", url, headers=spoil(signed), body=b"{}")
        await http.close()
    assert isinstance(reply, HttpResponse)
    return reply


# The botocore client with the stand-in.


def amazons_client(stand_in: SesStandIn) -> Any:
    return Session().create_client(
        "sesv2",
        region_name=REGION,
        endpoint_url=stand_in.url,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=Config(retries={"total_max_attempts": 1, "mode": "standard"}, read_timeout=20),
    )


async def test_botocore_client_works_with_the_stand_in() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in, configuration_set="events") as ses:
        client = await asyncio.to_thread(amazons_client, stand_in)
        theirs = await asyncio.to_thread(
            client.send_email,
            Destination={"ToAddresses": [READER]},
            FeedbackForwardingEmailAddress="news@example.com",
            Content={"Raw": {"Data": CONTENT}},
            EmailTags=[{"Name": "mailwright-message", "Value": a_mail().outbox_id}],
            ConfigurationSetName="events",
        )
        ours = await ses.send(a_mail())
        assert ours.kind is ResultKind.SENT
        assert [theirs["MessageId"], ours.provider_message_id] == [message.message_id for message in stand_in.messages]
        by_them, by_us = stand_in.requests
        assert _meant(by_them) == _meant(by_us)

        account = await asyncio.to_thread(client.get_account)
        assert account["SendQuota"] == {"Max24HourSend": 50_000.0, "MaxSendRate": 14.0, "SentLast24Hours": 2.0}
        assert not stand_in.violations


async def test_botocore_client_knows_every_stand_in_error() -> None:
    errors = [
        ("TooManyRequestsException", 429, "Maximum sending rate exceeded."),
        ("LimitExceededException", 400, "Too many."),
        ("AccountSuspendedException", 400, "Suspended."),
        ("SendingPausedException", 400, "Paused."),
        ("MessageRejected", 400, "Email address is not verified."),
        ("MailFromDomainNotVerifiedException", 400, "Not verified."),
        ("NotFoundException", 404, "Configuration set <none> does not exist."),
        ("BadRequestException", 400, "Illegal address"),
    ]
    async with SesStandIn() as stand_in:
        client = await asyncio.to_thread(amazons_client, stand_in)
        for name, status, text in errors:
            stand_in.refuse(name, status, text, times=1)
            with pytest.raises(getattr(client.exceptions, name)) as caught:
                await asyncio.to_thread(client.send_email, Content={"Raw": {"Data": CONTENT}})
            assert caught.value.response["Error"] == {"Code": name, "Message": text}
        assert len(stand_in.requests) == len(errors)


@pytest.mark.parametrize(
    "members",
    [
        {"Content": {}},
        {"Content": {"Raw": {"Data": b"Subject: nobody\r\n\r\n"}}},
        {"Content": {"Raw": {"Data": CONTENT}}, "Destination": {"ToAddresses": []}},
        {"Content": {"Raw": {"Data": CONTENT}}, "Destination": {"ToAddresses": ["no address"]}},
        {"Content": {"Raw": {"Data": CONTENT}}, "Destination": {"ToAddresses": ["käthe@example.org"]}},
        {"Content": {"Raw": {"Data": CONTENT}}, "Destination": {"ToAddresses": ["a@example.org"] * 51}},
        {
            "Content": {"Raw": {"Data": CONTENT}},
            "Destination": {"ToAddresses": [READER]},
            "EmailTags": [{"Name": "to", "Value": READER}],
        },
    ],
)
async def test_stand_in_rejects_like_ses(members: dict[str, Any]) -> None:
    async with SesStandIn() as stand_in:
        client = await asyncio.to_thread(amazons_client, stand_in)
        with pytest.raises(ClientError) as caught:
            await asyncio.to_thread(client.send_email, **members)
        assert caught.value.response["Error"]["Code"] == "BadRequestException"
        assert not stand_in.messages


def _meant(request: Request) -> tuple[str, str, Any]:
    return request.method, request.path, request.json()
