"""What real files contain: spreadsheets, national formats, suppressed and odd addresses, and files that are no CSV."""

import csv
import io
import zipfile
from collections.abc import AsyncIterator, Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook
from sqlalchemy import select

from mailwright.audience import contacts, export, lists, suppressions
from mailwright.audience.contact_fields import InvalidContact
from mailwright.audience.contacts import ContactChange
from mailwright.audience.export import ExportSelection
from mailwright.audience.filter_sql import filter_clause
from mailwright.audience.importing.imports import Import, Imports
from mailwright.audience.importing.plan import ImportOptions
from mailwright.audience.importing.report import ReportFile
from mailwright.audience.importing.spreadsheets import as_csv
from mailwright.domain.clock import ManualClock
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts as contacts_table
from tests.api import Api, an_api
from tests.engines import on_sqlite
from tests.pictures import made

LARGEST = 10 * 1024**2
PEOPLE = [
    ["Эл. почта", "Оборот", "Рождение", "Часовой пояс"],
    ["ada@example.com", "70239,12", "12.10.1953", "UTC+3"],
    ["bea@example.com", "1 234,56", "31.12.1985", "Europe/Lisbon"],
    ["cy@example.com", "-", "не знаю", ""],
]


@pytest.fixture
async def api(database: Database, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Api]:
    async with an_api(database, clock, imports=tmp_path / "uploads") as api:
        yield api


async def import_(database: Database, clock: ManualClock, path: Path, **options: Any) -> tuple[Import, list[list[str]]]:
    imports, report = Imports(database, clock), path.with_suffix(".report")
    started = await imports.begin(1, path, ImportOptions(**options))
    done = [each async for each in imports.run(started, path, ReportFile(report))][-1]
    with report.open(newline="", encoding="utf-8") as file:
        return done, list(csv.reader(file))[1:]


def a_csv(folder: Path, rows: list[list[str]], delimiter: str = ";", encoding: str = "utf-8") -> Path:
    path = folder / "people.csv"
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


async def matching(database: Database, clock: ManualClock, condition: Any) -> list[str]:
    query = select(contacts_table.c.email).where(filter_clause(condition, 1, clock.now()))
    async with database.read() as tx:
        return sorted(row.email for row in await tx.execute(query))


def a_workbook(rows: list[list[Any]]) -> bytes:
    book = Workbook()
    for row in rows:
        book.worksheets[0].append(row)
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def a_zip(**members: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "/").replace("_xml", ".xml"), data)
    return content.getvalue()


@pytest.mark.parametrize("delimiter", [";", "\t", ","])
async def test_segments_find_numbers_and_dates_of_national_files(
    database: Database, clock: ManualClock, tmp_path: Path, delimiter: str
) -> None:
    done, report = await import_(database, clock, a_csv(tmp_path, PEOPLE, delimiter))
    assert (done.added, done.refused) == (3, 0)
    names = [column.target for column in done.plan.columns]
    assert names == ["email", "оборот", "рождение", "timezone"]
    assert await matching(database, clock, {"attribute": "оборот", "greaterThan": 50000}) == ["ada@example.com"]
    assert await matching(database, clock, {"attribute": "оборот", "atMost": 1234.56}) == ["bea@example.com"]
    assert await matching(database, clock, {"attribute": "рождение", "lessThan": "1980-01-01"}) == ["ada@example.com"]
    ada = await contacts.find_by_email(database, 1, "ada@example.com")
    assert ada.timezone == "Etc/GMT-3"
    assert ada.attributes == {"оборот": 70239.12, "рождение": "1953-10-12"}
    assert [line[3] for line in report] == [
        "",
        "",
        "Оборот: '-' is not a number like the others; stored as text; "
        "Рождение: 'не знаю' is not a date like the others; stored as text",
    ]
    assert "Рождение: read as dates as day, month, year; line 4 stays text." in done.plan.warnings


