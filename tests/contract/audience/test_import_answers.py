"""Files that say who wants the newsletter, on both engines: nobody who said no is subscribed or gets a campaign."""

import csv
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select

from mailwright.app.system_emails import render_branded
from mailwright.audience import contacts, lists
from mailwright.audience.double_opt_in import ConfirmationLinks, DoubleOptIn
from mailwright.audience.importing.columns import suggest_target
from mailwright.audience.importing.imports import Import, Imports
from mailwright.audience.importing.plan import ImportOptions
from mailwright.audience.importing.report import ReportFile
from mailwright.audience.importing.subscription_answers import SubscriptionAnswer, read_answer
from mailwright.audience.legal_basis import LegalBasis, LegalBasisRecord
from mailwright.audience.objections import find_objections
from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import HOUR, MINUTE
from mailwright.domain.errors import InvalidInput
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.outbox.audit_log import SearchedWord, list_entries
from mailwright.storage.tables import contacts as contacts_table
from mailwright.storage.tables import lists as lists_table
from mailwright.storage.tables import messages, subscriptions
from tests.builders import DEFAULT_TENANT, Bench
from tests.campaigns import NEWS, CampaignHarness, join

YES, NO = SubscriptionAnswer.YES, SubscriptionAnswer.NO
EMPTY, UNREADABLE = SubscriptionAnswer.EMPTY, SubscriptionAnswer.UNREADABLE
CONTENT = {"subject": "News", "body": '<p>Hello</p><a href="{{ unsubscribe_url }}">Leave</a>'}


@pytest.fixture
async def imports(bench: Bench) -> Imports:
    await lists.create(bench.database, bench.clock, DEFAULT_TENANT, NEWS)
    return make_imports(bench)


def make_imports(bench: Bench) -> Imports:
    async def double_opt_in() -> DoubleOptIn:
        return make_double_opt_in(bench)

    return Imports(bench.database, bench.clock, double_opt_in=double_opt_in)


def make_double_opt_in(bench: Bench) -> DoubleOptIn:
    links = ConfirmationLinks("https://mail.example.com", UnsubscribeTokens("a secret of sixteen letters or more"))
    return DoubleOptIn(bench.database, bench.clock, links, render_branded)


async def confirmation_emails(bench: Bench) -> list[str]:
    """Return who was sent a confirmation email."""
    async with bench.database.read() as tx:
        rows = await tx.execute(select(messages.c.to_email).where(messages.c.subject.contains("onfirm")))
    return sorted(row.to_email for row in rows)


def a_file(folder: Path, *lines: str) -> Path:
    path = folder / "people.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


async def import_(imports: Imports, path: Path, **options: Any) -> tuple[Import, dict[str, str]]:
    """Import a file. Return the import, and the remark about each address in its report."""
    report = path.with_suffix(".report.csv")
    started = await imports.begin(DEFAULT_TENANT, path, ImportOptions(**{"list_key": NEWS, **options}), continues=False)
    done = [each async for each in imports.run(started, path, ReportFile(report))][-1]
    with report.open(newline="", encoding="utf-8") as file:
        return done, {line[1]: line[3] for line in list(csv.reader(file))[1:]}


async def subscribers(bench: Bench) -> dict[str, str]:
    """Return the current subscribers of the list, each with the record of the subscription."""
    query = (
        select(contacts_table.c.email, subscriptions.c.source)
        .join_from(contacts_table, subscriptions, subscriptions.c.contact_key == contacts_table.c.id)
        .where(subscriptions.c.list_key == NEWS, subscriptions.c.unsubscribed_at.is_(None))
    )
    async with bench.database.read() as tx:
        return {row.email: row.source for row in await tx.execute(query)}


async def recipients(bench: Bench, **definition: Any) -> list[str]:
    """Send a campaign, and return who has a message."""
    desk = CampaignHarness(bench)
    campaign_id = await desk.start(content=CONTENT, **definition)
    await desk.run_scheduler()
    await bench.drain()
    return sorted(await desk.addresses(campaign_id))


@pytest.mark.parametrize("title", ["Newsletter?", "opt_in", "Рассылка", "Aceita newsletter", "subscribed", "OPT-IN"])
def test_title_of_an_answer_is_recognised(title: str) -> None:
    assert suggest_target(title) == "subscribed"


