"""What ends and what lifts a no in an imported file, on both engines."""

from pathlib import Path

import pytest
from sqlalchemy import select

from mailwright.actions.exclusions import exclusion_text
from mailwright.audience import lists
from mailwright.audience.exclusions import NamedAudience, list_excluded
from mailwright.audience.growth import AudienceGrowth, load_growth
from mailwright.audience.importing.imports import Imports
from mailwright.audience.importing.plan import ImportOptions
from mailwright.audience.legal_basis import LegalBasis, LegalBasisRecord
from mailwright.audience.status import (
    ContactStatusService,
    apply_facts,
    revert_visit,
    unsubscribe_fact,
    unsubscribe_visitor,
)
from mailwright.domain.clock import DAY
from mailwright.domain.errors import InvalidInput
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.storage.tables import contacts, deliveries, messages, suppressions
from mailwright.texts.subscription_answers import preview_figures
from tests.builders import DEFAULT_TENANT, Bench
from tests.campaigns import NEWS, join
from tests.contract.audience.test_import_answers import (
    a_file,
    confirmation_emails,
    import_,
    make_double_opt_in,
    make_imports,
    recipients,
)

ADA, BOB = "ada@example.com", "bob@example.com"
CLUB = "club"


@pytest.fixture
async def imports(bench: Bench) -> Imports:
    for list_key in (NEWS, CLUB):
        await lists.create(bench.database, bench.clock, DEFAULT_TENANT, list_key)
    return make_imports(bench)


@pytest.fixture
def says_no(tmp_path: Path) -> Path:
    return a_file(tmp_path, "email,Newsletter?", f"{ADA},no")


@pytest.fixture
def says_yes(tmp_path: Path) -> Path:
    (tmp_path / "later").mkdir()
    return a_file(tmp_path / "later", "email,Newsletter?", f"{ADA},yes")


async def source_of_suppression(bench: Bench, list_key: str) -> str:
    async with bench.database.read() as tx:
        rows = await tx.execute(select(suppressions.c.source).where(suppressions.c.list_key == list_key))
    return str(rows[0].source)


@pytest.mark.parametrize("is_stated", [False, True], ids=["confirmed", "stated"])
async def test_joining_one_list_does_not_bring_back_the_others(
    bench: Bench, imports: Imports, says_no: Path, is_stated: bool
) -> None:
    await join(bench.database, [ADA, BOB])
    await import_(imports, says_no, list_key=None)
    if is_stated:
        await ContactStatusService(bench.database, bench.clock).subscribe(DEFAULT_TENANT, ADA, CLUB, source="ada")
    else:
        double_opt_in = make_double_opt_in(bench)
        assert await double_opt_in.subscribe(DEFAULT_TENANT, ADA, CLUB, source="form")
        assert await double_opt_in.confirm(DEFAULT_TENANT, ADA, CLUB)
    assert await recipients(bench, lists=[NEWS], name="news") == [BOB]
    assert await recipients(bench, lists=[CLUB], name="club") == [ADA]


async def test_no_without_a_list_ends_the_legal_basis(
    bench: Bench, imports: Imports, says_no: Path, tmp_path: Path
) -> None:
    people = tmp_path / "all.csv"
    people.write_text(f"email\n{ADA}\n{BOB}\n", encoding="utf-8")
    basis = LegalBasisRecord(LegalBasis.CONTRACT, "Contracts of 2026", "ada")
    await import_(imports, people, list_key=None, legal_basis=basis)
    await import_(imports, says_no, list_key=None)
    async with bench.database.read() as tx:
        rows = await tx.execute(select(contacts.c.email).where(contacts.c.legal_basis.is_not(None)))
    assert [row.email for row in rows] == [BOB]


