"""`mailwright segment`: saved filters over contacts."""

from typing import Annotated, Any

import typer

from mailwright.app.segment_removal import delete_segment
from mailwright.audience import segments
from mailwright.audience.attribute_names import case_mistake_sentence, find_case_mistakes
from mailwright.audience.contacts import Contact
from mailwright.audience.segments import Segment
from mailwright.cli.json_input import parse_json
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Limit, Tenant, group
from mailwright.cli.output import aside, out, print_json, print_rows
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.base import extend
from mailwright.schemas.filter_text import describe
from mailwright.schemas.segments import (
    SegmentMembersResponse,
    segment_count_response,
    segment_edit_response,
    segment_response,
)
from mailwright.sources.sequences.segment_edits import StartedSequence, edit_segment, preview_edit

app = group("Segments: saved filters over contacts.")

Key = Annotated[
    str, typer.Argument(metavar="KEY", help="The segment key, for example big-spenders.", show_default=False)
]
Filter = Annotated[str, typer.Argument(metavar="FILTER", help='JSON, for example {"tag": "vip"}.', show_default=False)]


@app.command()
def create(
    key: Key,
    filter_: Filter,
    *,
    name: Annotated[str | None, typer.Option(help="The display name.", show_default=False)] = None,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Create a segment from a filter. Its members are computed each time it is used."""

    async def work(at: Installation) -> tuple[Segment, int]:
        owner = await find_tenant(at, tenant)
        made = await segments.create(
            at.database, at.clock, owner.id, key, filter_=parse_json(filter_, "FILTER"), name=name, actor=CONSOLE
        )
        await _warn_of_case(at, owner.id, made.filter)
        return made, await _count(at, owner.id, made.filter)

    made, number = run(work, creates=True)
    out.print(f"{describe(made.filter)} Contacts now: {number}.", markup=False)


@app.command("list")
def list_command(tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """List a tenant's segments."""

    async def work(at: Installation) -> list[Segment]:
        owner = await find_tenant(at, tenant)
        return await segments.list_all(at.database, owner.id)

    found = run(work)
    if as_json:
        print_json([segment_response(each).to_dict() for each in found])
        return
    rows = ((each.segment_key, each.name, describe(each.filter)) for each in found)
    print_rows(("Key!", "Name", "Filter"), rows, nothing="No segments.")


@app.command()
def show(key: Key, tenant: Tenant = tenants.DEFAULT, limit: Limit = 20, as_json: Json = False) -> None:
    """Show a segment and its current members."""

    async def work(at: Installation) -> tuple[Segment, int, list[Contact]]:
        owner = await find_tenant(at, tenant)
        found = await segments.find(at.database, owner.id, key)
        async with at.database.read() as tx:
            people = await segments.list_members(tx, owner.id, found.filter, at.clock.now(), limit=limit)
        await _warn_of_case(at, owner.id, found.filter)
        return found, await _count(at, owner.id, found.filter), people

    found, number, people = run(work)
    if as_json:
        print_json(extend(SegmentMembersResponse, segment_count_response(found, number), contacts=people).to_dict())
        return
    out.print(f"{describe(found.filter)} Contacts now: {number}.", markup=False)
    rows = ((person.email, person.name, person.status) for person in people)
    print_rows(("Address", "Name", "Status!"), rows, nothing="No contacts.")


@app.command()
def edit(
    key: Key,
    filter_: Filter,
    *,
    enrol: Annotated[
        bool,
        typer.Option(
            "--enrol", help="Let people who match only because of the edit enter the sequences that the segment starts."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show who would enter sequences.")] = False,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Replace the filter of a segment.

    People who match only because of the edit enter no sequence, unless --enrol is given.
    """

    async def work(at: Installation) -> tuple[Segment, tuple[StartedSequence, ...]]:
        owner = await find_tenant(at, tenant)
        where, wanted = (at.database, at.clock, owner.id, key), parse_json(filter_, "FILTER")
        await _warn_of_case(at, owner.id, wanted)
        if dry_run:
            return await segments.find(at.database, owner.id, key), await preview_edit(*where, wanted)
        return await edit_segment(*where, filter_=wanted, enrols=enrol, actor=CONSOLE)

    found, started = run(work)
    if as_json:
        print_json(segment_edit_response(found, started).to_dict())
        return
    out.print("Nothing was changed." if dry_run else describe(found.filter), markup=False)
    for each in started:
        then = "enter" if enrol else "do not enter"
        text = f"Match only because of this: {each.people}. They {then} the sequence {each.name}."
        out.print(text, markup=False, soft_wrap=True)


@app.command()
def delete(key: Key, tenant: Tenant = tenants.DEFAULT) -> None:
    """Delete a segment. Its contacts stay."""

    async def work(at: Installation) -> None:
        owner = await find_tenant(at, tenant)
        await delete_segment(at.database, at.clock, owner.id, key, actor=CONSOLE)

    run(work)
    out.print(f"Deleted the segment {key}.", markup=False)


async def _warn_of_case(at: Installation, tenant_id: int, filter_: Any) -> None:
    async with at.database.read() as tx:
        for name, existing in (await find_case_mistakes(tx, tenant_id, filter_)).items():
            aside.print(case_mistake_sentence(name, existing), style="yellow", markup=False, soft_wrap=True)


async def _count(at: Installation, tenant_id: int, filter_: Any) -> int:
    async with at.database.read() as tx:
        return await segments.count_members(tx, tenant_id, filter_, at.clock.now())