@pytest.mark.parametrize("title", ["Unsubscribed", "Opted out", "do_not_email"])
def test_title_of_an_objection_is_recognised(title: str) -> None:
    assert suggest_target(title) == "opted_out"


@pytest.mark.parametrize(
    ("texts", "answer"),
    [
        ("yes|Yes |Yes please|да|ДА|sim|1|1.0|true|TRUE|x|X|х|y|✓|subscribed", YES),
        ("no|No.|No, thank you!|Nein danke|Don’t|Нет, спасибо|нет|não|NÃO|nao|0|false|n|unsubscribed", NO),
        ("|  ", EMPTY),
        ("maybe|yes or no|thanks|no data|2|2024-01-31|weekly|?|-", UNREADABLE),
    ],
)
def test_cells_are_read_as_answers(texts: str, answer: SubscriptionAnswer) -> None:
    assert {text: read_answer(text) for text in texts.split("|")} == dict.fromkeys(texts.split("|"), answer)


def test_yes_to_an_objection_is_a_no() -> None:
    read = {text: read_answer(text, is_opt_out=True) for text in ("yes", "no", "", "maybe")}
    assert read == {"yes": NO, "no": None, "": None, "maybe": UNREADABLE}


async def test_campaign_reaches_nobody_who_said_no(bench: Bench, imports: Imports, tmp_path: Path) -> None:
    path = a_file(
        tmp_path,
        "Email,Newsletter?",
        "ada@example.com,yes",
        "bob@example.com,no",
        "cyd@example.com,",
        "dan@example.com,maybe",
        "eve@example.com,Да",
        "fay@example.com,нет",
        "gil@example.com,yes",
        "gil@example.com,no",
    )
    done, remarks = await import_(imports, path)
    assert (done.added, done.refused, done.repeated) == (7, 0, 1)
    assert "Newsletter?: only contacts whose cell says yes are subscribed." in done.plan.warnings
    assert remarks["bob@example.com"] == "not subscribed, because the file says Newsletter?: no"
    assert remarks["cyd@example.com"] == "not subscribed by this row, because Newsletter? is empty"
    assert remarks["dan@example.com"] == "not subscribed by this row, because Newsletter?: maybe is neither yes nor no"
    assert remarks["ada@example.com"] == ""
    found = await subscribers(bench)
    assert sorted(found) == ["ada@example.com", "eve@example.com"]
    # The record of the consent names the import, the file, the row, the column and the answer.
    assert found["eve@example.com"] == f"import:{done.import_id} (people.csv, line 6, Newsletter?: Да)"
    assert (await contacts.load_details(bench.database, DEFAULT_TENANT, "bob@example.com")).contact.attributes == {}
    assert await recipients(bench, lists=[NEWS]) == ["ada@example.com", "eve@example.com"]


async def test_no_also_prevents_a_legal_basis(bench: Bench, imports: Imports, tmp_path: Path) -> None:
    path = a_file(tmp_path, "email,opt_in", "ada@example.com,1", "bob@example.com,0", "cyd@example.com,")
    basis = LegalBasisRecord(LegalBasis.CONTRACT, "Contracts of 2026", "ada")
    await import_(imports, path, list_key=None, legal_basis=basis)
    query = select(contacts_table.c.email).where(contacts_table.c.legal_basis.is_not(None))
    async with bench.database.read() as tx:
        assert [row.email for row in await tx.execute(query)] == ["ada@example.com"]


async def test_audit_log_names_the_legal_basis_a_no_ends(bench: Bench, imports: Imports, tmp_path: Path) -> None:
    basis = LegalBasisRecord(LegalBasis.CONTRACT, "Contracts of 2026", "ada")
    path = a_file(tmp_path, "email,opt_in", "ada@example.com,1", "bob@example.com,1", "cyd@example.com,")
    await import_(imports, path, list_key=None, legal_basis=basis)
    said_no = a_file(tmp_path, "email,opt_in", "ada@example.com,0", "cyd@example.com,0")
    await import_(imports, said_no, list_key=None)
    [entry] = await list_entries(bench.database, tenant_id=DEFAULT_TENANT, limit=9, action="contact.end_legal_basis")
    assert (entry.actor, entry.subject) == ("import", "ada@example.com")
    assert "line 2, opt_in: 0" in entry.detail["source"]
    [same] = await list_entries(bench.database, tenant_id=None, limit=9, words=[SearchedWord("OPT_IN", [], [])])
    assert same == entry