async def test_former_subscriber_comes_back_with_a_sign_up(bench: Bench, imports: Imports, says_no: Path) -> None:
    await join(bench.database, [ADA, BOB])
    await import_(imports, says_no, list_key=None)
    double_opt_in = make_double_opt_in(bench)
    assert await double_opt_in.subscribe(DEFAULT_TENANT, ADA, NEWS, source="form")
    assert await confirmation_emails(bench) == [ADA]
    assert await double_opt_in.confirm(DEFAULT_TENANT, ADA, NEWS)
    assert await recipients(bench, lists=[NEWS], name="news") == [ADA, BOB]


async def test_activating_does_not_bring_back_the_lists(bench: Bench, imports: Imports, says_no: Path) -> None:
    await join(bench.database, [ADA, BOB])
    await import_(imports, says_no, list_key=None)
    await ContactStatusService(bench.database, bench.clock).activate(DEFAULT_TENANT, ADA, source="operator")
    assert await recipients(bench, lists=[NEWS], name="news") == [BOB]
    assert await make_double_opt_in(bench).subscribe(DEFAULT_TENANT, ADA, NEWS, source="form")  # has to confirm


@pytest.mark.parametrize("list_key", [NEWS, None])
async def test_own_unsubscribe_replaces_a_no(
    bench: Bench, imports: Imports, says_no: Path, says_yes: Path, list_key: str | None
) -> None:
    await lists.edit(bench.database, bench.clock, DEFAULT_TENANT, NEWS, requires_confirmation=True, actor="ada")
    await import_(imports, says_no, list_key=list_key, is_confirmed=True)
    bench.clock.advance(DAY)
    statuses = ContactStatusService(bench.database, bench.clock)
    await statuses.unsubscribe_by_link(DEFAULT_TENANT, ADA, list_key or GENERAL, source="link")
    assert await source_of_suppression(bench, list_key or GENERAL) == "link"
    bench.clock.advance(DAY)
    await import_(imports, says_no, list_key=list_key, is_confirmed=True)
    await import_(imports, says_yes, asks=True)
    assert await confirmation_emails(bench) == []
    await statuses.subscribe(DEFAULT_TENANT, ADA, CLUB, source="ada")
    assert await source_of_suppression(bench, list_key or GENERAL) == "link"


async def test_visit_by_a_machine_does_not_lift_a_no(bench: Bench, imports: Imports, says_no: Path) -> None:
    await join(bench.database, [ADA, BOB])
    await import_(imports, says_no)
    bench.clock.advance(DAY)
    now = bench.clock.now()
    async with bench.database.write() as tx:
        await unsubscribe_visitor(tx, DEFAULT_TENANT, ADA, NEWS, source="link", message_id=None, now=now)
        await revert_visit(tx, DEFAULT_TENANT, ADA, NEWS, at=now, now=now)
    assert await recipients(bench, lists=[NEWS], name="news") == [BOB]


async def test_no_to_a_list_concerns_only_this_list(bench: Bench, imports: Imports, says_no: Path) -> None:
    await import_(imports, says_no)
    double_opt_in = make_double_opt_in(bench)
    assert not await double_opt_in.subscribe(DEFAULT_TENANT, ADA, CLUB, source="form")
    assert await double_opt_in.subscribe(DEFAULT_TENANT, ADA, NEWS, source="form")


@pytest.mark.parametrize("list_key", [NEWS, None])
async def test_former_subscriber_who_says_yes_is_asked_once(
    bench: Bench, imports: Imports, says_no: Path, says_yes: Path, list_key: str | None
) -> None:
    await join(bench.database, [ADA, BOB])
    await lists.edit(bench.database, bench.clock, DEFAULT_TENANT, NEWS, requires_confirmation=True, actor="ada")
    await import_(imports, says_no, list_key=list_key, is_confirmed=True)
    for _ in range(2):
        await import_(imports, says_yes, asks=True)
        bench.clock.advance(DAY)
        assert await confirmation_emails(bench) == [ADA]
    assert await recipients(bench, lists=[NEWS], name="news") == [BOB]
    await make_double_opt_in(bench).confirm(DEFAULT_TENANT, ADA, NEWS)
    assert await recipients(bench, lists=[NEWS], name="confirmed") == [ADA, BOB]