async def test_ambiguous_dates_stay_text_until_the_user_chooses(
    database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    path = a_csv(tmp_path, [["email", "Born"], ["ada@example.com", "10/12/1953"]])
    born_in_autumn = {"attribute": "born", "lessThan": "1953-11-01"}
    done, _ = await import_(database, clock, path)
    [question] = done.plan.warnings
    assert "10/12/1953" in question
    assert "dates as day, month, year (dmy)" in question
    assert await matching(database, clock, born_in_autumn) == []
    await import_(database, clock, path, column_targets={"Born": "born:mdy"})
    assert await matching(database, clock, born_in_autumn) == ["ada@example.com"]
    await import_(database, clock, path, column_targets={"Born": "born:dmy"})
    assert await matching(database, clock, born_in_autumn) == []
    assert await matching(database, clock, {"attribute": "born", "lessThan": "1954-01-01"}) == ["ada@example.com"]


async def test_report_names_suppressed_addresses(database: Database, clock: ManualClock, tmp_path: Path) -> None:
    for list_key in ("news", "offers"):
        await lists.create(database, clock, 1, list_key)
    await suppressions.add(database, clock, 1, "all@example.com", reason="bounce", source="ses")
    await suppressions.add(database, clock, 1, "bulk@example.com", list_key="general", reason="manual", source="ada")
    await suppressions.add(database, clock, 1, "other@example.com", list_key="offers", reason="manual", source="ada")
    path = a_csv(tmp_path, [["email"], *([f"{name}@example.com"] for name in ("all", "bulk", "other", "free"))])
    for outcome in ("added", "unchanged"):
        _, report = await import_(database, clock, path, list_key="news")
        assert [line[1:] for line in report] == [
            ["all@example.com", outcome, "suppressed (bounce); receives no email"],
            ["bulk@example.com", outcome, "suppressed (manual); receives no bulk email"],
            ["other@example.com", outcome, ""],
            ["free@example.com", outcome, ""],
        ]


async def test_export_with_formula_characters_changes_nothing(
    database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    starts = ["=", "+", "-", "'", "'=", "''+", "=-"]
    for number, start in enumerate(starts):
        change = ContactChange(
            name=f"{start}name",
            attributes={"note": f"{start}1+1", "at": "@sum", "amount": -5, "day": "-", "plain": "'quoted'"},
            tags=[f"{start}tag"],
        )
        await contacts.put(database, clock, 1, f"{start}{number}@example.com", change)
    before = await exported(database, clock)
    path = tmp_path / "export.csv"
    path.write_text(before, encoding="utf-8", newline="")
    cells = [cell for row in csv.reader(io.StringIO(before)) for cell in row]
    assert not [cell for cell in cells if cell[:1] in ("=", "+", "@", "\t", "-") and cell != "-5"]
    done, report = await import_(database, clock, path)
    assert (done.added, done.changed, done.unchanged, done.refused) == (0, 0, len(starts), 0), report
    assert await exported(database, clock) == before


async def exported(database: Database, clock: ManualClock) -> str:
    return "".join([part async for part in export.export_csv(database, ExportSelection(1), clock.now())])


async def test_spreadsheet_is_imported_through_the_api(api: Api) -> None:
    moment = datetime(2027, 1, 31, 9, 30, tzinfo=UTC).replace(tzinfo=None)
    content = a_workbook(
        [
            ["E-Mail", "Revenue", "Born", "Seen", "Active", "Note"],
            ["ada@example.com", 70239.12, date(1953, 10, 12), moment, True, "two\nlines"],
            [],
            ["bea@example.com", 5, date(1985, 12, 31), None, False, "=1+1"],
        ]
    )
    preview = (await api.client.post("/v1/contacts/imports/preview", content=content)).json()
    assert [column["target"] for column in preview["columns"]] == ["email", "revenue", "born", "seen", "active", "note"]
    begun = await api.client.post("/v1/contacts/imports?fileName=people.xlsx", content=content)
    assert begun.status_code == 202
    await api.engine.import_uploads.finish()
    database, clock = api.engine.database, api.engine.clock
    ada = await contacts.find_by_email(database, 1, "ada@example.com")
    assert ada.attributes == {
        "revenue": "70239.12",
        "born": "1953-10-12",
        "seen": "2027-01-31 09:30:00",
        "active": "true",
        "note": "two lines",
    }
    assert isinstance(clock, ManualClock)
    assert await matching(database, clock, {"attribute": "revenue", "greaterThan": 50000}) == ["ada@example.com"]
    assert await matching(database, clock, {"attribute": "born", "lessThan": "1980-01-01"}) == ["ada@example.com"]
    report = (await api.client.get(f"/v1/contacts/imports/{begun.json()['importId']}/report")).text
    assert "4,bea@example.com,added" in report


async def test_other_sheets_of_a_spreadsheet_are_named(api: Api, tmp_path: Path) -> None:
    book, people = Workbook(), [["email"], ["ada@example.com"]]
    for title, rows in {"People": people, "Empty": [], "2026": people, "Old": [["x"]]}.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    del book["Sheet"]
    path = tmp_path / "people.xlsx"
    book.save(path)
    words = "Only the first sheet is imported. To import these sheets too, save each as a file: 2026, Old."
    preview = await api.client.post("/v1/contacts/imports/preview", content=path.read_bytes())
    assert preview.json()["warnings"] == [words]
    begun = await api.client.post("/v1/contacts/imports", content=path.read_bytes())
    assert begun.json()["warnings"] == [words]
    await api.engine.import_uploads.finish()
    with as_csv(path, largest=LARGEST) as readable:
        assert readable.other_sheets == ("2026", "Old")


WORKBOOK = b"<workbook/>"


@on_sqlite
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (a_zip(people_csv=b"email\nada@example.com\n"), "a ZIP archive"),
        (a_zip(content_xml=b"<office/>"), "an OpenDocument file"),
        (b"PK\x03\x04 and then nothing", "a damaged ZIP archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "an old Excel file"),
        (b"\x1f\x8b\x08\x00" + bytes(20), "a gzip archive"),
        (b"%PDF-1.7\n", "a PDF document"),
        (bytes(range(256)) * 40, "not text"),
        (a_zip(xl__workbook_xml=WORKBOOK), "cannot be read"),
        (
            lambda: a_zip(xl__workbook_xml=WORKBOOK, xl__worksheets__sheet1_xml=b"0" * 5_000_000),
            "compression ratio is too high",
        ),
        (lambda: a_zip(xl__workbook_xml=WORKBOOK, xl__sharedStrings_xml=b"0123456789abcdef" * 5_000_000), "64 MB"),
        (",".join(f"c{n}" for n in range(100_000)).encode() + b"\n", "longer than 64 KB"),
        (b"email," + b",".join(b"c" for _ in range(999)) + b"\n", "1000 columns; at most 200"),
        (a_workbook([[f"c{n}" for n in range(300)]]), "201 columns; at most 200"),
        (b"x" * 300_000, "longer than 64 KB"),
        (b'"' * 300_000, "longer than 64 KB"),
        (b'name;"email' + b"\n" + b"x" * 60_000 + b"\n" + b"y" * 60_000 + b"\n" + b"z" * 60_000, "not closed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_other_files_are_refused_with_a_reason(
    api: Api, content: bytes | Callable[[], bytes], reason: str
) -> None:
    body = made(content)
    for path in ("/v1/contacts/imports", "/v1/contacts/imports/preview"):
        answer = await api.client.post(path, content=body)
        assert (answer.status_code, reason in answer.text) == (422, True), answer.text


def test_row_numbers_of_a_forged_sheet_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "forged.xlsx"
    with zipfile.ZipFile(io.BytesIO(a_workbook([["email"], ["ada@example.com"]]))) as original:
        members = {name: original.read(name) for name in original.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    members[sheet] = members[sheet].replace(b'r="2"', b'r="999999999999"').replace(b"A2", b"A999999999999")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as forged:
        for name, data in members.items():
            forged.writestr(name, data)

    with as_csv(path, largest=LARGEST) as readable:
        assert readable.path.read_text(encoding="utf-8") == "email\n"


async def test_malformed_divisions_are_reported(database: Database, clock: ManualClock, tmp_path: Path) -> None:
    ohio = "ocd-division/country:us/state:oh"
    rows = [["email", "ocd_ids"], ["a@example.com", f"{ohio}, {ohio}/place:lima"], ["b@example.com", f"{ohio}; Ohio"]]
    _, report = await import_(database, clock, a_csv(tmp_path, rows, "\t"))
    assert [line[3].partition(",")[0] for line in report] == ["", "ocd_ids: 'Ohio' is not an OCD division id"]
    for wrong in (["Ohio"], "ohio", [5], {"state": "oh"}):
        with pytest.raises(InvalidContact, match="is not an OCD division id"):
            await contacts.put(database, clock, 1, "c@example.com", ContactChange(attributes={"ocd_ids": wrong}))
    await contacts.put(database, clock, 1, "c@example.com", ContactChange(attributes={"ocd_ids": [ohio]}))
    await contacts.put(database, clock, 1, "c@example.com", ContactChange(attributes={"ocd_ids": None}))