async def test_objections_are_left_out_and_all_others_subscribed(
    bench: Bench, imports: Imports, tmp_path: Path
) -> None:
    path = a_file(tmp_path, "email,Unsubscribed", "ada@example.com,no", "bob@example.com,yes", "cyd@example.com,")
    await import_(imports, path)
    assert sorted(await subscribers(bench)) == ["ada@example.com", "cyd@example.com"]


async def test_no_ends_a_subscription_and_says_so_unless_kept(bench: Bench, imports: Imports, tmp_path: Path) -> None:
    path = a_file(tmp_path, "email,Newsletter", "ada@example.com,no", "bob@example.com,no", "bob@example.com,yes")
    await join(bench.database, ["ada@example.com", "bob@example.com", "cyd@example.com"])
    kept, remarks = await import_(imports, path, keeps_subscriptions=True)
    assert kept.changed == 0
    assert remarks["ada@example.com"].startswith("stays subscribed, as chosen for this import")
    assert sorted(await subscribers(bench)) == ["ada@example.com", "bob@example.com", "cyd@example.com"]
    done, remarks = await import_(imports, path)
    assert done.changed == 2
    assert remarks["ada@example.com"].startswith("unsubscribed from the list; not subscribed, because the file says")
    assert sorted(await subscribers(bench)) == ["cyd@example.com"]
    assert await recipients(bench, lists=[NEWS]) == ["cyd@example.com"]


@pytest.mark.parametrize("later", ["email", "email,Newsletter?"])
async def test_later_import_respects_a_no(bench: Bench, imports: Imports, tmp_path: Path, later: str) -> None:
    first, _ = await import_(imports, a_file(tmp_path, "email,Newsletter?", "ada@example.com,no", "bob@example.com,"))
    assert (first.added, first.said_no, first.unanswered, first.subscribed) == (2, 1, 1, 0)
    answer = ",yes" if "," in later else ""
    done, remarks = await import_(
        imports, a_file(tmp_path, later, f"ada@example.com{answer}", f"bob@example.com{answer}")
    )
    assert remarks["ada@example.com"] == "said no before (people.csv, line 2, Newsletter?: no); stays unsubscribed"
    assert (done.subscribed, done.unchanged, done.changed) == (1, 1, 1)
    assert sorted(await subscribers(bench)) == ["bob@example.com"]


async def test_no_is_an_unsubscribe_with_its_record_and_time(bench: Bench, imports: Imports, tmp_path: Path) -> None:
    await import_(imports, a_file(tmp_path, "email,Newsletter?", "ada@example.com,нет"))
    details = await contacts.load_details(bench.database, DEFAULT_TENANT, "ada@example.com")
    [membership] = details.lists
    assert (membership.subscribed_at, membership.unsubscribed_at) == (None, bench.clock.now())
    async with bench.database.read() as tx:
        [objection] = (await find_objections(tx, DEFAULT_TENANT, ["ada@example.com"]))["ada@example.com"]
    assert (objection.list_key, objection.proof) == (NEWS, "people.csv, line 2, Newsletter?: нет")


async def test_no_counts_for_other_lists_unless_the_file_says_yes(
    bench: Bench, imports: Imports, tmp_path: Path
) -> None:
    await lists.create(bench.database, bench.clock, DEFAULT_TENANT, "offers")
    await import_(imports, a_file(tmp_path, "email,Newsletter?", "ada@example.com,no"))
    _, remarks = await import_(imports, a_file(tmp_path, "email", "ada@example.com"), list_key="offers")
    assert remarks["ada@example.com"].startswith("not subscribed, because they said no to the list news before (people")
    done, _ = await import_(imports, a_file(tmp_path, "email,Newsletter?", "ada@example.com,yes"), list_key="offers")
    assert done.subscribed == 1


