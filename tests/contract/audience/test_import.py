"""Imports of contacts, on both engines: every readable row is stored once, and nobody is reactivated."""

import asyncio
import csv
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import func, select, update

from mailwright.app.system_emails import render_branded
from mailwright.audience import contacts, erasure, export, lists
from mailwright.audience.double_opt_in import ConfirmationLinks, DoubleOptIn
from mailwright.audience.export import ExportSelection
from mailwright.audience.importing import imports as importing
from mailwright.audience.importing import records
from mailwright.audience.importing.columns import InvalidColumns
from mailwright.audience.importing.file_format import FileFormat, FileUnreadable
from mailwright.audience.importing.imports import Import, ImportRunsElsewhere, Imports
from mailwright.audience.importing.plan import ImportOptions
from mailwright.audience.importing.report import ReportFile
from mailwright.audience.importing.rows import ContactRow, RefusedRow
from mailwright.audience.lists import UnknownList
from mailwright.audience.status import ContactStatusService
from mailwright.audience.tracking_consent import TrackingConsent
from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import InvalidInput
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts as contacts_table
from mailwright.storage.tables import subscriptions

NEWS = "news"


@pytest.fixture
async def imports(database: Database, clock: ManualClock) -> Imports:
    await lists.create(database, clock, 1, NEWS)
    return Imports(database, clock)


def a_file(folder: Path, *lines: str, name: str = "people.csv", encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))
    return path


async def import_(imports: Imports, path: Path, report: Path | None = None, **purpose: Any) -> Import:
    wanted = ImportOptions(**{"list_key": NEWS, **purpose})
    started = await imports.begin(1, path, wanted)
    return [done async for done in imports.run(started, path, report and ReportFile(report))][-1]


def counts(done: Import) -> tuple[int, int, int, int]:
    return done.added, done.changed, done.unchanged, done.refused


def lines_of(report: Path) -> list[list[str]]:
    with report.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


async def on_list(database: Database, list_key: str = NEWS) -> list[str]:
    query = (
        select(contacts_table.c.email)
        .join_from(contacts_table, subscriptions, subscriptions.c.contact_key == contacts_table.c.id)
        .where(subscriptions.c.list_key == list_key, subscriptions.c.unsubscribed_at.is_(None))
    )
    async with database.read() as tx:
        return sorted(row.email for row in await tx.execute(query))


async def pending(database: Database, clock: ManualClock, email: str, list_key: str) -> None:
    """Create a subscription that waits for its confirmation."""
    links = ConfirmationLinks("http://mail.example", UnsubscribeTokens("a secret of sixteen letters or more"))
    assert await DoubleOptIn(database, clock, links, render_branded).subscribe(1, email, list_key, source="form")


@pytest.mark.promise("import-report")
async def test_every_row_is_stored_or_refused_and_reported(
    database: Database, imports: Imports, tmp_path: Path
) -> None:
    path = a_file(
        tmp_path,
        "E-Mail;First Name;Last Name;Language;Time Zone;Tags;Favourite Colour",
        'Ada@Example.com;Ada;Lovelace;PT_br;europe/lisbon;"VIP, new";blue',
        "no address;x;;;;;",
        "grace@example.com;Grace;;;;;",
        "ada@EXAMPLE.com;Ada;King;;;;red",
        "lisp@example.com;;;klingon!;Mars/North;;",
        "many@example.com;a;b;en;UTC;;c;too many",
        "",
        "few@example.com",
    )
    report = tmp_path / "report.csv"
    done = await import_(imports, path, report, tags=("Imported",))
    assert (counts(done), done.repeated) == ((4, 0, 0, 2), 1)
    assert [(line[0], line[1], line[2]) for line in lines_of(report)] == [
        ("2", "ada@example.com", "added"),
        ("3", "no address", "refused"),
        ("4", "grace@example.com", "added"),
        ("5", "ada@example.com", "repeated"),
        ("6", "lisp@example.com", "added"),
        ("7", "many@example.com", "refused"),
        ("9", "few@example.com", "added"),
    ]
    assert [line[3] for line in lines_of(report) if line[0] in ("5", "6", "7")] == [
        "the same address as on an earlier line",
        "Language: 'klingon!' is not a locale such as pt or pt-BR; left empty; "
        "Time Zone: 'Mars/North' is not an IANA time zone such as Europe/Lisbon; left empty",
        "The row has 8 cells, but the file has 7 columns.",
    ]
    result = await contacts.load_details(database, 1, "ada@example.com")
    person = result.contact
    assert (person.name, person.locale, person.timezone) == ("Ada King", "pt-BR", "Europe/Lisbon")
    assert person.attributes == {"first_name": "Ada", "last_name": "King", "favourite_colour": "red"}
    assert result.tags == ("imported", "new", "vip")
    assert await on_list(database) == ["ada@example.com", "few@example.com", "grace@example.com", "lisp@example.com"]
    assert (
        "Time Zone: 'Mars/North' is not an IANA time zone such as Europe/Lisbon; line 6 stays empty."
        in done.plan.warnings
    )


