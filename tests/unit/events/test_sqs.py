"""The SQS client: signed requests and reported failures."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from botocore.config import Config
from botocore.session import Session

from mailwright.domain.clock import ManualClock, SystemClock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.providers.aws import AwsKeyChain, AwsKeys, AwsKeysMissing
from mailwright.providers.http import HttpClient
from mailwright.providers.ses.queue import SqsQueue, SqsUnavailable, parse_queue_url
from tests.standins.http import BROKEN_JSON, GARBAGE, HTML, WRONG_JSON, Answer, Step
from tests.standins.sqs import ACCESS_KEY, NAME, REGION, SECRET_KEY, SqsStandIn, amazon_json, refusal


def key_chain(clock: ManualClock, secret: str = SECRET_KEY) -> AwsKeyChain:
    return AwsKeyChain(clock, lambda: lambda: AwsKeys(ACCESS_KEY, secret))


@pytest.fixture
async def sqs(clock: ManualClock) -> AsyncIterator[SqsStandIn]:
    async with SqsStandIn(clock) as sqs:
        yield sqs


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    http = HttpClient()
    yield http
    await http.close()


@pytest.fixture
def queue(sqs: SqsStandIn, http: HttpClient, clock: ManualClock) -> SqsQueue:
    return SqsQueue(sqs.queue_url, REGION, http, clock, key_chain(clock))


async def test_received_message_stays_until_deleted(sqs: SqsStandIn, queue: SqsQueue) -> None:
    for number in range(5):
        sqs.put(f"message {number}")
    first, second = await queue.receive(), await queue.receive()
    assert [each.body for each in first + second] == [f"message {number}" for number in range(5)]
    assert await queue.receive() == []
    assert len(sqs.bodies) == 5
    await queue.delete(first)
    assert len(sqs.bodies) == 5 - len(first)
    assert sqs.complaints == []
    assert not sqs.violations


async def test_stand_in_works_with_botocore(sqs: SqsStandIn) -> None:
    """Our requests equal those of Amazon's client."""
    sqs.clock = SystemClock()
    sqs.put("hello")

    def ask() -> tuple[list[str], int]:
        client = Session().create_client(
            "sqs",
            REGION,
            endpoint_url=sqs.url,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            config=Config(retries={"total_max_attempts": 1}, proxies={}),
        )
        got = client.receive_message(QueueUrl=sqs.queue_url, MaxNumberOfMessages=3, WaitTimeSeconds=20)["Messages"]
        entries = [{"Id": "0", "ReceiptHandle": got[0]["ReceiptHandle"]}]
        deleted = client.delete_message_batch(QueueUrl=sqs.queue_url, Entries=entries)
        client.close()
        return [each["Body"] for each in got], len(deleted["Successful"])

    assert await asyncio.to_thread(ask) == (["hello"], 1)
    assert sqs.complaints == []


@pytest.mark.parametrize(
    "answer",
    [
        refusal("QueueDoesNotExist", 400, "no"),
        refusal("AccessDeniedException", 403, "no"),
        Answer(500),
        Answer(503, b"Service Unavailable"),
        HTML,
        WRONG_JSON,
        BROKEN_JSON,
        GARBAGE,
        amazon_json(200, {"Messages": [{"Body": "x"}]}),
        amazon_json(200, {"Messages": [7]}),
        amazon_json(200, {"Messages": 7}),
    ],
    ids=lambda answer: str(answer.body[:40]) if isinstance(answer, Answer) else "garbage",
)
async def test_every_error_response_is_sqs_unavailable(
    sqs: SqsStandIn, queue: SqsQueue, answer: Answer | bytes
) -> None:
    sqs.answer(answer, times=1)
    with pytest.raises(SqsUnavailable) as raised:
        await queue.receive()
    assert SECRET_KEY not in str(raised.value)
    sqs.put("later")
    assert [each.body for each in await queue.receive()] == ["later"]


async def test_unreachable_queue_is_reported(
    sqs: SqsStandIn, queue: SqsQueue, http: HttpClient, clock: ManualClock
) -> None:
    sqs.cut(Step.ANSWER, times=1)
    with pytest.raises(SqsUnavailable):
        await queue.receive()
    unreachable = SqsQueue("http://127.0.0.1:1/1/q", REGION, http, clock, key_chain(clock))
    with pytest.raises(SqsUnavailable, match="unreachable"):
        await unreachable.receive()


async def test_missing_or_wrong_keys_are_reported(sqs: SqsStandIn, http: HttpClient, clock: ManualClock) -> None:
    def missing() -> AwsKeys:
        raise AwsKeysMissing

    with pytest.raises(SqsUnavailable, match="AWS_ACCESS_KEY_ID"):
        await SqsQueue(sqs.queue_url, REGION, http, clock, AwsKeyChain(clock, lambda: missing)).receive()
    with pytest.raises(SqsUnavailable, match="InvalidSignatureException"):
        await SqsQueue(sqs.queue_url, REGION, http, clock, key_chain(clock, "wrong")).receive()


async def test_ten_largest_messages_are_received_at_once(sqs: SqsStandIn, queue: SqsQueue) -> None:
    for number in range(12):
        sqs.put(json.dumps({"number": number, "long": "x" * 262_000}))
    assert [len(await queue.receive()) for _ in range(3)] == [10, 2, 0]


@pytest.mark.parametrize(
    ("url", "region", "endpoint"),
    [
        ("https://sqs.us-east-2.amazonaws.com/1/q", "eu-west-1", ("https://sqs.us-east-2.amazonaws.com/", "us-east-2")),
        (
            "https://sqs.cn-north-1.amazonaws.com.cn/1/q",
            None,
            ("https://sqs.cn-north-1.amazonaws.com.cn/", "cn-north-1"),
        ),
        ("https://vpce-1.example.com/1/q", "eu-west-1", ("https://vpce-1.example.com/", "eu-west-1")),
        (f"http://127.0.0.1:9324{NAME}", "eu-west-1", ("http://127.0.0.1:9324/", "eu-west-1")),
    ],
)
def test_endpoint_and_region_follow_queue_url(url: str, region: str | None, endpoint: tuple[str, str]) -> None:
    assert parse_queue_url(url, region) == endpoint


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("http://sqs.us-east-2.amazonaws.com/1/q", "us-east-2"),
        ("https://queue.example.com/1/q", None),
        ("mail-events", "eu-west-1"),
        ("", "eu-west-1"),
    ],
)
def test_invalid_queue_url_is_reported(url: str, region: str | None) -> None:
    with pytest.raises(ConfigurationInvalid):
        parse_queue_url(url, region)
