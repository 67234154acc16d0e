"""Moving contacts from other products: contacts who unsubscribed there get no email, and every row counts once."""

import csv
import json
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.audience import export, lists, suppressions
from mailwright.audience.erasure import erase
from mailwright.audience.export import ExportedContact, ExportSelection
from mailwright.audience.importing.file_format import FileUnreadable
from mailwright.audience.status import ContactStatusService
from mailwright.audience.switching.archives import unpacked
from mailwright.audience.switching.exports import ExportFile, ExportReader
from mailwright.audience.switching.moving import SwitchOver, SwitchOvers
from mailwright.audience.switching.results import SwitchCounts
from mailwright.audience.switching.vendors import MemberStatus, Vendor
from mailwright.domain.clock import DAY, ManualClock, isoformat
from mailwright.domain.errors import InvalidInput
from mailwright.storage.database import Database

LARGEST = 10_000_000
NEWS = "news"
MAILCHIMP = "Email Address,First Name,Last Name,Plan,MEMBER_RATING,OPTIN_TIME,LEID,TAGS"
BOUNCES = "status,reason,email,created"


@pytest.fixture
def moving(database: Database, clock: ManualClock) -> SwitchOvers:
    return SwitchOvers(database, clock, largest=LARGEST)


def a_file(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


async def move(
    moving: SwitchOvers, vendor: Vendor, *files: Path | ExportFile, list_key: str | None = NEWS, **more: Any
) -> SwitchCounts:
    exports = [file if isinstance(file, ExportFile) else ExportFile(file) for file in files]
    return await moving.run(SwitchOver(1, vendor, exports, list_key, is_filtered=True), actor="test", **more)


async def stored(database: Database, clock: ManualClock) -> dict[str, ExportedContact]:
    pages = export.export_pages(database, ExportSelection(1), clock.now())
    return {contact.email: contact async for page in pages for contact in page}


async def everyone(database: Database, clock: ManualClock) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the status and the lists of each contact."""
    found = await stored(database, clock)
    return {email: (contact.status, contact.lists) for email, contact in found.items()}


def results(report: Path) -> list[tuple[str, ...]]:
    """Return the address, the result and the remark of each row."""
    with report.open(newline="") as file:
        return [tuple(line[2:]) for line in csv.reader(file)][1:]


@pytest.mark.promise("import-never-revives")
async def test_mailchimp_export_keeps_unsubscribed_contacts(
    moving: SwitchOvers, database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    files = (
        a_file(
            tmp_path,
            "subscribed_members_export_1a2b.csv",
            MAILCHIMP,
            'ada@example.com,Ada,Lovelace,gold,2,"2023-01-05 10:00:00",7,"""vip"",""beta"""',
            "not an address,,,,,,,",
            "bob@example.com,Bob,,,2,,,",
        ),
        a_file(
            tmp_path,
            "unsubscribed_members_export_1a2b.csv",
            f"{MAILCHIMP},UNSUB_TIME,UNSUB_REASON",
            "cleo@example.com,Cleo,,,2,,,,2023-02-01,NORMAL",
            "bob@example.com,Bob,,,2,,,,2023-02-01,NORMAL",
        ),
        a_file(tmp_path, "cleaned_members_export_1a2b.csv", f"{MAILCHIMP},CLEAN_TIME", "dan@example.com,,,,,,,,2023"),
    )
    counts = await move(moving, Vendor.MAILCHIMP, *files)
    assert counts == SwitchCounts(rows=6, subscribed=1, unsubscribed=2, bounced=1, refused=1, repeated=1)
    assert await everyone(database, clock) == {
        "ada@example.com": ("active", (NEWS,)),
        "bob@example.com": ("unsubscribed", ()),
        "cleo@example.com": ("unsubscribed", ()),
        "dan@example.com": ("bounced", ()),
    }
    ada = (await stored(database, clock))["ada@example.com"]
    assert (ada.name, ada.attributes, ada.tags) == (
        "Ada Lovelace",
        {"first_name": "Ada", "last_name": "Lovelace", "plan": "gold"},
        ("beta", "vip"),
    )


@pytest.mark.promise("import-never-revives")
async def test_listmonk_export_keeps_attributes_and_blocklist(
    moving: SwitchOvers, database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    file = a_file(
        tmp_path,
        "subscribers.csv",
        "uuid,email,name,attributes,status,created_at,updated_at",
        'a1,ada@example.com,Ada,"{""city"": ""Lisbon"", ""age"": 36}",enabled,2023-01-01,2023-01-01',
        "a2,bob@example.com,Bob,{},blocklisted,2023-01-01,2023-01-01",
        "a3,cleo@example.com,Cleo,{},disabled,2023-01-01,2023-01-01",
        "a4,dan@example.com,Dan,{},archived,2023-01-01,2023-01-01",
        "a5,eve@example.com,Eve,no json,enabled,2023-01-01,2023-01-01",
    )
    bounced = ExportFile(a_file(tmp_path, "bounces.txt", "frank@example.com"), MemberStatus.BOUNCED)
    counts = await move(moving, Vendor.LISTMONK, file, bounced, report=tmp_path / "report.csv")
    assert counts == SwitchCounts(rows=6, subscribed=1, unsubscribed=2, bounced=1, refused=2)
    assert await everyone(database, clock) == {
        "ada@example.com": ("active", (NEWS,)),
        "bob@example.com": ("unsubscribed", ()),
        "cleo@example.com": ("unsubscribed", ()),
        "frank@example.com": ("bounced", ()),
    }
    assert (await stored(database, clock))["ada@example.com"].attributes == {"city": "Lisbon", "age": "36"}
    lines = results(tmp_path / "report.csv")
    assert lines[3] == ("dan@example.com", "refused", "The status 'archived' is unknown.")
    assert lines[4][1] == "refused"


@pytest.mark.promise("import-never-revives")
async def test_attribute_named_like_a_field_replaces_nothing(
    moving: SwitchOvers, database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    members = {"email": "eve@example.com", "mail": "eve@example.com", "name": "Eve", "status": "x", "vip": True}
    attributes = json.dumps(members).replace('"', '""')
    row = f'ada@example.com,Ada,"{attributes}",enabled'
    file = a_file(tmp_path, "subscribers.csv", "email,name,attributes,status", row)
    assert await move(moving, Vendor.LISTMONK, file) == SwitchCounts(rows=1, subscribed=1)
    [(email, ada)] = (await stored(database, clock)).items()
    assert (email, ada.name) == ("ada@example.com", "Ada")
    others = {"listmonk_email": "eve@example.com", "listmonk_mail": "eve@example.com", "listmonk_name": "Eve"}
    assert ada.attributes == {**others, "listmonk_status": "x", "vip": "true"}


@pytest.mark.promise("import-never-revives")
async def test_sendgrid_suppressions_are_recognised_by_name(
    moving: SwitchOvers, database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    files = (
        a_file(tmp_path, "contacts.csv", "email,first_name,contact_id", "ada@example.com,Ada,1", "bob@example.com,B,2"),
        a_file(tmp_path, "suppression_bounces.csv", BOUNCES, "5.1.1,unknown user,bob@example.com,1700000000"),
        a_file(tmp_path, "spam_reports.csv", "email,ip,created", "cleo@example.com,192.0.2.1,1700000000"),
        a_file(tmp_path, "global_unsubscribes.csv", "email,created", "dan@example.com,1700000000"),
    )
    counts = await move(moving, Vendor.SENDGRID, *files)
    assert counts == SwitchCounts(rows=5, subscribed=1, unsubscribed=2, bounced=1, repeated=1, complained=1)
    assert {email: status for email, (status, _) in (await everyone(database, clock)).items()} == {
        "ada@example.com": "active",
        "bob@example.com": "bounced",
        "cleo@example.com": "unsubscribed",
        "dan@example.com": "unsubscribed",
    }


async def test_own_export_restores_lists_and_statuses(
    moving: SwitchOvers, database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    file = a_file(
        tmp_path,
        "contacts.csv",
        "email,name,status,lists,tags,created_at",
        'ada@example.com,Ada,active,"news, weekly",vip,2026-01-01T00:00:00Z',
        "bob@example.com,Bob,unsubscribed,news,,2026-01-01T00:00:00Z",
        "cleo@example.com,Cleo,bounced,,,2026-01-01T00:00:00Z",
    )
    await move(moving, Vendor.MAILWRIGHT, file, list_key=None)
    first = await everyone(database, clock)
    assert first == {
        "ada@example.com": ("active", ("news", "weekly")),
        "bob@example.com": ("unsubscribed", ()),
        "cleo@example.com": ("bounced", ()),
    }
    await move(moving, Vendor.MAILWRIGHT, file, list_key=None)
    assert await everyone(database, clock) == first


async def test_spreadsheet_is_read_if_it_has_one_sheet(moving: SwitchOvers, tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in (["Email Address", "First Name"], ["ada@example.com", "Ada"]):
        sheet.append(row)
    book.save(tmp_path / "subscribed.xlsx")
    with unpacked([ExportFile(tmp_path / "subscribed.xlsx")], largest=LARGEST) as files:
        assert (await move(moving, Vendor.MAILCHIMP, *files)).subscribed == 1
    book.create_sheet("Unsubscribed").append(["left@example.com"])
    book.save(tmp_path / "subscribed.xlsx")
    with (
        pytest.raises(FileUnreadable, match="several sheets"),
        unpacked([ExportFile(tmp_path / "subscribed.xlsx")], largest=LARGEST),
    ):
        pass


@pytest.mark.parametrize(
    ("vendor", "name", "line", "expected"),
    [
        (Vendor.SENDGRID, "people.csv", "email,created", "unsubscribed, bounced or complained"),
        (Vendor.MAILCHIMP, "audience.csv", MAILCHIMP, "not clear whether"),
        (Vendor.SENDGRID, "blocks.csv", BOUNCES, "temporary"),
        (Vendor.MAILCHIMP, "nonsubscribed_members_export.csv", MAILCHIMP, "never subscribed"),
        (Vendor.LISTMONK, "subscribers.csv", "email,name", "column `status` is missing"),
        (Vendor.MAILCHIMP, "subscribed.csv", "ada@example.com", "titles of columns"),
        (Vendor.MAILCHIMP, "subscribed.csv", "Plan,Colour", "No column contains the address"),
        (Vendor.MAILWRIGHT, "contacts.csv", "email,status", "The lists come from the files"),
    ],
)
async def test_unclear_file_is_refused_and_nothing_stored(
    moving: SwitchOvers, database: Database, clock: ManualClock, tmp_path: Path, vendor: Vendor, name: str, line: str,
    expected: str,
) -> None:  # fmt: skip
    good = ExportFile(a_file(tmp_path, "gone.csv", "email", "ada@example.com"), MemberStatus.UNSUBSCRIBED)
    with pytest.raises(InvalidInput, match=expected):
        await move(moving, vendor, good, a_file(tmp_path, name, line, "ada@example.com,x"))
    assert await everyone(database, clock) == {}


@pytest.mark.promise("import-never-revives")
async def test_defect_elsewhere_in_a_row_subscribes_nobody(
    moving: SwitchOvers, database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    titles = "email,name,attributes,status"
    left = a_file(
        tmp_path,
        "left.csv",
        titles,
        "ada@example.com,Ada,no json,blocklisted",
        f"bob@example.com,{'x' * 999},{{}},disabled",
        "cleo@example.com,Cleo,{},archived",
        "dan@example.com,Dan,{},blocklisted,one,cell,too,many",
    )
    names = ("ada", "bob", "cleo", "dan")
    now = a_file(tmp_path, "now.csv", titles, *(f"{name}@example.com,{name},{{}},enabled" for name in names))
    counts = await move(moving, Vendor.LISTMONK, left, now)
    assert counts == SwitchCounts(rows=8, unsubscribed=3, refused=2, repeated=3)
    found = await everyone(database, clock)
    assert found == {f"{name}@example.com": ("unsubscribed", ()) for name in ("ada", "bob", "dan")}


@pytest.mark.promise("import-never-revives")
async def test_lifted_bounce_leaves_the_complaint(
    moving: SwitchOvers, database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    file = a_file(tmp_path, "ada.csv", "email", "ada@example.com")
    statuses = (MemberStatus.BOUNCED, MemberStatus.COMPLAINED, MemberStatus.UNSUBSCRIBED)
    counts = await move(moving, Vendor.SENDGRID, *(ExportFile(file, status) for status in statuses))
    assert (counts.rows, counts.bounced, counts.repeated) == (3, 1, 2)
    await suppressions.remove(
        database, 1, "ada@example.com", list_key=suppressions.ALL_MESSAGES, actor="test", clock=clock
    )
    assert await suppressions.is_suppressed(database, 1, "ada@example.com", lists.GENERAL)


async def test_own_export_keeps_snoozes_and_joins_no_list(
    moving: SwitchOvers, database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    until = isoformat(clock.now() + DAY)
    file = a_file(
        tmp_path,
        "contacts.csv",
        "email,status,lists,snoozed_until",
        f"ada@example.com,active,news,{until}",
        "bob@example.com,active,,",
        "cleo@example.com,active,a/b,",
        "dan@example.com,active,news,tomorrow",
    )
    counts = await move(moving, Vendor.MAILWRIGHT, file, list_key=None)
    assert (counts.subscribed, counts.refused) == (2, 2)
    assert await everyone(database, clock) == {
        "ada@example.com": ("active", (NEWS,)),
        "bob@example.com": ("active", ()),
    }
    assert (await stored(database, clock))["ada@example.com"].snoozed_until == clock.now() + DAY


async def test_listmonk_needs_a_file_of_unsubscribed_contacts(moving: SwitchOvers, tmp_path: Path) -> None:
    file = ExportFile(a_file(tmp_path, "subscribers.csv", "email,status", "ada@example.com,enabled"))
    with pytest.raises(InvalidInput, match="--unsubscribed FILE"):
        await moving.preview(SwitchOver(1, Vendor.LISTMONK, [file], NEWS))


async def test_subscribers_need_a_list(moving: SwitchOvers, tmp_path: Path) -> None:
    file = a_file(tmp_path, "contacts.csv", "email,contact_id", "ada@example.com,1")
    with pytest.raises(InvalidInput, match="Choose the list"):
        await move(moving, Vendor.SENDGRID, file, list_key=None)


async def test_list_with_double_opt_in_needs_confirmation(
    moving: SwitchOvers, database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    await lists.create(database, clock, 1, NEWS, requires_confirmation=True)
    file = a_file(tmp_path, "contacts.csv", "email,contact_id", "ada@example.com,1")
    gone = ExportFile(a_file(tmp_path, "gone.csv", "email", "bob@example.com"), MemberStatus.BOUNCED)
    with pytest.raises(InvalidInput, match="requires confirmation"):
        await move(moving, Vendor.SENDGRID, file, gone)
    assert await everyone(database, clock) == {}


@pytest.mark.promise("import-never-revives")
async def test_contact_who_left_here_stays_unsubscribed(
    moving: SwitchOvers, database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    gone = ExportFile(a_file(tmp_path, "gone.csv", "email", "ada@example.com"), MemberStatus.UNSUBSCRIBED)
    await move(moving, Vendor.SENDGRID, gone)
    await move(moving, Vendor.SENDGRID, a_file(tmp_path, "contacts.csv", "email,contact_id", "ada@example.com,1"))
    assert (await everyone(database, clock))["ada@example.com"][0] == "unsubscribed"


async def test_dry_run_counts_and_stores_nothing(
    moving: SwitchOvers, database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    file = ExportFile(a_file(tmp_path, "contacts.csv", "email,contact_id", "ada@example.com,1", "x,2"))
    counts = await moving.preview(SwitchOver(1, Vendor.SENDGRID, [file], NEWS))
    assert counts == SwitchCounts(rows=2, subscribed=1, refused=1)
    assert await everyone(database, clock) == {}


@pytest.mark.promise("import-never-revives")
async def test_leaving_one_listmonk_list_keeps_the_others(
    moving: SwitchOvers, database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    titles, names = "email,status", ("ada", "bob", "cleo", "dan", "eve")
    everybody = a_file(tmp_path, "all.csv", titles, *(f"{name}@example.com,enabled" for name in names))
    left = a_file(
        tmp_path,
        "left.csv",
        titles,
        "ada@example.com,Enabled",
        "bob@example.com,blocklisted",
        "cleo@example.com,odd",
        "eve@example.com,enabled",
    )
    plain = a_file(tmp_path, "plain.csv", "email", "dan@example.com")
    files = [ExportFile(path, MemberStatus.UNSUBSCRIBED) for path in (left, plain)]
    complaints = ExportFile(a_file(tmp_path, "spam.csv", "email", "eve@example.com"), MemberStatus.COMPLAINED)
    counts = await move(moving, Vendor.LISTMONK, everybody, *files, complaints, report=tmp_path / "report.csv")
    assert counts == SwitchCounts(rows=11, unsubscribed=5, repeated=6, complained=1)
    assert results(tmp_path / "report.csv")[0] == ("ada@example.com", "unsubscribed_from_list", "")

    counts = await move(moving, Vendor.LISTMONK, everybody, list_key="other")
    assert counts == SwitchCounts(rows=5, subscribed=1, unsubscribed=4, complained=1, already_unsubscribed=4)
    await move(moving, Vendor.LISTMONK, everybody)
    found = await everyone(database, clock)
    assert found.pop("ada@example.com") == ("active", ("other",))
    assert {status for status, _ in found.values()} == {"unsubscribed"}
    assert await suppressions.is_suppressed(database, 1, "ada@example.com", NEWS)
    for name in names[1:]:
        assert await suppressions.is_suppressed(database, 1, f"{name}@example.com", "other")


@pytest.mark.promise("import-never-revives")
async def test_option_does_not_subscribe_blocklisted_rows(
    moving: SwitchOvers, database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    file = a_file(tmp_path, "some.csv", "email,status", "ada@example.com,blocklisted", "bob@example.com,enabled")
    await move(moving, Vendor.LISTMONK, ExportFile(file, MemberStatus.SUBSCRIBED))
    assert await everyone(database, clock) == {
        "ada@example.com": ("unsubscribed", ()),
        "bob@example.com": ("active", (NEWS,)),
    }


async def test_counts_equal_the_stored_contacts(
    moving: SwitchOvers, database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    await lists.create(database, clock, 1, NEWS)
    here = ContactStatusService(database, clock)
    await here.unsubscribe(1, "left@example.com", lists.GENERAL, source="test")
    await here.unsubscribe(1, "off@example.com", NEWS, source="test")
    await here.bounce(1, "bounced@example.com", source="test")
    await here.subscribe(1, "erased@example.com", NEWS, source="test")
    await erase(database, clock, 1, "erased@example.com", actor="test")
    await suppressions.add(database, clock, 1, "blocked@example.com", reason="manual", source="test")
    names = ("left", "off", "bounced", "erased", "blocked", "new", "New")
    rows = (f"{name}@example.com,enabled,{{}}" for name in names)
    long = f'long@example.com,enabled,"{{""note"": ""{"x" * 5_000}""}}"'
    file = a_file(tmp_path, "subscribers.csv", "email,status,attributes", *rows, long)

    expected = SwitchCounts(
        rows=8, subscribed=1, unsubscribed=3, bounced=1, refused=2, repeated=1, already_unsubscribed=3
    )
    assert await move(moving, Vendor.LISTMONK, file, report=tmp_path / "report.csv") == expected
    assert results(tmp_path / "report.csv") == [
        ("left@example.com", "unsubscribed", "Already unsubscribed here."),
        ("off@example.com", "unsubscribed_from_list", "Already unsubscribed from list here."),
        ("bounced@example.com", "bounced", "Already bounced here."),
        ("erased@example.com", "refused", "erased on request; only the contact can subscribe again"),
        ("blocked@example.com", "unsubscribed", "Already unsubscribed here."),
        ("new@example.com", "subscribed", ""),
        ("new@example.com", "repeated", "An earlier row has the same address."),
        ("long@example.com", "refused", "An attribute has more than 4096 characters."),
    ]
    assert (await everyone(database, clock))["new@example.com"] == ("active", (NEWS,))
    assert await move(moving, Vendor.LISTMONK, file) == expected


async def test_dry_run_counts_contacts_unsubscribed_here(
    moving: SwitchOvers, database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    await ContactStatusService(database, clock).unsubscribe(1, "ada@example.com", lists.GENERAL, source="test")
    rows = ("ada@example.com,1", "bob@example.com,2", "bob@example.com,3")
    file = ExportFile(a_file(tmp_path, "contacts.csv", "email,contact_id", *rows))
    counts = await moving.preview(SwitchOver(1, Vendor.SENDGRID, [file], NEWS))
    assert counts == SwitchCounts(rows=3, subscribed=1, unsubscribed=1, repeated=1, already_unsubscribed=1)


CELLS = st.sampled_from(["ada@example.com", "Ada@Example.com", "bob@example.com", "", "x", '"', "'=1", "enabled", "{}"])


@given(st.lists(st.lists(CELLS, max_size=6), max_size=8), st.sampled_from(list(Vendor)))
def test_counts_add_up_to_the_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], vendor: Vendor
) -> None:
    path = tmp_path_factory.mktemp("export") / "subscribed.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["email", "name", "status", "attributes", "lists", "contact_id"], *rows])
    found = list(ExportReader(vendor, ExportFile(path), largest=LARGEST).rows())
    assert len(found) == len([row for row in rows if row])
    assert all(row.problem or "@" in row.email for row in found)


def test_zip_archive_is_read_like_its_files(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("__MACOSX/._subscribed_members.csv", b"\0\5\x16\7")  # macOS adds such files.
        archive.writestr("audience/subscribed_1.csv", MAILCHIMP)
        archive.writestr("other/subscribed_1.csv", MAILCHIMP)
        archive.writestr("readme.txt", "hello")
    with unpacked([ExportFile(tmp_path / "export.zip")], largest=LARGEST) as files:
        assert [file.path.name for file in files] == ["subscribed_1.csv"] * 2
        assert files[0].path.read_text() == MAILCHIMP
    assert not files[0].path.exists()


@pytest.mark.parametrize(("names", "largest"), [((), LARGEST), (("../a.csv",), 3)])
def test_bad_archive_is_refused(tmp_path: Path, names: tuple[str, ...], largest: int) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for name in names:
            archive.writestr(name, "email")
    with pytest.raises(FileUnreadable), unpacked([ExportFile(tmp_path / "export.zip")], largest=largest):
        pass
