"""`mailwright article`: import and export of files, previews, and sending once."""

import csv
from pathlib import Path

from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import SystemClock
from mailwright.storage.database import Database
from tests.acceptance.commands import Commands
from tests.articles import BATCH, KEY, OHIO, US
from tests.builders import DEFAULT_TENANT
from tests.profiles import SupabaseOwner
from tests.standins.supabase import SECRET_KEY, SupabaseStandIn

SEND = ("article", "send", "--tag", "spring", "--key", KEY, "--batch", BATCH)
SLICES = f"""article_key,section_order,scope_ocd_id,is_headline,title,body_md,publish_status
{KEY},1,,true,Vote in May,"Dear [[name|reader]],",published
{KEY},2,{OHIO},,,Ohio votes.,published
"""
PEOPLE = f"email,name,ocd_ids\nada@example.com,Ada,{US};{OHIO}\ncleo@example.com,,{US}\n"


async def test_article_is_imported_and_sent_once(tmp_path: Path) -> None:
    commands = Commands(tmp_path)
    (tmp_path / "slices.csv").write_text(SLICES)
    (tmp_path / "people.csv").write_text(PEOPLE)
    taken = (await commands.ok("article", "import", "slices.csv", "--json")).json
    assert taken == {"added": 2, "changed": 0, "unchanged": 0}
    await commands.ok("contact", "import", "people.csv", "--list", "general")
    first = (await commands.ok(*SEND, "--json")).json
    again = (await commands.ok(*SEND, "--json")).json
    assert (first["is_replay"], again["is_replay"], again["run_id"]) == (False, True, first["run_id"])
    await commands.ok("worker", "--drain")
    story = (await commands.ok("article", "runs", first["run_id"], "--json")).json
    assert (story["actor"], story["recipients"], story["counts"]) == ("console", 2, {"SENT": 2})
    assert [each["run_id"] for each in (await commands.ok("article", "runs", "--json")).json] == [first["run_id"]]


async def test_article_is_previewed_and_exported(tmp_path: Path) -> None:
    commands = Commands(tmp_path)
    (tmp_path / "slices.csv").write_text(SLICES)
    await commands.ok("article", "import", "slices.csv")
    seen = (await commands.ok("article", "preview", KEY, "--ocd-id", OHIO, "--json")).json
    assert (seen["subject"], seen["body_md"]) == ("Vote in May", "Dear [[name|reader]],\n\nOhio votes.")
    why = (await commands.ok("article", "explain", KEY, "--ocd-id", US, "--json")).json
    assert [each["fate"] for each in why] == ["for_everyone", "out_of_scope"]
    covered = (await commands.ok("article", "coverage", KEY, "--filter", "state=OH", "--json")).json
    assert (covered["recipients"], len(covered["unread"])) == (0, 2)
    assert (await commands.ok("article", "list", "--json")).json[0]["published"] == 2
    await commands.ok("article", "export", KEY, "again.csv")
    assert len(list(csv.DictReader((tmp_path / "again.csv").read_text().splitlines()))) == 2
    await commands.ok("article", "export", KEY, "again")
    assert "2 unchanged" in (await commands.ok("article", "import", "again")).out


async def test_invalid_article_is_refused_with_a_message(tmp_path: Path) -> None:
    commands = Commands(tmp_path)
    (tmp_path / "slices.csv").write_text(SLICES.replace(OHIO, "ohio"))
    refused = await commands.run("article", "import", "slices.csv")
    assert (refused.code, "slices.csv, line 3: scope_ocd_id: 'ohio' is not an OCD division id" in refused.err) == (
        2,
        True,
    )
    await commands.ok("db", "upgrade")
    unknown = await commands.run(*SEND)
    assert (unknown.code, f"--key: There is no article {KEY}" in unknown.err) == (2, True)
    wrong = await commands.run("article", "send", "--tag", "Big", "--key", KEY, "--batch", "1")
    assert (wrong.code, wrong.err.count("--tag: "), wrong.err.count("--batch: ")) == (2, 1, 1)
    assert (await commands.run("article", "coverage", KEY, "--filter", "state")).code == 2
    assert (await commands.ok("article", "runs", "--json")).json == []


async def test_article_goes_to_rows_in_supabase(tmp_path: Path) -> None:
    async with SupabaseStandIn() as server:
        owner = SupabaseOwner(server)
        settings = {"MAILWRIGHT_PROFILES_URL": server.url, "MAILWRIGHT_PROFILES_KEY": SECRET_KEY}
        commands = Commands(tmp_path, settings)
        (tmp_path / "slices.csv").write_text(SLICES)
        await commands.ok("article", "import", "slices.csv")
        empty = await commands.run(*SEND)
        assert (empty.code, "MAILWRIGHT_PROFILES_KEY" in empty.err) == (1, True), empty
        await owner.add("Ada@example.com", US, OHIO)
        await owner.add("broken", US)
        assert "Recipients come from profiles in Supabase" in (await commands.ok("article", "coverage", KEY)).out
        run = (await commands.ok(*SEND, "--json")).json
        assert run["recipients_from"]["is_complete"] is False
        await commands.ok("worker", "--drain")
        shown = (await commands.ok("article", "runs", run["run_id"])).out
        assert "2 rows read, 1 addresses matched, 1 rows refused" in " ".join(shown.split()), shown
        database = Database(f"sqlite:///{tmp_path / 'mailwright.db'}")
        statuses = ContactStatusService(database, SystemClock())
        await statuses.unsubscribe_by_link(DEFAULT_TENANT, "ada@example.com", source="link")
        await database.close()
        await commands.ok("worker", "--drain")
        assert [row["mail_status"] for row in await owner.rows()] == ["unsubscribed", None]
        checked = " ".join((await commands.run("check")).out.split())
        assert "profiles in Supabase" in checked, checked
