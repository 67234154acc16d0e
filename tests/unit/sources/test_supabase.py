"""The Supabase client: complete reads, no duplicates, and status updates that are safe in a race."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from postgrest import APIError, AsyncPostgrestClient

from mailwright.domain.clock import ManualClock
from mailwright.providers.http import HttpClient
from mailwright.sources.mailouts.supabase import (
    LogLine,
    StatusWrite,
    SubscriberStatus,
    Supabase,
    SupabaseInDoubt,
    SupabaseRefused,
    SupabaseUnavailable,
    find_key_problem,
)
from tests.standins.http import BROKEN_JSON, GARBAGE, HTML, Answer, Step
from tests.standins.supabase import BASE, PUBLISHABLE_KEY, SECRET_KEY, SupabaseStandIn

NOW = ManualClock().now()


@pytest.fixture
async def server() -> AsyncIterator[SupabaseStandIn]:
    async with SupabaseStandIn() as server:
        yield server
        assert not server.violations


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    http = HttpClient(connections=4)
    yield http
    await http.close()


async def no_wait(_seconds: float) -> None:
    """Do not sleep in tests."""


def asking(server: SupabaseStandIn, http: HttpClient, key: str = SECRET_KEY) -> Supabase:
    return Supabase(http, server.url, key, sleep=no_wait)


async def everybody(supabase: Supabase) -> list[str]:
    return [subscriber.email async for page in supabase.active() for subscriber in page]


def a_token(role: str) -> str:
    claims = base64.urlsafe_b64encode(orjson.dumps({"role": role, "iss": "supabase"})).rstrip(b"=").decode()
    return f"eyJhbGciOiJIUzI1NiJ9.{claims}.c2lnbmF0dXJl"


@pytest.mark.parametrize("max_rows", [1_000, 700])
async def test_all_subscribers_are_read_past_the_row_cap(http: HttpClient, max_rows: int) -> None:
    async with SupabaseStandIn(max_rows=max_rows) as server:
        for number in range(2_503):
            server.add("subscribers", email=f"reader{number:05}@example.com")
        server.add("subscribers", email="left@example.com", status="unsubscribed")
        server.add("subscribers", email=None)
        found = await everybody(asking(server, http))
    assert found == [f"reader{number:05}@example.com" for number in range(2_503)]


async def test_unsubscribe_during_paging_shifts_nobody(server: SupabaseStandIn, http: HttpClient) -> None:
    server.max_rows = 2
    for name in "abcdef":
        server.add("subscribers", email=f"{name}@example.com")
    seen: list[str] = []
    async for page in asking(server, http).active():
        seen += [each.email for each in page]
        server.subscriber("a@example.com")["status"] = "unsubscribed"
    assert seen == [f"{name}@example.com" for name in "abcdef"]


async def test_special_characters_in_addresses_are_escaped(server: SupabaseStandIn, http: HttpClient) -> None:
    server.max_rows = 1
    signs = ["a&b@example.com", "a+b@example.com", "a%41@example.com", 'q"u@example.com', "o'hara@example.com"]
    for email in signs:
        server.add("subscribers", email=email)
    assert sorted(await everybody(asking(server, http))) == sorted(signs)


@pytest.mark.parametrize("key", [PUBLISHABLE_KEY, a_token("anon"), a_token("authenticated")])
async def test_browser_key_is_refused_by_its_format(server: SupabaseStandIn, http: HttpClient, key: str) -> None:
    with pytest.raises(SupabaseRefused, match="service_role key or a secret key") as refused:
        await asking(server, http, key).probe()
    assert refused.value.code == "SUPABASE_KEY_SEES_NOTHING"
    assert not server.requests
    assert key not in str(refused.value)


async def test_key_that_sees_nothing_is_refused_despite_200(server: SupabaseStandIn, http: HttpClient) -> None:
    server.add("subscribers", email="ada@example.com")
    server.keys["opaque"] = "anon"
    with pytest.raises(SupabaseRefused, match="row level security") as refused:
        await asking(server, http, "opaque").probe()
    assert refused.value.code == "SUPABASE_KEY_SEES_NOTHING"
    await asking(server, http).probe()


async def test_old_keys_are_sent_in_both_headers(server: SupabaseStandIn, http: HttpClient) -> None:
    token = a_token("service_role")
    server.keys[token] = "service_role"
    server.add("subscribers", email="ada@example.com")
    await asking(server, http, token).probe()
    await asking(server, http).probe()
    assert [request.headers.get("Authorization") for request in server.requests] == [f"Bearer {token}", None]
    assert find_key_problem(token) is find_key_problem(SECRET_KEY) is None


PRIORITY = [
    ("active", "unsubscribed", "unsubscribed"),
    ("active", "bounced", "bounced"),
    ("unsubscribed", "bounced", "bounced"),
    ("bounced", "unsubscribed", "bounced"),
    ("unsubscribed", "unsubscribed", "unsubscribed"),
    ("bounced", "active", "bounced"),
    ("unsubscribed", "active", "active"),
]


@pytest.mark.parametrize(("current", "told", "then"), PRIORITY)
async def test_lower_status_never_replaces_a_higher_one(
    server: SupabaseStandIn, http: HttpClient, current: str, told: str, then: str
) -> None:
    server.add("subscribers", email="Ada@Example.com", status=current)
    server.add("subscribers", email="adaXb@example.com")
    await asking(server, http).update_status(SubscriberStatus("ada@example.com", told, NOW, "Permanent", "General"))
    assert server.subscriber("Ada@Example.com")["status"] == then
    assert server.subscriber("adaXb@example.com")["status"] == "active"


async def test_bounce_updates_every_spelling_of_the_address(server: SupabaseStandIn, http: HttpClient) -> None:
    for email in ("a_b@example.com", "A_B@example.com", "aXb@example.com"):
        server.add("subscribers", email=email)
    await asking(server, http).update_status(
        SubscriberStatus("a_b@example.com", "bounced", NOW, "Permanent", "General")
    )
    bounced = [row for row in server.rows("subscribers") if row["status"] == "bounced"]
    assert [row["email"] for row in bounced] == ["a_b@example.com", "A_B@example.com"]
    assert {(row["bounce_type"], row["bounce_subtype"]) for row in bounced} == {("Permanent", "General")}
    assert {row["status_updated_at"] for row in bounced} == {"2027-01-15T08:00:00.000Z"}


SPELLINGS = [
    ("ada@example.com", " Ada@Example.com "),
    ("ada@example.com", "ada@example.com\n"),
    ("ada@example.com", "\u00a0ADA@EXAMPLE.COM\t"),
    ("ada@xn--bcher-kva.example", "ada@b\u00fccher.example"),
    ("ada@xn--bcher-kva.example", "Ada@B\u00dcCHER.example "),
    ("ada@xn--bcher-kva.example", "ada@bu\u0308cher.example"),
    ("ada@xn--bcher-kva.example", " ada@XN--BCHER-KVA.example"),
    ("ada@xn--80a1acny.xn--p1ai", "ada@\u043f\u043e\u0447\u0442\u0430.xn--p1ai"),
    ("o'hara+x@example.com", " O'Hara+x@example.com"),
]


@pytest.mark.promise("mailout-results-written")
@pytest.mark.parametrize("postgrest", [(12, 2), (12, 0), (11, 2)])
@pytest.mark.parametrize(("email", "stored"), SPELLINGS)
async def test_bounce_finds_the_stored_spelling(
    http: HttpClient, email: str, stored: str, postgrest: tuple[int, int]
) -> None:
    others = [f"x{email}", f"{email}.org", "ada@b-cher.example", "eve@b\u00fccher.example"]
    async with SupabaseStandIn(postgrest=postgrest) as server:
        for each in (stored, *others):
            server.add("subscribers", email=each)
        written = await asking(server, http).update_status(SubscriberStatus(email, "bounced", NOW, "Permanent"))
        assert written is StatusWrite.CHANGED
        assert [row["email"] for row in server.rows("subscribers") if row["status"] != "active"] == [stored]


async def test_old_postgrest_is_asked_for_the_limit_once(http: HttpClient) -> None:
    async with SupabaseStandIn(postgrest=(12, 0)) as server:
        server.add("subscribers", email="ada@example.com")
        supabase = asking(server, http)
        for status in ("unsubscribed", "bounced"):
            await supabase.update_status(SubscriberStatus("ada@example.com", status, NOW))
        asked = [request.headers["Prefer"] for request in server.requests if request.method == "PATCH"]
        assert ["max-affected=1" in each for each in asked] == [True, False, False]
        assert server.subscriber("ada@example.com")["status"] == "bounced"


async def test_write_reports_whether_a_row_changed(server: SupabaseStandIn, http: HttpClient) -> None:
    server.add("subscribers", email="ada@example.com", status="bounced")
    server.add("subscribers", email="bob@example.com")
    supabase = asking(server, http)
    written = [
        await supabase.update_status(SubscriberStatus(email, "unsubscribed", NOW))
        for email in ("ada@example.com", "bob@example.com", "eve@example.com")
    ]
    assert written == [StatusWrite.UNCHANGED, StatusWrite.CHANGED, StatusWrite.MISSING]


async def test_update_without_effect_is_refused(server: SupabaseStandIn, http: HttpClient) -> None:
    server.add("subscribers", email="ada@example.com")
    server.frozen.add("ada@example.com")
    with pytest.raises(SupabaseRefused, match="0 of 1 rows") as refused:
        await asking(server, http).update_status(SubscriberStatus("ada@example.com", "bounced", NOW))
    assert refused.value.code == "SUPABASE_NOT_CHANGED"


@pytest.mark.parametrize(("postgrest", "limits"), [((12, 2), True), ((12, 0), False), ((11, 2), True)])
async def test_update_probe_changes_no_row(http: HttpClient, postgrest: tuple[int, int], limits: bool) -> None:
    async with SupabaseStandIn(postgrest=postgrest) as server:
        server.add("subscribers", email="ada@example.com")
        assert await asking(server, http).probe_update() is limits
        assert server.subscriber("ada@example.com")["status"] == "active"
        server.answer(Answer(403, b'{"code": "42501", "message": "permission denied for table subscribers"}'))
        with pytest.raises(SupabaseRefused):
            await asking(server, http).probe_update()


@pytest.mark.parametrize("odd", ["star*@example.com", "per%cent@example.com", "back\\slash@example.com"])
async def test_special_characters_never_match_other_subscribers(
    server: SupabaseStandIn, http: HttpClient, odd: str
) -> None:
    for email in (odd, "starfish@example.com", "per-a-cent@example.com", "backslash@example.com"):
        server.add("subscribers", email=email)
    await asking(server, http).update_status(SubscriberStatus(odd, "unsubscribed", NOW))
    assert [row["email"] for row in server.rows("subscribers") if row["status"] != "active"] == [odd]


@pytest.mark.parametrize("trouble", [Answer(503), Answer(429), HTML, BROKEN_JSON, GARBAGE])
async def test_temporary_failure_is_retried(server: SupabaseStandIn, http: HttpClient, trouble: Any) -> None:
    server.add("subscribers", email="ada@example.com")
    server.answer(trouble, times=2)
    assert await everybody(asking(server, http)) == ["ada@example.com"]


async def test_permanent_failure_is_raised_without_retry(server: SupabaseStandIn, http: HttpClient) -> None:
    server.keys.clear()
    with pytest.raises(SupabaseRefused, match="SUPABASE_SERVICE_ROLE_KEY"):
        await everybody(asking(server, http))
    assert len(server.requests) == 1
    server.answer(Answer(503))
    with pytest.raises(SupabaseUnavailable):
        await everybody(asking(server, http))


async def test_log_insert_is_never_repeated(server: SupabaseStandIn, http: HttpClient) -> None:
    supabase = asking(server, http)
    lines = [LogLine("ada@example.com", "sent", None), LogLine("bob,(x)@example.com", "failed", "550 no")]
    server.answer(Answer(503), times=1)
    with pytest.raises(SupabaseInDoubt):
        await supabase.log("page", lines)
    server.cut(Step.ANSWER, times=1)
    with pytest.raises(SupabaseInDoubt):
        await supabase.log("page", lines)
    assert await supabase.logged("page", [line.email for line in lines]) == set()
    await supabase.log("page", lines)
    there = await supabase.logged("page", [line.email for line in lines])
    assert there == {(line.email, line.status) for line in lines}
    assert server.rows("send_logs")[1]["error_message"] == "550 no"


async def test_long_address_lists_are_split_into_requests(server: SupabaseStandIn, http: HttpClient) -> None:
    supabase = asking(server, http)
    lines = [LogLine(f"{'long' * 12}{number:04}@{'example' * 8}.com", "sent", None) for number in range(200)]
    await supabase.log("page", lines[1:])
    server.requests.clear()
    assert await supabase.logged("page", [line.email for line in lines]) == {(line.email, "sent") for line in lines[1:]}
    assert len(server.requests) > 1
    assert max(len(request.query) for request in server.requests) < 5_000


async def test_log_table_check_is_one_request(server: SupabaseStandIn, http: HttpClient) -> None:
    assert await asking(server, http).has_logs()
    async with SupabaseStandIn(has_send_logs=False) as other:
        assert not await asking(other, http).has_logs()
        assert len(other.requests) == 1


# The stand-in, asked by a client that others wrote.


def other_client(server: SupabaseStandIn, key: str = SECRET_KEY) -> AsyncPostgrestClient:
    return AsyncPostgrestClient(f"{server.url}{BASE}", headers={"apikey": key})


async def test_other_client_reads_pages_and_counts(server: SupabaseStandIn) -> None:
    for number in range(1_200):
        server.add("subscribers", email=f"reader{number:05}@example.com")
    async with other_client(server) as client:
        query = client.from_("subscribers").select("email, from_name", count="exact").eq("status", "active")
        page = await query.order("email").limit(5_000).execute()
    assert (len(page.data), page.count) == (1_000, 1_200)


async def test_other_client_updates_under_a_condition(server: SupabaseStandIn) -> None:
    server.add("subscribers", email="ada@example.com", status="bounced")
    async with other_client(server) as client:
        table = client.from_("subscribers")
        changed = (
            await table.update({"status": "unsubscribed"})
            .eq("email", "ada@example.com")
            .neq("status", "bounced")
            .execute()
        )
        assert changed.data == []
        with pytest.raises(APIError) as nowhere:
            await client.from_("nowhere").select("*").execute()
        assert nowhere.value.code == "PGRST205"
        with pytest.raises(APIError) as everyone:
            await client.from_("subscribers").update({"status": "bounced"}).execute()
        assert everyone.value.code == "21000"


@pytest.mark.parametrize(("postgrest", "code"), [((12, 2), "PGRST124"), ((12, 0), "PGRST122"), ((11, 2), None)])
async def test_other_client_meets_each_version(postgrest: tuple[int, int], code: str | None) -> None:
    async with SupabaseStandIn(postgrest=postgrest) as server:
        for name in ("ada", "bob"):
            server.add("subscribers", email=f"{name}@example.com")
        async with other_client(server) as client:
            update = client.from_("subscribers").update({"status": "bounced"}).eq("status", "active")
            update = update.max_affected(1)
            if code is None:
                assert len((await update.execute()).data) == 2
                return
            with pytest.raises(APIError) as refused:
                await update.execute()
        assert refused.value.code == code
        assert {row["status"] for row in server.rows("subscribers")} == {"active"}


async def test_other_client_with_browser_key_sees_no_rows(server: SupabaseStandIn) -> None:
    server.add("subscribers", email="ada@example.com")
    async with other_client(server, PUBLISHABLE_KEY) as client:
        assert (await client.from_("subscribers").select("*").execute()).data == []
        with pytest.raises(APIError) as refused:
            await client.from_("send_logs").insert({"email": "x@example.com"}).execute()
        assert refused.value.code == "42501"