async def test_asked_contact_who_never_joined_did_not_leave(bench: Bench, imports: Imports, says_no: Path) -> None:
    await import_(imports, says_no)
    await make_double_opt_in(bench).subscribe(DEFAULT_TENANT, ADA, NEWS, source="form")
    since = bench.clock.now() - DAY
    assert await load_growth(bench.database, DEFAULT_TENANT, since=since) == AudienceGrowth(0, 0, 0)


async def confirmation_statuses(bench: Bench) -> list[str]:
    """Return the statuses of the confirmation emails."""
    query = select(deliveries.c.status).join_from(deliveries, messages, messages.c.id == deliveries.c.message_key)
    async with bench.database.read() as tx:
        rows = await tx.execute(query.where(messages.c.subject.contains("onfirm")).order_by(messages.c.id))
    return [row.status for row in rows]


async def say_no(bench: Bench, imports: Imports, says_no: Path, how: str) -> None:
    statuses = ContactStatusService(bench.database, bench.clock)
    match how:
        case "file":
            await import_(imports, says_no, is_confirmed=True)
        case "file without a list":
            await import_(imports, says_no, list_key=None, is_confirmed=True)
        case "unsubscribe":
            await statuses.unsubscribe_by_link(DEFAULT_TENANT, ADA, NEWS, source="link")
        case "general unsubscribe":
            await statuses.unsubscribe_by_link(DEFAULT_TENANT, ADA, GENERAL, source="link")
        case "complaint":
            await statuses.complain(DEFAULT_TENANT, ADA, source="report")


@pytest.mark.parametrize("how", ["file", "file without a list", "unsubscribe", "general unsubscribe", "complaint"])
async def test_no_ends_an_unconfirmed_request(bench: Bench, imports: Imports, says_no: Path, how: str) -> None:
    double_opt_in = make_double_opt_in(bench)
    await lists.edit(bench.database, bench.clock, DEFAULT_TENANT, NEWS, requires_confirmation=True, actor="ada")
    assert await double_opt_in.subscribe(DEFAULT_TENANT, ADA, NEWS, source="form")
    bench.clock.advance(DAY)
    await say_no(bench, imports, says_no, how)
    assert await confirmation_statuses(bench) == ["CANCELLED"]
    assert not await double_opt_in.confirm(DEFAULT_TENANT, ADA, NEWS)
    await join(bench.database, [BOB])
    assert await recipients(bench, lists=[NEWS], name="news") == [BOB]


async def test_no_in_a_later_file_ends_the_earlier_question(
    bench: Bench, imports: Imports, says_no: Path, says_yes: Path
) -> None:
    await lists.edit(bench.database, bench.clock, DEFAULT_TENANT, NEWS, requires_confirmation=True, actor="ada")
    for path in (says_no, says_yes, says_no):
        _, remarks = await import_(imports, path, asks=True)
        bench.clock.advance(DAY)
    assert remarks[ADA].startswith("can no longer confirm with an earlier email")
    assert await confirmation_statuses(bench) == ["CANCELLED"]
    assert not await make_double_opt_in(bench).confirm(DEFAULT_TENANT, ADA, NEWS)


async def test_request_after_a_no_starts_again(bench: Bench, imports: Imports, says_no: Path) -> None:
    double_opt_in = make_double_opt_in(bench)
    await double_opt_in.subscribe(DEFAULT_TENANT, ADA, CLUB, source="form")
    await lists.edit(bench.database, bench.clock, DEFAULT_TENANT, CLUB, requires_confirmation=True, actor="ada")
    for at in range(2):
        await import_(imports, says_no, list_key=CLUB, is_confirmed=True)
        bench.clock.advance(1)
        await double_opt_in.subscribe(DEFAULT_TENANT, ADA, CLUB, source="form")
        assert len(await confirmation_statuses(bench)) == at + 1
    assert await confirmation_statuses(bench) == ["CANCELLED", "PENDING"]
    assert await double_opt_in.confirm(DEFAULT_TENANT, ADA, CLUB)