async def test_no_without_a_list_ends_all_bulk_email(bench: Bench, imports: Imports, tmp_path: Path) -> None:
    await join(bench.database, ["ada@example.com", "bob@example.com"])
    path = a_file(tmp_path, "email,Newsletter?", "ada@example.com,no", "cyd@example.com,no")
    kept, remarks = await import_(imports, path, list_key=None, keeps_subscriptions=True)
    assert remarks["ada@example.com"].startswith("stays subscribed, as chosen for this import")
    _, remarks = await import_(imports, path, list_key=None)
    assert remarks["ada@example.com"].startswith("unsubscribed from all bulk email; not subscribed, because")
    assert remarks["cyd@example.com"].startswith("said no before (people.csv, line 3, Newsletter?: no)")
    again, _ = await import_(imports, path, list_key=None)
    assert (kept.added, again.unchanged) == (1, 2)
    _, remarks = await import_(imports, a_file(tmp_path, "email", "cyd@example.com"))
    assert remarks["cyd@example.com"].startswith("said no before")
    assert await recipients(bench, lists=[NEWS]) == ["bob@example.com"]


async def test_only_a_confirmation_or_a_stated_consent_lifts_a_no(
    bench: Bench, imports: Imports, tmp_path: Path
) -> None:
    people = ["ada@example.com", "bob@example.com", "cyd@example.com"]
    await import_(imports, a_file(tmp_path, "email,Newsletter?", *(f"{email},no" for email in people)), list_key=None)
    double_opt_in = make_double_opt_in(bench)
    for email in people[:2]:
        assert await double_opt_in.subscribe(DEFAULT_TENANT, email, NEWS, source="ada")  # has to confirm
    await double_opt_in.confirm(DEFAULT_TENANT, "ada@example.com", NEWS)
    stated = ContactStatusService(bench.database, bench.clock)
    await stated.subscribe(DEFAULT_TENANT, "cyd@example.com", NEWS, source="ada")
    assert await recipients(bench, lists=[NEWS]) == ["ada@example.com", "cyd@example.com"]


async def test_contacts_without_an_answer_are_asked(bench: Bench, imports: Imports, tmp_path: Path) -> None:
    await lists.edit(bench.database, bench.clock, DEFAULT_TENANT, NEWS, requires_confirmation=True, actor="ada")
    await import_(imports, a_file(tmp_path, "email,Newsletter?", "fay@example.com,no"), is_confirmed=True)
    await ContactStatusService(bench.database, bench.clock).bounce(DEFAULT_TENANT, "gil@example.com", source="test")
    lines = ["ada@example.com,yes", "bob@example.com,no", "cyd@example.com,", "dan@example.com,maybe"]
    path = a_file(tmp_path, "email,Newsletter?", *lines, "fay@example.com,yes", "gil@example.com,")
    done, remarks = await import_(imports, path, asks=True, is_confirmed=True)
    counts = (done.subscribed, done.asked, done.said_no, done.unanswered, done.unreadable)
    assert counts == (1, 3, 1, 2, 1)
    assert remarks["dan@example.com"].startswith("gets a confirmation email; not subscribed by this row")
    asked = ["cyd@example.com", "dan@example.com", "fay@example.com"]
    assert await confirmation_emails(bench) == asked
    await import_(imports, path, asks=True, is_confirmed=True)  # nobody is asked twice
    assert await confirmation_emails(bench) == asked
    assert await recipients(bench, lists=[NEWS]) == ["ada@example.com"]


async def test_interrupted_import_asks_everybody_once(bench: Bench, imports: Imports, tmp_path: Path) -> None:
    await lists.edit(bench.database, bench.clock, DEFAULT_TENANT, NEWS, requires_confirmation=True, actor="ada")
    path = a_file(tmp_path, "email", "ada@example.com", "bob@example.com")
    begun = await imports.begin(DEFAULT_TENANT, path, ImportOptions(NEWS, asks=True))
    stopped = imports.run(begun, path)
    await anext(stopped)  # the rows are stored, nobody is asked yet
    await stopped.aclose()
    assert await confirmation_emails(bench) == []
    continued = await imports.begin(DEFAULT_TENANT, path, ImportOptions(NEWS, asks=True))
    done = [each async for each in imports.run(continued, path)][-1]
    assert (done.import_id, done.asked) == (begun.import_id, 2)
    assert await confirmation_emails(bench) == ["ada@example.com", "bob@example.com"]


