"""HTTP API of articles: sending, slices, previews, coverage and runs."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from mailwright.access.roles import Scope
from mailwright.audience import contacts
from mailwright.audience.lists import GENERAL
from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import ManualClock
from mailwright.sources.articles.enqueue import ArticleScheduler
from mailwright.storage.database import Database
from mailwright.storage.tables import campaign_runs, slices
from tests.api import Api, an_api, client_of
from tests.articles import BATCH, FRANKLIN, KEY, OHIO, TAG, US

PASSWORD = "correct horse battery staple"
SEND = "/v1/articles/send"


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock, admin_password=PASSWORD) as api:
        yield api


@pytest.fixture
async def admin(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(api.app, PASSWORD) as client:
        yield client


def a_body(**changes: Any) -> dict[str, Any]:
    body = {"campaign_tag": TAG, "article_key": KEY, "send_batch_id": BATCH, **changes}
    return {name: value for name, value in body.items() if value is not None}


def a_slice_body(**changes: Any) -> dict[str, Any]:
    return {"article_key": KEY, "body_md": "Words.", "publish_status": "published", **changes}


async def put(api: Api, **changes: Any) -> dict[str, Any]:
    answer = await api.client.put("/v1/slices", json=a_slice_body(**changes))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def a_recipient(api: Api, email: str, *divisions: str) -> None:
    change = contacts.ContactChange(name="Ada", attributes={"ocd_ids": list(divisions)})
    await contacts.put(api.engine.database, api.engine.clock, 1, email, change)
    await ContactStatusService(api.engine.database, api.engine.clock).subscribe(1, email, GENERAL, source="test")


async def count(api: Api, table: Any) -> int:
    async with api.engine.database.read() as tx:
        return int((await tx.execute(select(func.count()).select_from(table)))[0][0])


async def test_same_batch_returns_the_same_run(api: Api, admin: httpx.AsyncClient) -> None:
    await put(api)
    await a_recipient(api, "ada@example.com", US)
    first = await admin.post(SEND, json=a_body(audience_filter={"country": "us"}))
    assert first.status_code == 202, first.text
    assert first.json() | {"run_id": ""} == {
        "run_id": "",
        "campaign_tag": TAG,
        "article_key": KEY,
        "send_batch_id": BATCH,
        "audience_filter": {"country": "us"},
        "list_key": "general",
        "actor": "ADMIN_PASSWORD",
        "started_at": "2027-01-15T08:00:00.000Z",
        "is_walked": False,
        "recipients": 0,
        "skipped": 0,
        "failure": None,
        "hold_reason": None,
        "recipients_from": None,
        "is_replay": False,
    }
    again = await admin.post(SEND, json=a_body(audience_filter={"country": "us"}, send_batch_id=BATCH.upper()))
    assert (again.status_code, again.json()) == (200, first.json() | {"is_replay": True})
    other = await admin.post(SEND, json=a_body())
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert await count(api, campaign_runs) == 1


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        (
            {"campaign_tag": None, "article_key": None, "send_batch_id": None},
            {"campaign_tag", "article_key", "send_batch_id"},
        ),
        ({"campaign_tag": "Spring 2027", "article_key": "a/b"}, {"campaign_tag", "article_key"}),
        ({"campaign_tag": "spring\n"}, {"campaign_tag"}),
        ({"send_batch_id": "1"}, {"send_batch_id"}),
        ({"send_batch_id": 7}, {"send_batch_id"}),
        ({"audience_filter": {"state": 1}}, {"audience_filter.state"}),
        ({"audience_filter": ["OH"]}, {"audience_filter"}),
        ({"colour": "red", "actor": "me"}, {"colour", "actor"}),
    ],
)
async def test_each_invalid_field_is_named(
    api: Api, admin: httpx.AsyncClient, changes: dict[str, Any], fields: set[str]
) -> None:
    answer = await admin.post(SEND, json=a_body(**changes))
    assert answer.status_code == 422
    assert {error["field"] for error in answer.json()["errors"]} == fields
    assert await count(api, campaign_runs) == 0


async def test_a_refusal_has_a_code_and_a_field(api: Api, admin: httpx.AsyncClient) -> None:
    async def refused() -> tuple[int, str, str]:
        answer = await admin.post(SEND, json=a_body())
        [error] = answer.json()["errors"]
        return answer.status_code, error["code"], error["field"]

    assert await refused() == (422, "UNKNOWN_ARTICLE", "article_key")
    await put(api, publish_status="draft")
    assert await refused() == (422, "NO_PUBLISHED_SLICE", "article_key")
    await put(api)
    assert await refused() == (422, "EMPTY_AUDIENCE", "audience_filter")
    assert await count(api, campaign_runs) == 0


async def test_wrong_password_is_rejected_and_attempts_are_limited(api: Api) -> None:
    assert (await api.client.post(SEND, json=a_body())).status_code == 401
    async with client_of(api.app, "wrong") as guesser:
        answers = [(await guesser.post(SEND, json=a_body())).status_code for _ in range(20)]
    assert answers[0] == 401
    assert answers[-1] == 429
    assert await count(api, campaign_runs) == 0


async def test_slices_are_created_read_changed_and_deleted(api: Api) -> None:
    made = await put(api, title="Vote", scope_ocd_id=OHIO, tags=["may"], publish_at="2027-01-01T00:00:00Z")
    assert made | {"slice_id": ""} == {
        "slice_id": "",
        "article_key": KEY,
        "section_order": 1,
        "sort_index": 0,
        "is_headline": False,
        "title": "Vote",
        "dek": None,
        "body_md": "Words.",
        "link_url": None,
        "scope_ocd_id": OHIO,
        "tags": ["may"],
        "publish_status": "published",
        "publish_at": "2027-01-01T00:00:00.000Z",
        "expires_at": None,
    }
    address = f"/v1/slices/{made['slice_id']}"
    assert (await api.client.get(address)).json() == made
    changed = await api.client.put(address, json=a_slice_body(body_md="Other.", scope_ocd_id=FRANKLIN))
    assert (changed.json()["body_md"], changed.json()["slice_id"]) == ("Other.", made["slice_id"])
    await put(api, sort_index=1)
    taken = await api.client.put(address, json=a_slice_body(sort_index=1))
    assert (taken.status_code, taken.json()["code"]) == (409, "PLACE_TAKEN")
    assert [each["scope_ocd_id"] for each in (await api.client.get(f"/v1/articles/{KEY}")).json()["slices"]] == [
        None,
        FRANKLIN,
    ]
    [listed] = (await api.client.get("/v1/articles")).json()["articles"]
    assert (listed["article_key"], listed["slices"], listed["published"]) == (KEY, 2, 2)
    assert (await api.client.delete(address)).status_code == 204
    assert (await api.client.get(address)).status_code == 404


async def test_invalid_slice_names_its_fields(api: Api) -> None:
    body = a_slice_body(scope_ocd_id="ohio", link_url="ftp://x", body_md="{{ name }}")
    answer = await api.client.put("/v1/slices", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "SLICE_REFUSED")
    assert {(error["field"], error["code"]) for error in answer.json()["errors"]} == {
        ("scope_ocd_id", "MALFORMED_OCD_ID"),
        ("link_url", "INVALID_REQUEST"),
        ("body_md", "INVALID_REQUEST"),
    }
    assert await count(api, slices) == 0


async def test_csv_round_trips_and_invalid_line_is_named(api: Api) -> None:
    kind = {"Content-Type": "text/csv"}
    text = f"article_key,scope_ocd_id,body_md,publish_status\n{KEY},,One,published\n{KEY},{OHIO},Two,draft\n"
    taken = await api.client.post("/v1/slices/import", content=text, headers=kind)
    assert taken.json() == {"added": 2, "changed": 0, "unchanged": 0}
    exported = await api.client.get(f"/v1/articles/{KEY}/slices.csv")
    again = await api.client.post("/v1/slices/import", content=exported.text, headers=kind)
    assert again.json() == {"added": 0, "changed": 0, "unchanged": 2}
    bad = await api.client.post("/v1/slices/import", content=text.replace(OHIO, "oh") + "x", headers=kind)
    assert bad.status_code == 422
    assert [error["field"] for error in bad.json()["errors"]] == ["line 3", "line 4"]
    assert await count(api, slices) == 2


async def test_read_only_key_cannot_write(api: Api) -> None:
    await put(api)
    key = await api.engine.keys.create(1, scopes=frozenset({Scope.READ}))
    async with client_of(api.app, key) as reader:
        for what in ("preview", "coverage"):
            assert (await reader.post(f"/v1/articles/{KEY}/{what}", json={})).status_code == 200
        assert (await reader.put("/v1/slices", json=a_slice_body(body_md="Other."))).status_code == 403
        assert (await reader.post("/v1/slices/import", content="article_key\n")).status_code == 403
    key = await api.engine.keys.create(1, scopes=frozenset({Scope.SEND}))
    async with client_of(api.app, key) as sender:
        assert (await sender.post(f"/v1/articles/{KEY}/preview", json={})).status_code == 403


async def test_previews_coverage_and_runs_are_returned(api: Api, admin: httpx.AsyncClient) -> None:
    await put(api, title="Vote, [[name|you]]", is_headline=True)
    await put(api, scope_ocd_id=OHIO, section_order=2, body_md="Ohio.")
    await a_recipient(api, "ada@example.com", US, OHIO)
    await a_recipient(api, "cleo@example.com", US)
    as_ada = (await api.client.post(f"/v1/articles/{KEY}/preview", json={"email": "ada@example.com"})).json()
    assert (as_ada["subject"], as_ada["body_md"]) == ("Vote, Ada", "Words.\n\nOhio.")
    elsewhere = (await api.client.post(f"/v1/articles/{KEY}/preview", json={"ocd_ids": [US]})).json()
    assert [(each["is_included"], each["fate"]) for each in elsewhere["slices"]] == [
        (True, "for_everyone"),
        (False, "out_of_scope"),
    ]
    bad = await api.client.post(f"/v1/articles/{KEY}/preview", json={"ocd_ids": ["ohio"]})
    assert (bad.status_code, bad.json()["code"]) == (422, "MALFORMED_OCD_ID")
    covered = (await api.client.post(f"/v1/articles/{KEY}/coverage", json={})).json()
    assert (covered["recipients"], [each["recipients"] for each in covered["variants"]]) == (2, [1, 1])
    run_id = (await admin.post(SEND, json=a_body())).json()["run_id"]
    await ArticleScheduler(api.engine.database, api.engine.clock, api.engine.templates).tick()
    story = (await api.client.get(f"/v1/article-runs/{run_id}")).json()
    assert (story["is_walked"], story["recipients"], story["counts"]) == (True, 2, {"PENDING": 2})
    assert [each["recipients"] for each in story["variants"]] == [1, 1]
    listed = (await api.client.get("/v1/article-runs", params={"article_key": KEY, "limit": 1})).json()
    assert [each["run_id"] for each in listed["runs"]] == [run_id]
    following = (await api.client.get("/v1/article-runs", params={"cursor": listed["next_cursor"]})).json()
    assert following == {"runs": [], "next_cursor": None}
