"""The suppression lists of SendGrid, Postmark and Amazon SES, through their SDKs where these have them."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError
from python_http_client.exceptions import HTTPError
from sendgrid import SendGridAPIClient

from mailwright.access.roles import Scope
from mailwright.audience import lists, suppressions
from mailwright.audience.suppressions import ALL_MESSAGES, list_page
from mailwright.domain.clock import SECOND, ManualClock, SystemClock
from mailwright.storage.database import Database
from tests.dropin import DropIn

ADA = "ada@example.com"
BOUNCE = "bounce@example.com"

pytestmark = pytest.mark.promise("drop-in-sdks")


@pytest.fixture
def clock() -> ManualClock:
    """The present time, because requests to SES are signed with it."""
    return ManualClock(SystemClock().now() // SECOND * SECOND)


async def stored(database: Database) -> set[tuple[str, str, str]]:
    return {(each.email, each.reason, each.list_key) for each in await list_page(database, 1, limit=50)}


async def add_some(database: Database, clock: ManualClock) -> None:
    """Suppress an address for each reason."""
    for reason in ("bounce", "complaint", "unsubscribed"):
        await suppressions.add(database, clock, 1, f"{reason}@example.com", reason=reason, source="test")


async def sendgrid(drop_in: DropIn, call: Callable[[Any], Any], key: str | None = None) -> Any:
    client = SendGridAPIClient(key or drop_in.key, host=drop_in.url).client
    reply = await asyncio.to_thread(call, client)
    return reply.to_dict if reply.body else reply.status_code


async def test_lists_of_sendgrid_have_their_reasons(drop_in: DropIn, database: Database, clock: ManualClock) -> None:
    await add_some(database, clock)
    for name, reason in (("bounces", "bounce"), ("spam_reports", "complaint"), ("unsubscribes", "unsubscribed")):
        [found] = await sendgrid(drop_in, lambda client, name=name: client.suppression._(name).get())
        assert (found["email"], found["created"]) == (f"{reason}@example.com", clock.now() // SECOND)
    found = await sendgrid(drop_in, lambda client: client.suppression.bounces._("bounce@example.com").get())
    assert [each["email"] for each in found] == ["bounce@example.com"]
    assert await sendgrid(drop_in, lambda client: client.suppression.bounces._("bounce@example.com").delete()) == 204
    body = {"emails": ["complaint@example.com"]}
    assert await sendgrid(drop_in, lambda client: client.suppression.spam_reports.delete(request_body=body)) == 204
    assert await stored(database) == {("unsubscribed@example.com", "unsubscribed", ALL_MESSAGES)}
    with pytest.raises(HTTPError) as refused:
        await sendgrid(drop_in, lambda client: client.suppression.bounces._("bounce@example.com").delete())
    assert refused.value.status_code == 404


async def test_global_and_group_suppressions_of_sendgrid(
    drop_in: DropIn, database: Database, clock: ManualClock
) -> None:
    await lists.create(database, clock, 1, "42")
    body = {"recipient_emails": ["Ada@example.com", "bob@example.com"]}
    added = await sendgrid(drop_in, lambda client: client.asm.suppressions._("global").post(request_body=body))
    assert added == {"recipient_emails": ["ada@example.com", "bob@example.com"]}
    await sendgrid(drop_in, lambda client: client.asm.groups._("42").suppressions.post(request_body=body))
    one = lambda client: client.asm.suppressions._("global")._("ada@example.com")  # noqa: E731
    assert await sendgrid(drop_in, lambda client: one(client).get()) == {"recipient_email": "ada@example.com"}
    assert await sendgrid(drop_in, lambda client: one(client).delete()) == 204
    assert await sendgrid(drop_in, lambda client: one(client).get()) == {}
    group = lambda client: client.asm.groups._("42").suppressions  # noqa: E731
    assert await sendgrid(drop_in, lambda client: group(client).get()) == ["bob@example.com", "ada@example.com"]
    assert await sendgrid(drop_in, lambda client: group(client)._("bob@example.com").delete()) == 204
    assert await stored(database) == {
        ("ada@example.com", "unsubscribed", "42"),
        ("bob@example.com", "unsubscribed", ALL_MESSAGES),
    }


async def test_unsubscribe_of_sendgrid_outlasts_the_bounce(
    drop_in: DropIn, database: Database, clock: ManualClock
) -> None:
    await add_some(database, clock)
    body = {"recipient_emails": ["bounce@example.com", "complaint@example.com"]}
    await sendgrid(drop_in, lambda client: client.asm.suppressions._("global").post(request_body=body))
    for name in ("bounce@example.com", "complaint@example.com"):
        one = lambda client, name=name: client.asm.suppressions._("global")._(name)  # noqa: E731
        assert await sendgrid(drop_in, lambda client, one=one: one(client).get()) == {"recipient_email": name}
    await sendgrid(drop_in, lambda client: client.suppression.bounces.delete(request_body={"emails": [ADA, BOUNCE]}))
    assert await suppressions.is_suppressed(database, 1, BOUNCE)
    complaints = {"emails": ["complaint@example.com"]}
    await sendgrid(drop_in, lambda client: client.suppression.spam_reports.delete(request_body=complaints))
    assert await suppressions.is_suppressed(database, 1, "complaint@example.com", "general")


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "asm/suppressions/global", {"recipient_emails": ["ada@example.com", "nobody"]}, "recipient_emails"),
        ("POST", "asm/suppressions/global", {"recipient_emails": []}, "recipient_emails"),
        ("POST", "asm/groups/7/suppressions", {"recipient_emails": ["ada@example.com"]}, None),
        ("GET", "asm/groups/7/suppressions", None, None),
        ("DELETE", "asm/groups/7/suppressions/bounce@example.com", None, None),
        ("POST", "asm/groups/general/suppressions", {"recipient_emails": ["ada@example.com"]}, None),
        ("GET", "asm/groups/general/suppressions", None, None),
        ("POST", "asm/groups/*/suppressions", {"recipient_emails": ["ada@example.com"]}, None),
        ("GET", "asm/groups/*/suppressions", None, None),
        ("DELETE", "asm/groups/*/suppressions/bounce@example.com", None, None),
        ("DELETE", "suppression/bounces", {"delete_all": True}, "emails"),
        ("GET", "suppression/bounces?limit=all", None, "limit"),
        ("GET", "suppression/bounces?limit=501", None, "limit"),
    ],
)
async def test_bad_request_gets_the_error_of_sendgrid(
    drop_in: DropIn, database: Database, clock: ManualClock, method: str, path: str, body: Any, field: str | None
) -> None:
    await add_some(database, clock)
    headers = {"Authorization": f"Bearer {drop_in.key}"}
    async with httpx.AsyncClient(base_url=drop_in.url, headers=headers) as client:
        reply = await client.request(method, f"/v3/{path}", json=body)
    assert reply.status_code in (400, 404)
    assert field is None or field in {each["field"].partition(".")[0] for each in reply.json()["errors"]}
    assert len(await stored(database)) == 3


async def postmark(drop_in: DropIn, method: str, path: str, **given: Any) -> httpx.Response:
    headers = {"X-Postmark-Server-Token": drop_in.key, "Accept": "application/json"}
    async with httpx.AsyncClient(base_url=drop_in.url, headers=headers) as client:
        return await client.request(method, f"/message-streams/{path}", **given)


async def test_streams_of_postmark_have_suppressions(drop_in: DropIn, database: Database, clock: ManualClock) -> None:
    await add_some(database, clock)
    await lists.create(database, clock, 1, "weekly")
    found = (await postmark(drop_in, "GET", "outbound/suppressions/dump")).json()["Suppressions"]
    assert [(each["EmailAddress"], each["SuppressionReason"], each["Origin"]) for each in found] == [
        ("unsubscribed@example.com", "ManualSuppression", "Recipient"),
        ("complaint@example.com", "SpamComplaint", "Recipient"),
        ("bounce@example.com", "HardBounce", "Recipient"),
    ]
    query = {"SuppressionReason": "HardBounce", "fromdate": "2020-01-01"}
    found = (await postmark(drop_in, "GET", "outbound/suppressions/dump", params=query)).json()["Suppressions"]
    assert [each["EmailAddress"] for each in found] == ["bounce@example.com"]
    body = {"Suppressions": [{"EmailAddress": "ada@example.com"}, {"EmailAddress": "nobody"}]}
    added = (await postmark(drop_in, "POST", "weekly/suppressions", json=body)).json()["Suppressions"]
    assert [(each["EmailAddress"], each["Status"]) for each in added] == [
        ("ada@example.com", "Suppressed"),
        ("nobody", "Failed"),
    ]
    assert ("ada@example.com", "unsubscribed", "weekly") in await stored(database)
    body = {"Suppressions": [{"EmailAddress": f"{name}@example.com"} for name in ("bounce", "complaint")]}
    removed = (await postmark(drop_in, "POST", "outbound/suppressions/delete", json=body)).json()["Suppressions"]
    assert [each["Status"] for each in removed] == ["Deleted", "Failed"]
    assert {each[0] for each in await stored(database)} == {
        f"{name}@example.com" for name in ("ada", "complaint", "unsubscribed")
    }


async def test_postmark_keeps_unsubscribes_from_bulk_email(
    drop_in: DropIn, database: Database, clock: ManualClock
) -> None:
    for name, list_key in ((ADA, "general"), (BOUNCE, "general"), (BOUNCE, ALL_MESSAGES)):
        await suppressions.add(database, clock, 1, name, reason="unsubscribed", source="link", list_key=list_key)
    body = {"Suppressions": [{"EmailAddress": ADA}, {"EmailAddress": BOUNCE}]}
    removed = (await postmark(drop_in, "POST", "outbound/suppressions/delete", json=body)).json()["Suppressions"]
    assert [each["Status"] for each in removed] == ["Failed", "Deleted"]
    assert await stored(database) == {(name, "unsubscribed", "general") for name in (ADA, BOUNCE)}


async def test_unsubscribe_of_postmark_outlasts_the_bounce(
    drop_in: DropIn, database: Database, clock: ManualClock
) -> None:
    await add_some(database, clock)
    body = {"Suppressions": [{"EmailAddress": BOUNCE}]}
    await postmark(drop_in, "POST", "outbound/suppressions", json=body)
    found = (await postmark(drop_in, "GET", f"outbound/suppressions/dump?EmailAddress={BOUNCE}")).json()
    assert [each["SuppressionReason"] for each in found["Suppressions"]] == ["ManualSuppression"]
    with pytest.raises(ClientError, match="NotFoundException"):
        await ses(drop_in, "delete_suppressed_destination", EmailAddress=BOUNCE)
    assert await suppressions.is_suppressed(database, 1, BOUNCE)


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "other/suppressions/dump", None, 1226),
        ("GET", "outbound/suppressions/dump?fromdate=yesterday", None, 300),
        ("GET", "outbound/suppressions/dump?Color=red", None, 300),
        ("POST", "outbound/suppressions", {"Suppressions": []}, 300),
        ("POST", "outbound/suppressions", {"Suppressions": [{"Email": "ada@example.com"}]}, 300),
        ("POST", "other/suppressions", {"Suppressions": [{"EmailAddress": "ada@example.com"}]}, 1226),
    ],
)
async def test_bad_request_gets_the_error_of_postmark(
    drop_in: DropIn, database: Database, method: str, path: str, body: Any, code: int
) -> None:
    reply = await postmark(drop_in, method, path, json=body)
    assert (reply.status_code, reply.json()["ErrorCode"]) == (422, code)
    assert await stored(database) == set()


async def ses(drop_in: DropIn, operation: str, scopes: frozenset[Scope] = frozenset(Scope), **given: Any) -> Any:
    tenant_scopes = frozenset(each for each in scopes if not each.is_platform)
    pair = await drop_in.engine.keys.issue(1, scopes=tenant_scopes, signs=True)
    keys = {"aws_access_key_id": pair.access_key_id, "aws_secret_access_key": pair.key}

    def work() -> Any:
        made = boto3.client("sesv2", endpoint_url=drop_in.url, region_name="eu-west-1", **keys)
        with closing(made) as client:
            return getattr(client, operation)(**given)

    return await asyncio.to_thread(work)


async def test_suppression_list_of_ses(drop_in: DropIn, database: Database, clock: ManualClock) -> None:
    await add_some(database, clock)
    await ses(drop_in, "put_suppressed_destination", EmailAddress="Ada@example.com", Reason="COMPLAINT")
    found = await ses(drop_in, "list_suppressed_destinations", PageSize=2)
    following = await ses(drop_in, "list_suppressed_destinations", PageSize=2, NextToken=found["NextToken"])
    both = [*found["SuppressedDestinationSummaries"], *following["SuppressedDestinationSummaries"]]
    assert [(each["EmailAddress"], each["Reason"]) for each in both] == [
        ("ada@example.com", "COMPLAINT"),
        ("complaint@example.com", "COMPLAINT"),
        ("bounce@example.com", "BOUNCE"),
    ]
    bounces = await ses(drop_in, "list_suppressed_destinations", Reasons=["BOUNCE"])
    assert [each["EmailAddress"] for each in bounces["SuppressedDestinationSummaries"]] == ["bounce@example.com"]
    one = await ses(drop_in, "get_suppressed_destination", EmailAddress="bounce@example.com")
    assert one["SuppressedDestination"]["LastUpdateTime"].timestamp() == clock.now() / SECOND
    await ses(drop_in, "delete_suppressed_destination", EmailAddress="bounce@example.com")
    for operation in ("get_suppressed_destination", "delete_suppressed_destination"):
        with pytest.raises(ClientError, match="NotFoundException"):
            await ses(drop_in, operation, EmailAddress="bounce@example.com")
    assert {each[0] for each in await stored(database)} == {
        f"{name}@example.com" for name in ("ada", "complaint", "unsubscribed")
    }


@pytest.mark.parametrize("reason", ["bounce", "unsubscribed", "asked by phone"])
async def test_complaint_of_ses_is_kept_beside_other_reasons(
    drop_in: DropIn, database: Database, clock: ManualClock, reason: str
) -> None:
    await suppressions.add(database, clock, 1, ADA, reason=reason, source="test")
    await ses(drop_in, "put_suppressed_destination", EmailAddress=ADA, Reason="COMPLAINT")
    one = await ses(drop_in, "get_suppressed_destination", EmailAddress=ADA)
    assert one["SuppressedDestination"]["Reason"] == "COMPLAINT"
    await ses(drop_in, "delete_suppressed_destination", EmailAddress=ADA)
    assert await suppressions.is_suppressed(database, 1, ADA) == (reason != "bounce")


async def test_bad_request_gets_the_error_of_ses(drop_in: DropIn, database: Database) -> None:
    for given, name in (
        ({"EmailAddress": "nobody", "Reason": "BOUNCE"}, "BadRequestException"),
        ({"EmailAddress": "ada@example.com", "Reason": "OTHER"}, "BadRequestException"),
        ({"EmailAddress": "ada@example.com", "Reason": "BOUNCE", "scopes": frozenset({Scope.SEND})}, "AccessDenied"),
    ):
        with pytest.raises(ClientError, match=name):
            await ses(drop_in, "put_suppressed_destination", **given)
    assert await stored(database) == set()