async def test_interruption_while_asking_asks_everybody_once(bench: Bench, imports: Imports, tmp_path: Path) -> None:
    await lists.edit(bench.database, bench.clock, DEFAULT_TENANT, NEWS, requires_confirmation=True, actor="ada")
    people = [f"reader{number:03}@example.com" for number in range(120)]
    path = a_file(tmp_path, "email", *people)
    begun = await imports.begin(DEFAULT_TENANT, path, ImportOptions(NEWS, asks=True))
    stopped = imports.run(begun, path)
    await anext(stopped)
    bench.clock.advance(MINUTE)
    progress = await anext(stopped)
    await stopped.aclose()
    assert (progress.updated_at, progress.finished_at) == (bench.clock.now(), None)
    assert 0 < len(await confirmation_emails(bench)) < 120
    bench.clock.advance(HOUR)
    continued = await imports.begin(DEFAULT_TENANT, path, ImportOptions(NEWS, asks=True))
    assert (continued.import_id, continued.updated_at) == (begun.import_id, progress.updated_at)
    assert [each async for each in imports.run(continued, path)][-1].finished_at is not None
    assert await confirmation_emails(bench) == people


async def test_import_ends_if_its_list_is_deleted_before_asking(bench: Bench, imports: Imports, tmp_path: Path) -> None:
    await lists.edit(bench.database, bench.clock, DEFAULT_TENANT, NEWS, requires_confirmation=True, actor="ada")
    path = a_file(tmp_path, "email", "ada@example.com")
    running = imports.run(await imports.begin(DEFAULT_TENANT, path, ImportOptions(NEWS, asks=True)), path)
    await anext(running)
    async with bench.database.write() as tx:
        await tx.execute(delete(lists_table).where(lists_table.c.list_key == NEWS))
    assert [each async for each in running][-1].finished_at is not None
    assert await confirmation_emails(bench) == []


async def test_confirmed_yes_after_asking_subscribes_with_its_own_proof(
    bench: Bench, imports: Imports, tmp_path: Path
) -> None:
    await lists.edit(bench.database, bench.clock, DEFAULT_TENANT, NEWS, requires_confirmation=True, actor="ada")
    await import_(imports, a_file(tmp_path, "Email,Newsletter?", "ada@example.com,"), asks=True)
    await import_(imports, a_file(tmp_path, "Email,Newsletter?", "ada@example.com,yes"), is_confirmed=True)
    assert (await subscribers(bench))["ada@example.com"].endswith("Newsletter?: yes)")
    async with bench.database.read() as tx:
        [row] = await tx.execute(select(subscriptions.c.is_pending, subscriptions.c.subscribed_at))
    assert (row.is_pending, row.subscribed_at is None) == (False, False)


async def test_asking_needs_a_list_with_double_opt_in(imports: Imports, tmp_path: Path) -> None:
    path = a_file(tmp_path, "email", "ada@example.com")
    with pytest.raises(InvalidInput, match="does not use double opt-in"):
        await imports.begin(DEFAULT_TENANT, path, ImportOptions(NEWS, asks=True))


async def test_preview_counts_the_answers(imports: Imports, tmp_path: Path) -> None:
    path = a_file(tmp_path, "email,Newsletter?", "ada@example.com,yes", "bob@example.com,no", "cyd@example.com,soon")
    seen = await imports.preview(DEFAULT_TENANT, path, ImportOptions(NEWS))
    assert seen.answers == {YES: 1, NO: 1, UNREADABLE: 1}
    assert [(line, row.proof) for line, row in seen.first_unreadable] == [(4, "Newsletter?: soon")]
    ignored = await imports.preview(DEFAULT_TENANT, path, ImportOptions(NEWS, column_targets={"Newsletter?": "-"}))
    assert not ignored.answers
    assert "contacts who said no are subscribed too" in " ".join(ignored.plan.warnings)