@pytest.mark.parametrize(
    ("addresses", "note"),
    [
        (["a@example.com", "b@example.com", "no", "no", "", ""], None),
        (
            ["a@example.com", "b@example.com", " A@Example.com"],
            "1 address occurs more than once in the file; the last row is used (line 4 repeats an earlier address).",
        ),
        (
            ["a@example.com", "Ada <a@EXAMPLE.com>", "ñ@bücher.example", "a@bücher.example", "a@xn--bcher-kva.example"],
            "2 addresses occur more than once in the file; the last row is used (lines 3, 6 repeat earlier addresses).",
        ),
        (
            ["a@example.com"] * 13,
            "1 address occurs more than once in the file; the last row is used "
            "(lines 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 … repeat earlier addresses).",
        ),
    ],
)
async def test_repeated_addresses_are_named_before_the_import(
    imports: Imports, tmp_path: Path, addresses: list[str], note: str | None
) -> None:
    path = a_file(tmp_path, "name;email", *(f"Ada;{each}" for each in addresses))
    seen = await imports.preview(1, path, ImportOptions(NEWS))
    assert seen.plan.warnings == ((note,) if note else ())
    assert (seen.plan.rows, len(seen.rows)) == (len(addresses), min(len(addresses), 5))


async def test_repeated_rows_count_each_contact_once(
    imports: Imports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH_SIZE", 3)
    rows = ("ada@example.com,1", "ADA@example.com,2", "grace@example.com,1", "hedy@example.com,1", "hedy@example.com,1")
    path = a_file(tmp_path, "email,plan", *rows)
    report = tmp_path / "report.csv"
    done = await import_(imports, path, report)
    assert (counts(done), done.repeated) == ((3, 0, 0, 0), 2)
    again = await import_(imports, path, report)
    assert (counts(again), again.repeated) == ((0, 0, 3, 0), 2)
    # A row of a later batch repeats the address too, also after an interruption.
    path = a_file(tmp_path, "email,plan", *rows, "ada@example.com,2", name="more.csv")
    started = await imports.begin(1, path, ImportOptions(NEWS))
    batches = imports.run(started, path, ReportFile(report))
    cut = await anext(batches)
    await batches.aclose()
    done = [each async for each in imports.run(await imports.find(1, cut.import_id), path, ReportFile(report))][-1]
    assert (counts(done), done.repeated) == ((0, 0, 3, 0), 3)
    assert lines_of(report)[-1] == ["7", "ada@example.com", "repeated", "the same address as on an earlier line"]


async def test_preview_counts_refused_rows_with_reasons(imports: Imports, tmp_path: Path) -> None:
    path = a_file(
        tmp_path,
        "email;name",
        *(f"reader{number}@example.com;x" for number in range(10)),
        "bob@@example.com;Bob",
        ";Nobody",
        "kim@example.com, lea@example.com;Kim",
        '"hans@example.com;Hans',
    )
    seen = await imports.preview(1, path, ImportOptions(NEWS))
    assert (seen.plan.rows, seen.checked, seen.refused, len(seen.rows)) == (14, 14, 4, 5)
    assert [(line, row.email, row.reason) for line, row in seen.first_refused] == [
        (12, "bob@@example.com", "This is not an email address: it contains more than one @ sign."),
        (13, "", "The row has no address."),
        (
            14,
            "kim@example.com, lea@example.com",
            "This is not an email address: it contains more than one address.",
        ),
        (15, "", "a quote is not closed; the line begins with '\"hans@example.com;Hans'"),
    ]
    assert counts(await import_(imports, path)) == (10, 0, 0, 4)


@pytest.mark.promise("import-never-revives")
async def test_import_never_reactivates_a_contact(
    database: Database, clock: ManualClock, imports: Imports, tmp_path: Path
) -> None:
    statuses = ContactStatusService(database, clock)
    for name in ("left", "left-all", "bounced", "stays", "erased", "deleted"):
        await statuses.subscribe(1, f"{name}@example.com", NEWS, source="form")
    await statuses.unsubscribe_by_link(1, "left@example.com", NEWS, source="link")
    await statuses.unsubscribe_by_link(1, "left-all@example.com", source="link")
    await statuses.bounce(1, "bounced@example.com", source="ses")
    await erasure.erase(database, clock, 1, "erased@example.com", actor="console")
    deleted = await contacts.find_by_email(database, 1, "deleted@example.com")
    await contacts.delete(database, clock, 1, deleted.contact_id)
    names = ("left", "left-all", "bounced", "stays", "erased", "deleted", "new")
    path = a_file(tmp_path, "email,plan", *(f"{name}@example.com,pro" for name in names))
    report = tmp_path / "report.csv"
    done = await import_(imports, path, report)
    assert counts(done) == (1, 4, 0, 2)
    assert {line[1].partition("@")[0]: line[3] for line in lines_of(report)} == {
        "left": "unsubscribed from the list; stays unsubscribed",
        "left-all": "stays unsubscribed",
        "bounced": "stays bounced",
        "stays": "",
        "erased": "erased on request; only the contact can subscribe again",
        "deleted": "the contact was deleted and stays deleted",
        "new": "",
    }
    assert "left@example.com" not in await on_list(database)
    for name, status in (("left-all", "unsubscribed"), ("bounced", "bounced"), ("left", "active")):
        person = await contacts.find_by_email(database, 1, f"{name}@example.com")
        assert (person.status, person.attributes) == (status, {"plan": "pro"})
    again = await import_(imports, path, report)
    assert counts(again) == (0, 0, 5, 2)


@pytest.mark.promise("import-report")
async def test_interrupted_import_continues_where_it_stopped(
    database: Database, imports: Imports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH_SIZE", 10)
    path = a_file(tmp_path, "email", *(f"reader{number}@example.com" for number in range(95)), "oops")
    report = tmp_path / "report.csv"
    started = await imports.begin(1, path, ImportOptions(NEWS))
    batches = imports.run(started, path, ReportFile(report))
    for _ in range(3):
        cut = await anext(batches)
    await batches.aclose()
    assert (cut.records, cut.added) == (30, 30)
    # What an uncommitted batch has written is overwritten.
    with report.open("ab") as file:
        file.write(b"32,half a li")
    again = await imports.begin(1, path, ImportOptions(NEWS))
    assert (again.import_id, again.records >= 30) == (started.import_id, True)
    done = [each async for each in imports.run(again, path, ReportFile(report))][-1]
    assert (counts(done), done.finished_at is not None) == ((95, 0, 0, 1), True)
    assert [line[0] for line in lines_of(report)] == [str(number) for number in range(2, 98)]
    async with database.read() as tx:
        assert (await tx.execute(select(func.count()).select_from(contacts_table)))[0][0] == 95
    fresh = await imports.begin(1, path, ImportOptions(NEWS))
    assert fresh.import_id != started.import_id


async def test_two_processes_never_store_the_same_batch_twice(
    database: Database, clock: ManualClock, imports: Imports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH_SIZE", 10)
    path = a_file(tmp_path, "email", *(f"reader{number}@example.com" for number in range(50)))
    started = await imports.begin(1, path, ImportOptions(NEWS))

    async def work() -> bool:
        try:
            _ = [done async for done in Imports(database, clock).run(started, path)]
        except ImportRunsElsewhere:
            return False
        return True

    assert sorted(await asyncio.gather(work(), work())) == [False, True]
    done = await imports.find(1, started.import_id)
    assert counts(done) == (50, 0, 0, 0)


async def test_two_imports_of_the_same_contacts_add_each_once(
    database: Database, clock: ManualClock, imports: Imports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH_SIZE", 20)
    emails = [f"reader{number}@example.com" for number in range(100)]
    first = a_file(tmp_path, "email,a", *(f"{email},1" for email in emails), name="first.csv")
    second = a_file(tmp_path, "email,b", *(f"{email},2" for email in reversed(emails)), name="second.csv")
    done = await asyncio.gather(import_(imports, first), import_(Imports(database, clock), second))
    assert sum(each.added for each in done) == 100
    for email in (emails[0], emails[-1]):
        assert (await contacts.find_by_email(database, 1, email)).attributes == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("encoding", "is_guessed"),
    [("utf-8", False), ("utf-8-sig", False), ("utf-16", False), ("cp1251", True), ("utf-16-le", True)],
)
async def test_usual_encodings_are_detected(
    database: Database, imports: Imports, tmp_path: Path, encoding: str, is_guessed: bool
) -> None:
    path = a_file(tmp_path, "Почта\tИмя\tГород", "ada@example.com\tАда\tМосква", encoding=encoding)
    seen = await imports.preview(1, path, ImportOptions(NEWS))
    assert bool(seen.plan.file_format.warnings) is is_guessed
    done = await import_(imports, path)
    assert counts(done) == (1, 0, 0, 0)
    person = await contacts.find_by_email(database, 1, "ada@example.com")
    assert (person.name, person.attributes) == ("Ада", {"город": "Москва"})


async def test_nul_byte_refuses_its_row_only(imports: Imports, tmp_path: Path) -> None:
    good = [f"{number}@example.com,Ada" for number in range(20)]
    path = a_file(tmp_path, "email,name", *good, "bob\x00@example.com,Bob")
    assert counts(await import_(imports, path)) == (20, 0, 0, 1)
    short = a_file(tmp_path, "email,name", "bob\x00@example.com,Bob", name="short.csv")
    with pytest.raises(FileUnreadable, match="contains NUL"):
        await imports.preview(1, short, ImportOptions(NEWS))


async def test_latin_encoding_is_detected(database: Database, imports: Imports, tmp_path: Path) -> None:
    path = a_file(tmp_path, "email,nome,cidade", "joao@example.com,João,São Paulo", encoding="cp1252")
    await import_(imports, path)
    person = await contacts.find_by_email(database, 1, "joao@example.com")
    assert (person.name, person.attributes) == ("João", {"cidade": "São Paulo"})


async def test_preview_stores_nothing(database: Database, imports: Imports, tmp_path: Path) -> None:
    path = a_file(tmp_path, "Адрес|Plan", "ada@example.com|pro", "oops|x")
    with pytest.raises(InvalidColumns, match="No column contains the address"):
        await imports.preview(1, path, ImportOptions(NEWS))
    seen = await imports.preview(1, path, ImportOptions(NEWS, column_targets={"адрес": "email", "Plan": "tariff"}))
    assert [(column.title, column.target) for column in seen.plan.columns] == [("Адрес", "email"), ("Plan", "tariff")]
    (first_line, person), (second_line, problem) = seen.rows
    assert (first_line, second_line) == (2, 3)
    assert isinstance(person, ContactRow)
    assert (person.email, person.attributes) == ("ada@example.com", {"tariff": "pro"})
    assert isinstance(problem, RefusedRow)
    assert problem.email == "oops"
    assert "not an email address" in problem.reason
    async with database.read() as tx:
        assert (await tx.execute(select(func.count()).select_from(contacts_table)))[0][0] == 0


async def test_name_beside_the_address_and_invisible_characters_are_accepted(
    database: Database, imports: Imports, tmp_path: Path
) -> None:
    path = a_file(
        tmp_path,
        "email,name",
        "Eve Adams <eve@example.com>,",
        '"""Adams, Eve"" <Eve2@example.com>",Eve the Second',
        "\u200bzoe@example.com\ufeff,Zoe",
        "astro@example.com,\U0001f469\u200d\U0001f680 Astro",
        "<bob@example.com>,",
    )
    assert counts(await import_(imports, path)) == (5, 0, 0, 0)
    names = {
        email: (await contacts.load_details(database, 1, email)).contact.name
        for email in ("eve@example.com", "eve2@example.com", "zoe@example.com", "astro@example.com", "bob@example.com")
    }
    assert list(names.values()) == ["Eve Adams", "Eve the Second", "Zoe", "\U0001f469\u200d\U0001f680 Astro", None]


async def test_file_without_header_is_imported(database: Database, imports: Imports, tmp_path: Path) -> None:
    path = a_file(tmp_path, "Ada,ada@example.com", "Grace,grace@example.com")
    assert counts(await import_(imports, path)) == (2, 0, 0, 0)


async def test_endless_row_costs_one_row_and_no_memory(database: Database, imports: Imports, tmp_path: Path) -> None:
    path = a_file(
        tmp_path,
        "email,note",
        "a@example.com,fine",
        'b@example.com,"a quote that is not closed',
        *(f"reader{number}@example.com,{'x' * 70}" for number in range(1_500)),
        f"long@example.com,{'x' * 200_000}",
        "c@example.com,fine",
        "d@example.com,with a zero \0 inside",
    )
    report = tmp_path / "report.csv"
    done = await import_(imports, path, report)
    assert counts(done) == (1_502, 0, 0, 3)
    refused = {line[0]: line[3] for line in lines_of(report) if line[2] == "refused"}
    assert list(refused) == ["3", "1504", "1506"]
    assert refused["3"] == "a quote is not closed; the line begins with 'b@example.com,\"a quote that is not closed'"
    assert refused["1504"] == "longer than 64 KB; the line begins with 'long@example.com,…'"


async def test_unclosed_quote_costs_only_its_own_row(database: Database, imports: Imports, tmp_path: Path) -> None:
    path = a_file(tmp_path, "email,name", 'emmy@example.com,"Emmy', "hedy@example.com,Hedy", "=lise@example.com,Lise")
    report = tmp_path / "report.csv"
    assert counts(await import_(imports, path, report)) == (2, 0, 0, 1)
    first, *others = lines_of(report)
    assert (first[0], first[2], "a quote is not closed" in first[3]) == ("2", "refused", True)
    # An address may begin with a character that starts a formula in a spreadsheet.
    assert others == [["3", "hedy@example.com", "added", ""], ["4", "'=lise@example.com", "added", ""]]


@pytest.mark.parametrize("at", [0, 1, 3, 4, 5, 7])
def test_rows_do_not_depend_on_read_boundaries(at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_LINES_AT_ONCE", 4)
    lines = [f"r{number}@example.com,x" for number in range(8)]
    path = a_file(tmp_path, *lines[:at], 'q@example.com,"two', 'lines"', "", *lines[at:])
    with path.open("rb") as file, records.RecordReader(file, FileFormat("utf-8", ",", '"', has_header=False)) as result:
        rows = list(result)
    numbers = [*range(1, at + 1), at + 1, *range(at + 4, 12)]
    texts = [*lines[:at], "q@example.com,two\nlines", *lines[at:]]
    assert [(line, ",".join(cells)) for line, cells, _ in rows] == list(zip(numbers, texts, strict=True))


async def test_invalid_bytes_refuse_only_their_own_row(database: Database, imports: Imports, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    good = b"".join(b"reader%d@example.com,x\n" % number for number in range(20_000))
    path.write_bytes(b"email,city\n" + good + b"bad@example.com,S\xe3o\n" + b"last@example.com,S\xc3\xa3o\n")
    assert counts(await import_(imports, path)) == (20_001, 0, 0, 1)


async def test_unreadable_file_is_refused_before_anything_is_stored(
    database: Database, clock: ManualClock, imports: Imports, tmp_path: Path
) -> None:
    with pytest.raises(UnknownList):
        await imports.begin(1, a_file(tmp_path, "email"), ImportOptions("nothing"))
    with pytest.raises(FileUnreadable, match="no rows"):
        await imports.begin(1, a_file(tmp_path), ImportOptions(NEWS))
    with pytest.raises(FileUnreadable, match="larger than"):
        await Imports(database, clock, largest=3).begin(1, a_file(tmp_path, "email"), ImportOptions(NEWS))
    with pytest.raises(InvalidColumns, match="both"):
        await imports.begin(1, a_file(tmp_path, "email,Mail"), ImportOptions(NEWS))
    with pytest.raises(InvalidColumns, match="no column"):
        await imports.begin(1, a_file(tmp_path, "email"), ImportOptions(NEWS, column_targets={"Mehl": "email"}))
    await lists.create(database, clock, 1, "careful", requires_confirmation=True)
    with pytest.raises(InvalidInput, match="confirm"):
        await imports.begin(1, a_file(tmp_path, "email"), ImportOptions("careful"))
    await pending(database, clock, "waits@example.com", "careful")
    careful = a_file(tmp_path, "email", "waits@example.com", name="careful.csv")
    await import_(imports, careful, list_key="careful", is_confirmed=True)
    assert not (await contacts.load_details(database, 1, "waits@example.com")).lists[0].is_pending
    started = await imports.begin(1, a_file(tmp_path, "email"), ImportOptions("careful", is_confirmed=True))
    done = [each async for each in imports.run(started, tmp_path / "people.csv")][-1]
    assert (counts(done), done.finished_at) == ((0, 0, 0, 0), clock.now())


FORMULAS = [
    "=1+1",
    "@SUM(A1)",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "'=quoted",
    "''-x",
    "-5",
    "-5.25",
    "plain",
    "it's",
    "a,b\nc",
]


@pytest.mark.promise("export-round-trip")
async def test_exported_consent_is_imported_into_an_empty_database(
    database: Database, clock: ManualClock, imports: Imports, tmp_path: Path
) -> None:
    decisions = {
        "ann": TrackingConsent(True, "You may record it.", "form"),
        "bob": TrackingConsent(False, None, "form"),
    }
    for name in ("ann", "bob", "eve"):
        change = contacts.ContactChange(tracking_consent=decisions.get(name))
        await contacts.put(database, clock, 1, f"{name}@example.com", change)
    path = tmp_path / "export.csv"
    path.write_text("".join([part async for part in export.export_csv(database, ExportSelection(1), clock.now())]))
    async with database.write() as tx:
        await tx.execute(update(contacts_table).values(consents_to_tracking=None, tracking_consent_wording=None))
    await import_(imports, path, list_key=None)
    found = [await contacts.find_by_email(database, 1, f"{name}@example.com") for name in ("ann", "bob", "eve")]
    read = [each.tracking_consent and (each.tracking_consent.is_given, each.tracking_consent.wording) for each in found]
    assert read == [(True, "You may record it."), (False, None), None]


@pytest.mark.promise("export-round-trip")
async def test_export_escapes_formulas_and_import_restores_them(
    database: Database, clock: ManualClock, imports: Imports, tmp_path: Path
) -> None:
    statuses = ContactStatusService(database, clock)
    for number, text in enumerate(FORMULAS):
        email = f"reader{number}@example.com"
        await statuses.subscribe(1, email, NEWS, source="form")
        consent = TrackingConsent(number % 2 == 0, f"{text} agreed".replace("\n", " "), "form") if number else None
        change = contacts.ContactChange(
            name=text.replace("\n", " "),
            locale="pt",
            attributes={"note": text, "n": number},
            tags=["a", "-b"],
            tracking_consent=consent,
        )
        await contacts.put(database, clock, 1, email, change)
    await statuses.unsubscribe_by_link(1, "reader0@example.com", source="link")
    everyone = ExportSelection(1)
    text = "".join([part async for part in export.export_csv(database, everyone, clock.now())])
    path = tmp_path / "export.csv"
    path.write_text(text, encoding="utf-8", newline="")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    fields = [
        "email",
        "name",
        "locale",
        "timezone",
        "status",
        "lists",
        "tags",
        "tracking_consent",
        "snoozed_until",
        "created_at",
    ]
    assert rows[0] == [*fields, "n", "note"]
    assert len(rows) == len(FORMULAS) + 1
    for cell in (cell for row in rows[1:] for cell in row):
        assert not cell.startswith(("=", "+", "@", "\t", "\r")), cell
        assert not cell.startswith("-") or float(cell)
    before = [part async for part in export.export_json_lines(database, everyone, clock.now())]
    done = await import_(imports, path, list_key=None)
    assert counts(done) == (0, 0, len(FORMULAS), 0)
    assert [part async for part in export.export_json_lines(database, everyone, clock.now())] == before
    contacts_ = [orjson.loads(line) for line in "".join(before).splitlines()]
    assert [person["attributes"]["note"] for person in contacts_ if person["email"] == "reader3@example.com"] == [
        "-2+3"
    ]
    only = [
        line
        async for line in export.export_json_lines(database, ExportSelection(1, filter={"tag": "nobody"}), clock.now())
    ]
    assert only == []
