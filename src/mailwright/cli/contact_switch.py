"""`mailwright contact import-from`: move contacts from another product."""

from pathlib import Path
from typing import Annotated

import typer

from mailwright.actions.moves import MoveCountsResponse
from mailwright.audience.switching.archives import unpacked
from mailwright.audience.switching.exports import ExportFile
from mailwright.audience.switching.moving import SwitchOver, SwitchOvers
from mailwright.audience.switching.results import SwitchCounts
from mailwright.audience.switching.vendors import MemberStatus, Vendor
from mailwright.cli import remote
from mailwright.cli.contact_uploads import move_uploads
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Tenant
from mailwright.cli.output import out, print_json
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE

Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[FILE]...", exists=True, dir_okay=False, show_default=False, help="Export files."),
]
StatusFiles = list[Path] | None


def _status_files(help_text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        help=help_text, exists=True, dir_okay=False, metavar="FILE", show_default=False
    )
    return option


def import_from_command(
    vendor: Annotated[Vendor, typer.Argument(help="The product that wrote the files.", show_default=False)],
    files: Files = None,
    *,
    list_key: Annotated[
        str | None,
        typer.Option("--list", help="The list that subscribers join; it is created if missing.", show_default=False),
    ] = None,
    subscribed: Annotated[StatusFiles, _status_files("Addresses that subscribed.")] = None,
    unsubscribed: Annotated[StatusFiles, _status_files("Addresses that unsubscribed.")] = None,
    bounced: Annotated[StatusFiles, _status_files("Addresses that bounced.")] = None,
    complained: Annotated[StatusFiles, _status_files("Addresses that complained about spam.")] = None,
    confirmed: Annotated[
        bool,
        typer.Option(
            "--confirmed", help="Send no confirmation emails, because the contacts confirmed in the other product."
        ),
    ] = False,
    filtered: Annotated[
        bool,
        typer.Option("--filtered", help="The listmonk export contains no contacts who unsubscribed from the list."),
    ] = False,
    report: Annotated[
        Path | None, typer.Option(help="Write the result of each row to this file.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count, and store nothing.")] = False,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Move contacts from listmonk, Mailchimp, SendGrid or another Mailwright, including those who must not get email.

    Contacts who unsubscribed, complained or bounced are stored first, with that status. Then the subscribers join the
    list. Run it again after an interruption. At the end the numbers add up to the rows of the files.
    """
    named = {
        MemberStatus.SUBSCRIBED: subscribed,
        MemberStatus.UNSUBSCRIBED: unsubscribed,
        MemberStatus.BOUNCED: bounced,
        MemberStatus.COMPLAINED: complained,
    }
    given = [ExportFile(path) for path in files or ()]
    given += [ExportFile(path, status) for status, paths in named.items() for path in paths or ()]

    async def work(at: Installation) -> SwitchCounts:
        owner = await find_tenant(at, tenant)
        largest = at.settings.import_bytes
        moving = SwitchOvers(at.database, at.clock, largest=largest)
        with unpacked(given, largest=largest) as exports:
            wanted = SwitchOver(owner.id, vendor, exports, list_key, confirmed, filtered)
            return await (moving.preview(wanted) if dry_run else moving.run(wanted, actor=CONSOLE, report=report))

    if remote.server() is None:
        counts = MoveCountsResponse.model_validate(run(work, creates=not dry_run))
    else:
        wanted = {"vendor": vendor.value, "listKey": list_key, "confirmed": confirmed, "filtered": filtered}
        values = {name: value for name, value in wanted.items() if value is not None}
        counts = move_uploads(given, values, tenant=tenant, report=report, is_preview=dry_run)
    if as_json:
        print_json(counts.to_dict())
        return
    out.print(_sentence(counts, is_preview=dry_run), soft_wrap=True)


def _sentence(counts: MoveCountsResponse, *, is_preview: bool) -> str:
    parts_of = ((counts.complained, "complained"), (counts.already_unsubscribed, "already unsubscribed here"))
    named = ", ".join(f"{number:,} of them {what}" for number, what in parts_of if number)
    parts = (
        f"{counts.subscribed:,} subscribed",
        f"{counts.unsubscribed:,} unsubscribed{f' ({named})' if named else ''}",
        f"{counts.bounced:,} bounced",
        f"{counts.refused:,} refused",
        f"{counts.repeated:,} repeated",
    )
    preview = " Nothing was stored." if is_preview else ""
    return f"{' + '.join(parts)} = {counts.rows:,} rows.{preview}"