async def test_unsubscribe_that_is_older_than_the_request_ends_nothing(bench: Bench, imports: Imports) -> None:
    double_opt_in, now = make_double_opt_in(bench), bench.clock.now()
    await lists.edit(bench.database, bench.clock, DEFAULT_TENANT, NEWS, requires_confirmation=True, actor="ada")
    bench.clock.advance(DAY)
    await double_opt_in.subscribe(DEFAULT_TENANT, ADA, NEWS, source="form")
    fact = unsubscribe_fact(DEFAULT_TENANT, ADA, NEWS, source="report", at=now)
    async with bench.database.write() as tx:
        await apply_facts(tx, [fact], bench.clock.now())
    assert await double_opt_in.confirm(DEFAULT_TENANT, ADA, NEWS)


async def test_yes_after_a_question_counts_as_changed(bench: Bench, imports: Imports, says_yes: Path) -> None:
    await lists.edit(bench.database, bench.clock, DEFAULT_TENANT, NEWS, requires_confirmation=True, actor="ada")
    await import_(imports, says_yes, asks=True)
    done, _ = await import_(imports, says_yes, is_confirmed=True)
    assert (done.changed, done.unchanged, done.subscribed) == (1, 0, 1)


async def test_kept_subscription_is_described_without_contradiction(
    bench: Bench, imports: Imports, says_no: Path
) -> None:
    await join(bench.database, [ADA])
    _, remarks = await import_(imports, says_no, keeps_subscriptions=True)
    assert remarks[ADA] == "stays subscribed, as chosen for this import; the file says Newsletter?: no"


async def test_preview_shows_who_said_no_before(bench: Bench, imports: Imports, says_no: Path, tmp_path: Path) -> None:
    await import_(imports, says_no)
    await ContactStatusService(bench.database, bench.clock).bounce(DEFAULT_TENANT, BOB, source="report")
    (tmp_path / "new").mkdir()
    path = a_file(tmp_path / "new", "email,Newsletter?", f"{ADA},yes", f"{BOB},yes", "cyd@example.com,yes")
    seen = await imports.preview(DEFAULT_TENANT, path, ImportOptions(NEWS))
    assert [(line, email) for line, email, _ in seen.first_blocked] == [(2, ADA), (3, BOB)]
    assert "people.csv, line 2, Newsletter?: no" in seen.blocked[ADA]
    assert [(str(label), number) for label, number, _ in preview_figures(seen)][:3] == [
        ("Subscribed", 1),
        ("Not subscribed: unsubscribed or suppressed before", 2),
        ("Not subscribed", 0),
    ]


async def test_preview_says_that_the_list_needs_consent(bench: Bench, imports: Imports, says_yes: Path) -> None:
    await lists.edit(bench.database, bench.clock, DEFAULT_TENANT, NEWS, requires_confirmation=True, actor="ada")
    seen = await imports.preview(DEFAULT_TENANT, says_yes, ImportOptions(NEWS))
    assert any("`confirmed`" in note for note in seen.plan.warnings)
    with pytest.raises(InvalidInput, match="requires confirmation"):
        await imports.begin(DEFAULT_TENANT, says_yes, ImportOptions(NEWS))


@pytest.mark.parametrize("list_key", [NEWS, None])
async def test_excluded_contacts_name_the_no_of_the_file(
    bench: Bench, imports: Imports, says_no: Path, list_key: str | None
) -> None:
    await join(bench.database, [ADA, BOB])
    await import_(imports, says_no, list_key=list_key)
    audience = NamedAudience(DEFAULT_TENANT, [NEWS])
    async with bench.database.read() as tx:
        [excluded] = await list_excluded(tx, audience, bench.clock.now(), limit=10)
    assert str(exclusion_text(excluded)) == "said no in an imported file (people.csv, line 2, Newsletter?: no)"
