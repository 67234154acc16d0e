"""Personal data, on both engines: export, history and erasure."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import select, text, update

from mailwright.audience import contacts, erasure, lists, personal_data, suppressions
from mailwright.audience.importing.report import redact_address
from mailwright.audience.status import ContactStatusService, apply_facts, unsubscribe_fact
from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.events.reports import Reports
from mailwright.outbox import audit_log
from mailwright.outbox.audit import audit
from mailwright.storage.database import Database
from mailwright.storage.tables import messages, metadata, queue_entries
from tests.api import an_api
from tests.builders import SENT, Bench, a_message, a_result, a_settler, an_acceptor, claims_of
from tests.campaigns import CampaignHarness

ADA = "ada@example.com"


async def contact_with_history(database: Database, clock: ManualClock) -> list[str]:
    """Ada has attributes, lists, a message that was sent and a pending one."""
    await lists.create(database, clock, 1, "news")
    statuses = ContactStatusService(database, clock)
    await statuses.subscribe(1, ADA, "news", source="form")
    change = contacts.ContactChange("Ada Lovelace", "pt", "europe/lisbon", {"plan": "pro", "age": 36}, ["VIP"])
    await contacts.put(database, clock, 1, ADA, change)
    first = a_message(to=ADA, payload={"to": ADA, "subject": "Hello Ada", "html": "<p>Dear Ada Lovelace</p>"})
    await an_acceptor(database, clock).accept([first])
    claimed = await claims_of(database, clock).claim(1)
    settling = a_settler(database, clock)
    await settling.exchange([], claimed)
    await settling.exchange([a_result(claimed[0], SENT, clock.now())], [])
    second = a_message(to=ADA)
    await an_acceptor(database, clock).accept([second, a_message(to="grace@example.com")])
    await statuses.unsubscribe_by_link(1, ADA, "news", source="link")
    return [first.outbox_id, second.outbox_id]


async def database_text(database: Database) -> str:
    """Return everything in the database as text."""
    result = []
    async with database.read() as tx:
        for table in metadata.sorted_tables:
            rows = await tx.execute(text(f"SELECT * FROM {table.name}"))
            result += [str(row) for row in rows if table.name != "suppressions"]
    return "\n".join(result)


@pytest.mark.promise("person-data")
async def test_history_and_export_show_all_stored_data(database: Database, clock: ManualClock) -> None:
    sent, waiting = await contact_with_history(database, clock)
    data = await personal_data.export_personal_data(database, 1, "ADA@example.com")
    assert (data["name"], data["timezone"], data["tags"]) == ("Ada Lovelace", "Europe/Lisbon", ["vip"])
    assert data["attributes"] == {"plan": "pro", "age": 36}
    assert [(each["listKey"], each["unsubscribedAt"] is not None) for each in data["lists"]] == [("news", True)]
    assert [each["listKey"] for each in data["suppressions"]] == ["news"]
    assert [message["outboxId"] for message in data["messages"]] == [waiting, sent]
    assert data["messages"][1]["content"]["html"] == "<p>Dear Ada Lovelace</p>"
    assert "SENT" in [event["type"] for event in data["messages"][1]["events"]]
    whats = [each.what for each in await personal_data.load_history(database, 1, ADA)]
    for what in (
        "became a contact",
        "subscribed to a list",
        "unsubscribed from a list",
        "email sent",
        "email received",
    ):
        assert what in whats
    steps = [
        what
        for what in reversed(whats)
        if what in ("became a contact", "email received", "email sent attempt", "email sent")
    ]
    assert steps == ["became a contact", "email received", "email sent attempt", "email sent"]  # all in one millisecond
    for tenant, email in ((2, ADA), (1, "nobody@example.com")):
        with pytest.raises(NotFound):
            await personal_data.export_personal_data(database, tenant, email)


@pytest.mark.promise("person-erased")
async def test_erasure_leaves_only_the_suppression(database: Database, clock: ManualClock) -> None:
    sent, _ = await contact_with_history(database, clock)
    before = await audit(database)
    words = {"diagnosticCode": f"552 5.2.2 <{ADA}>: mailbox full"}
    report = Report(
        "r-1", "ses", EventType.BOUNCED, clock.now(), ADA, sent, verdict=ContactVerdict.SOFT_BOUNCE, metadata=words
    )
    reports = Reports(database, clock)
    assert (await reports.receive([report])).new == 1
    await reports.close()
    erased = await erasure.erase(database, clock, 1, "Ada@Example.com", actor="console")
    assert (erased.state, erased.messages) == ("erased", 2)
    unsubscribe_fact = (await database_text(database)).lower()
    for trace in ("ada@", "lovelace", "lisbon", "vip"):
        assert trace not in unsubscribe_fact, [line for line in unsubscribe_fact.splitlines() if trace in line]
    async with database.read() as tx:
        entries = await suppressions.list_for_address(tx, 1, ADA)
        subjects = [row.subject for row in await tx.execute(select(messages.c.subject).order_by(messages.c.id))]
    assert [(entry.list_key, entry.reason, entry.source) for entry in entries] == [
        ("general", "unsubscribed", "erasure")
    ]
    assert subjects == ["(erased)", "(erased)", "Hello"]
    after = await audit(database)
    assert (after.ok, after.accepted, after.sent) == (True, before.accepted, before.sent)
    assert await claims_of(database, clock).claim(10) != []
    [audit_entry] = await audit_log.list_entries(database, tenant_id=1, limit=10)
    assert (audit_entry.action, audit_entry.detail, "@" in audit_entry.subject) == (
        "contact.erase",
        {"messages": 2},
        False,
    )
    with pytest.raises(NotFound):
        await erasure.erase(database, clock, 1, ADA, actor="console")


@pytest.mark.promise("person-erased")
async def test_erasure_covers_request_ids_copies_and_cursors(bench: Bench) -> None:
    database, clock = bench.database, bench.clock
    await contacts.put(database, clock, 1, ADA, contacts.ContactChange(name="Ada"))
    await contacts.put(database, clock, 1, "aaron@example.com", contacts.ContactChange(name="Aaron"))
    to_other = {"to": "bob@example.com", "subject": "Hi", "html": "<p>Hi</p>", "cc": [ADA, "eve@example.com"]}
    await bench.accept(
        a_message(to=ADA, request_id=f"order-{ADA}", dedupe_key=f"welcome:{ADA.upper()}", body_digest="x"),
        a_message(to=ADA, request_id="plain", dedupe_key="kept", body_digest="x"),
        a_message(to="bob@example.com", payload=to_other),
    )
    await CampaignHarness(bench).start(1)
    async with database.write() as tx:
        await tx.execute(update(queue_entries).values(enqueued_to=ADA))
    await erasure.erase(database, clock, 1, ADA, actor="console")
    async with database.read() as tx:
        rows = await tx.execute(select(messages).order_by(messages.c.id))
        [entry] = await tx.execute(select(queue_entries))
    assert rows[0].request_id == rows[0].outbox_id
    assert [(row.request_id, row.dedupe_key) for row in rows[1:2]] == [("plain", "kept")]
    assert rows[0].dedupe_key is None
    assert (orjson.loads(rows[2].payload)["cc"], entry.enqueued_to) == (["eve@example.com"], "aaron@example.com")
    assert ADA not in repr(rows).lower()


async def test_erased_contact_can_subscribe_again(database: Database, clock: ManualClock) -> None:
    statuses = ContactStatusService(database, clock)
    await lists.create(database, clock, 1, "news")
    await statuses.subscribe(1, ADA, "news", source="form")
    await statuses.bounce(1, "b@example.com", source="ses")
    await erasure.erase(database, clock, 1, ADA, actor="console")
    await erasure.erase(database, clock, 1, "b@example.com", actor="console")
    await statuses.resubscribe_by_link(1, ADA, source="reader")
    await statuses.resubscribe_by_link(1, "b@example.com", source="reader")
    assert not await suppressions.is_suppressed(database, 1, ADA, "news")
    assert await suppressions.is_suppressed(database, 1, "b@example.com")


@pytest.mark.parametrize(
    "change",
    [
        contacts.ContactChange(locale="klingon!"),
        contacts.ContactChange(timezone="Mars/Olympus"),
        contacts.ContactChange(attributes={"not a name": 1}),
        contacts.ContactChange(attributes={"a": "nul\x00"}),
        contacts.ContactChange(attributes={f"a{n}": 1 for n in range(101)}),
        contacts.ContactChange(tags=["a,b"]),
        contacts.ContactChange(name="x" * 201),
    ],
)
async def test_invalid_contact_fields_are_refused(
    database: Database, clock: ManualClock, change: contacts.ContactChange
) -> None:
    with pytest.raises(InvalidInput):
        await contacts.put(database, clock, 1, ADA, change)


async def test_contacts_and_segments_work_over_http(database: Database, clock: ManualClock, tmp_path: Any) -> None:
    async with an_api(database, clock, imports=tmp_path / "imports") as api:
        expected = {"name": "Ada", "attributes": {"plan": "pro", "age": 36}, "tags": ["VIP"]}
        response = await api.client.put(f"/v1/contacts/{ADA}", json=expected)
        assert (response.status_code, response.json()["tags"]) == (200, ["vip"])
        response = await api.client.put(f"/v1/contacts/{ADA}", json={"attributes": {"plan": None, "city": "Porto"}})
        assert (response.json()["attributes"], response.json()["name"]) == ({"age": 36, "city": "Porto"}, "Ada")
        assert (await api.client.put(f"/v1/contacts/{ADA}", json={"locale": "klingon!"})).status_code == 422
        created = await api.client.post(
            "/v1/segments", json={"segmentKey": "adults", "filter": {"attribute": "age", "atLeast": 18}}
        )
        assert (created.status_code, created.json()["sentence"]) == (
            201,
            "Contacts whose attribute age is at least 18.",
        )
        assert (await api.client.get("/v1/segments/adults")).json()["count"] == 1
        assert (await api.client.get("/v1/segments/adults/contacts")).json()["contacts"][0]["email"] == ADA
        assert (await api.client.post("/v1/segments/count", json={"filter": {"tag": "x"}})).json()["count"] == 0
        assert (await api.client.post("/v1/segments/count", json={"filter": {"sql": "x"}})).status_code == 422
        assert (await api.client.patch("/v1/segments/adults", json={"name": "Adults"})).json()["name"] == "Adults"
        assert (await api.stranger.get("/v1/segments/adults")).status_code == 404
        export = await api.client.get("/v1/contacts/export")
        assert export.headers["content-type"].startswith("text/csv")
        assert "Porto" in export.text
        assert "Porto" not in (await api.stranger.get("/v1/contacts/export?format=jsonl")).text
        assert (await api.client.get(f"/v1/contacts/{ADA}/data")).json()["attributes"]["city"] == "Porto"
        assert (await api.client.get(f"/v1/contacts/{ADA}/history")).status_code == 200
        for path in (f"/v1/contacts/{ADA}", f"/v1/contacts/{ADA}/data", f"/v1/contacts/{ADA}/history"):
            assert (await api.stranger.get(path)).status_code == 404
        assert (await api.stranger.delete(f"/v1/contacts/{ADA}")).status_code == 404
        assert (await api.client.delete(f"/v1/contacts/{ADA}")).json()["state"] == "erased"
        assert (await api.client.get(f"/v1/contacts/{ADA}")).status_code == 404
        assert (await api.client.delete("/v1/segments/adults")).status_code == 204


async def test_file_is_imported_over_http(database: Database, clock: ManualClock, tmp_path: Any) -> None:
    async with an_api(database, clock, imports=tmp_path / "imports") as api:
        await lists.create(database, clock, 1, "news")
        body = "E-Mail,Plan\nada@example.com,pro\noops,x\n"
        preview = await api.client.post("/v1/contacts/imports/preview", content=body)
        assert [row["refused"] is None for row in preview.json()["rows"]] == [True, False]
        assert await personal_count(api) == 0
        # PostgreSQL stores the report itself.
        kept = ["report.csv"] if database.dialect == "sqlite" else []

        def local_files() -> list[str]:
            return [path.name.partition(".")[2] for path in (tmp_path / "imports").iterdir()]

        query = "listKey=news&tag=New&map=Plan=tariff&fileName=people.csv"
        response = await api.client.post(f"/v1/contacts/imports?{query}", content=body)
        assert (response.status_code, response.json()["fileName"]) == (202, "people.csv")
        await api.engine.import_uploads.finish()
        where = f"/v1/contacts/imports/{response.json()['importId']}"
        done = (await api.client.get(where)).json()
        assert (done["added"], done["refused"], done["finishedAt"] is not None) == (1, 1, True)
        report = (await api.client.get(f"{where}/report")).text.splitlines()
        assert report[:2] == ["line,email,outcome,why", "2,ada@example.com,added,"]
        assert len((await api.client.get("/v1/contacts/imports")).json()["imports"]) == 1
        assert (await contacts.load_details(database, 1, ADA)).contact.attributes == {"tariff": "pro"}
        for path in (where, f"{where}/report"):
            assert (await api.stranger.get(path)).status_code == 404
        assert (await api.client.delete(f"/v1/contacts/{ADA}")).json()["state"] == "erased"
        emptied = (await api.client.get(f"{where}/report")).text.splitlines()
        assert emptied == [report[0], f"2,{'*' * len(ADA)},added,", *report[2:]]
        assert local_files() == kept
        for bad in ("?listKey=unknown", "?map=Plan", "?mapp=x"):
            assert (await api.client.post(f"/v1/contacts/imports{bad}", content=body)).status_code == 422
        assert (await api.anonymous.post("/v1/contacts/imports", content=body)).status_code == 401
        assert local_files() == kept


@pytest.mark.promise("person-erased")
def test_report_redacts_every_spelling_of_an_address(tmp_path: Path) -> None:
    report = tmp_path / "report.csv"
    lines = '2,{one},refused,x\n3,ada@example.com.br,added,\n4,bada@example.com,added,\n5,"a\n{two}",refused,x\n'
    report.write_text(lines.format(one="ADA@Example.com", two=ADA), encoding="utf-8")
    redact_address(report, ADA)
    stars = "*" * len(ADA)
    assert report.read_text(encoding="utf-8") == lines.format(one=stars, two=stars)
    redact_address(tmp_path / "nothing.csv", ADA)
    assert not (tmp_path / "nothing.csv").exists()


async def personal_count(api: Any) -> int:
    return len((await api.client.get("/v1/contacts")).json()["contacts"])


@pytest.mark.promise("person-erased")
async def test_late_reports_never_restore_an_erased_contact(database: Database, clock: ManualClock) -> None:
    sent, _ = await contact_with_history(database, clock)
    before_erasing = clock.now() - 1
    await erasure.erase(database, clock, 1, ADA, actor="console")
    statuses = ContactStatusService(database, clock)
    await statuses.unsubscribe_by_link(1, ADA, "news", source="link")
    await statuses.unsubscribe_by_link(1, ADA, source="link")
    await database.transact(
        lambda tx: apply_facts(tx, [unsubscribe_fact(1, ADA, "general", source="ses", at=before_erasing)], 1)
    )
    words = {"reason": f"no such user {ADA}"}
    expected = Report(
        "r-1", "ses", EventType.BOUNCED, clock.now(), ADA, sent, None, ContactVerdict.HARD_BOUNCE, metadata=words
    )
    assert (await Reports(database, clock).receive([expected])).new == 1
    await statuses.bounce(1, ADA, source="ses")
    with pytest.raises(NotFound):
        await contacts.find_by_email(database, 1, ADA)
    assert "ada@" not in (await database_text(database)).lower()
    async with database.read() as tx:
        entries = await suppressions.list_for_address(tx, 1, ADA)
    assert [(entry.list_key, entry.source) for entry in entries] == [("*", "ses"), ("general", "erasure")]
    await statuses.subscribe(1, ADA, "news", source="form")  # Only the contact can subscribe again.
    assert (await contacts.find_by_email(database, 1, ADA)).email == ADA


async def test_audit_entries_of_an_address_without_contact_are_erased(database: Database, clock: ManualClock) -> None:
    await suppressions.add(database, clock, 1, ADA, reason="asked", source="api", list_key="general", actor="ada")
    await suppressions.remove(database, 1, ADA, actor="bob", clock=clock)
    await erasure.erase(database, clock, 1, ADA, actor="tests")
    assert ADA not in await database_text(database)
    assert await suppressions.is_suppressed(database, 1, ADA, "general")
    with pytest.raises(NotFound):
        await erasure.erase(database, clock, 1, ADA, actor="tests")


async def test_suppressed_address_without_contact_is_erased(database: Database, clock: ManualClock) -> None:
    await suppressions.add(database, clock, 1, ADA, reason="asked", source="api")
    await erasure.erase(database, clock, 1, ADA, actor="tests")
    assert await suppressions.is_suppressed(database, 1, ADA)
    with pytest.raises(NotFound):
        await erasure.erase(database, clock, 2, ADA, actor="tests")
