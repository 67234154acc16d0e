"""`mailwright sequence`: a series of emails for each person."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import orjson
import typer

from mailwright.app.sequences import make_sequences
from mailwright.app.templates import make_templates
from mailwright.cli.json_input import parse_json
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Limit, Tenant, Yes, confirm, group
from mailwright.cli.output import aside, clock_time, display, out, print_json, print_rows
from mailwright.domain.clock import SystemClock
from mailwright.domain.errors import InvalidInput
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.base import extend
from mailwright.schemas.sequence_files import read_sequence_file, sequence_file
from mailwright.schemas.sequences import (
    EnrolledSequenceResponse,
    SequenceEnrolResponse,
    SequencePublishResponse,
    enrolment_response,
    publish_response,
    ready_list_response,
    rehearsal_response,
    run_list_response,
    sequence_detail_response,
    sequence_response,
)
from mailwright.sources.api.validation import FieldError
from mailwright.sources.sequences.bundles import BundledTemplate, add_templates, load_templates
from mailwright.sources.sequences.enrol import EnrolmentRecord, People
from mailwright.sources.sequences.overdue import Overdue, OverdueChoice
from mailwright.sources.sequences.publish import Received
from mailwright.sources.sequences.ready import ReadySequences, list_ready
from mailwright.sources.sequences.rehearsal import MAX_DAYS, Rehearsal
from mailwright.sources.sequences.sequences import Sequences
from mailwright.texts.sequences import deferred_text, left_out_texts, run_text, step_text, unsent_texts

app = group("Sequences: a series of emails for each person.")

Result = TypeVar("Result")
Reference = Annotated[str, typer.Argument(metavar="SEQUENCE", help="The ID or the name.", show_default=False)]
Replace = Annotated[
    bool, typer.Option("--replace", help="Replace existing templates that differ from the file with new versions.")
]
Document = Annotated[
    typer.FileText,
    typer.Argument(metavar="FILE", help="The document as JSON; - reads stdin.", encoding="utf-8", show_default=False),
]
Emails = Annotated[list[str] | None, typer.Argument(metavar="[EMAIL]...", show_default=False)]
OnList = Annotated[str | None, typer.Option("--list", help="Everyone on this list.", show_default=False)]
InSegment = Annotated[str | None, typer.Option("--segment", help="Everyone in this segment.", show_default=False)]
OverdueOption = Annotated[
    Overdue | None, typer.Option("--overdue", help="What happens to people whose next step is overdue.")
]
Hours = Annotated[int, typer.Option(min=1, max=720, help="The number of hours for `--overdue spread`.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would happen.")]


def _run(tenant: str, reference: str, work: Callable[[Sequences, int, str], Awaitable[Result]]) -> Result:
    """Run a command about one sequence, which is named by its ID or its name."""

    async def found(at: Installation) -> Result:
        owner = await find_tenant(at, tenant)
        sequences = _sequences(at)
        sequence_id = await sequences.resolve(owner.id, reference)
        return await work(sequences, owner.id, sequence_id)

    return run(found)


@app.command("list")
def list_command(
    *,
    ready: Annotated[bool, typer.Option("--ready", help="List the ready-made sequences instead.")] = False,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """List a tenant's sequences, newest first."""
    if ready:
        _list_ready(as_json=as_json)
        return

    async def work(at: Installation) -> Any:
        return await _sequences(at).list_all((await find_tenant(at, tenant)).id)

    found = run(work)
    if as_json:
        print_json([sequence_response(each).to_dict() for each in found])
        return
    rows = ((each.sequence_id, each.name, each.status, each.version or "") for each in found)
    print_rows(("ID!", "Name", "Status!", "Version"), rows, nothing="No sequences.")


@app.command()
def create(
    document: Annotated[
        typer.FileText | None,
        typer.Argument(
            metavar="[FILE]", help="The document as JSON; - reads stdin.", encoding="utf-8", show_default=False
        ),
    ] = None,
    *,
    ready: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A ready-made sequence with its templates, see list --ready."),
    ] = None,
    list_key: Annotated[
        str | None, typer.Option("--list", metavar="LIST", help="The list of the ready-made sequence.")
    ] = None,
    replace: Replace = False,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Create a draft from a document or a ready-made sequence. Nobody enters it before it is published.

    Templates that the file contains are created if they are missing.
    """
    if (document is None) == (ready is None):
        raise InvalidInput("Name a FILE or a ready-made sequence with --ready, not both.", field="FILE")
    given, bundled = (None, []) if document is None else read_sequence_file(parse_json(document.read(), "FILE"))

    async def work(at: Installation) -> Any:
        owner, sequences = await find_tenant(at, tenant), _sequences(at)
        if ready is None:
            await _add_templates(at, owner.id, given, bundled, replaces=replace)
            created = await sequences.create(owner.id, given, actor=CONSOLE)
            return created, await sequences.missing(created)
        copies = ReadySequences(at.database, at.clock, make_templates(at.settings, at.database, at.clock), sequences)
        return await copies.create(owner.id, ready, list_key=list_key, actor=CONSOLE), ()

    created, missing = run(work, creates=True)
    if as_json:
        print_json(sequence_response(created).to_dict())
        return
    out.print(f"Created the draft {created.name} ({created.sequence_id}).", markup=False)
    if missing:
        _print_missing(missing)
        return
    out.print(f'Publish it with: mailwright sequence publish "{created.name}"', markup=False)


def _list_ready(*, as_json: bool) -> None:
    if as_json:
        print_json([each.to_dict() for each in ready_list_response().sequences])
        return
    rows = ((each.name, each.title, each.description) for each in list_ready())
    print_rows(("Name!", "Title", "Description"), rows, nothing="")


@app.command()
def show(reference: Reference, tenant: Tenant = tenants.DEFAULT, limit: Limit = 20, as_json: Json = False) -> None:
    """Show a sequence, how many people are at each step, and who entered last."""

    async def work(sequences: Sequences, tenant_id: int, sequence_id: str) -> Any:
        found = await sequences.find(tenant_id, sequence_id)
        people = await sequences.enrolments.list_page(tenant_id, sequence_id, limit=limit)
        return found, await sequences.counts(found), people

    found, counts, people = _run(tenant, reference, work)
    if as_json:
        enrolments = [enrolment_response(each) for each in people]
        print_json(
            extend(EnrolledSequenceResponse, sequence_detail_response(found, counts), enrolments=enrolments).to_dict()
        )
        return
    version = "" if found.version is None else f", version {found.version}"
    out.print(f"{found.name}: {found.status.value}{version}.", markup=False)
    ended = sum(counts.ended.values())
    out.print(f"In it: {counts.enrolled}. Ended: {ended}. Failed: {counts.failed}. Overdue: {counts.overdue}.")
    if counts.next_entry_at is not None:
        out.print(f"The schedule is due next at {clock_time(counts.next_entry_at)}.", markup=False)
    if counts.feed is not None:
        problem = "" if counts.feed.error is None else f" {counts.feed.error}"
        out.print(
            f"The feed was last read at {clock_time(counts.feed.read_at) or 'no time yet'}.{problem}", markup=False
        )
    rows = (
        (each.email, each.node or "(start)", _next_time(each), each.failure or each.end_reason or "") for each in people
    )
    print_rows(("Address", "Step", "Next", "Result"), rows, nothing="Nobody has entered yet.")


@app.command()
def export(
    reference: Reference,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write.", show_default="standard output")
    ] = None,
    with_templates: Annotated[
        bool, typer.Option("--with-templates", help="Write the newest versions of its templates into the file too.")
    ] = False,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Write the draft to a file for `sequence create` and `sequence edit`.

    The file refers to lists and segments by their keys. It does not contain them.
    """

    async def work(at: Installation) -> dict[str, Any]:
        owner, sequences = await find_tenant(at, tenant), _sequences(at)
        found = await sequences.find(owner.id, await sequences.resolve(owner.id, reference))
        if not with_templates:
            return dict(found.draft)
        return sequence_file(found.draft, await load_templates(at.database, found))

    content = run(work)
    if output is None:
        print_json(content)
    else:
        output.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


@app.command()
def edit(
    reference: Reference,
    document: Document,
    *,
    revision: Annotated[
        int | None, typer.Option(min=1, help="Refuse if the draft has another revision.", show_default=False)
    ] = None,
    replace: Replace = False,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Replace the draft. People in the sequence are not affected until it is published.

    Templates that the file contains are created if they are missing.
    """
    given, bundled = read_sequence_file(parse_json(document.read(), "FILE"))

    async def work(at: Installation) -> Any:
        owner, sequences = await find_tenant(at, tenant), _sequences(at)
        sequence_id = await sequences.resolve(owner.id, reference)
        await _add_templates(at, owner.id, given, bundled, replaces=replace)
        changed = await sequences.edit(owner.id, sequence_id, given, revision=revision, actor=CONSOLE)
        return changed, await sequences.missing(changed)

    changed, missing = run(work)
    out.print(f"Saved the draft of {changed.name}, revision {changed.revision}.", markup=False)
    _print_missing(missing)


@app.command()
def publish(
    reference: Reference,
    *,
    overdue: OverdueOption = None,
    hours: Hours = 24,
    received: Annotated[
        Received, typer.Option(help="Whether people get an email twice if the new version moves its step after them.")
    ] = Received.SKIP,
    dry_run: DryRun = False,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Publish the draft. Show who stays, who moves, whose run ends and who is overdue."""

    async def work(sequences: Sequences, tenant_id: int, sequence_id: str) -> Any:
        if dry_run:
            return publish_response(await sequences.preview_publish(tenant_id, sequence_id), None, is_published=False)
        sequence, plan = await sequences.publish(
            tenant_id, sequence_id, overdue=_choice(overdue, hours), received=received, actor=CONSOLE
        )
        return publish_response(plan, sequence.version, is_published=True)

    result: SequencePublishResponse = _run(tenant, reference, work)
    if as_json:
        print_json(result.to_dict())
        return
    out.print(f"Published version {result.version}." if result.is_published else "Nothing was published.")
    if result.stays or result.moves or result.ends:
        out.print(f"Stay: {result.stays}. Move: {result.moves}. End: {result.ends}. Overdue: {result.overdue}.")
    else:
        out.print("Nobody is in it yet.")
    then = "is sent again" if received is Received.SEND else "is left out"
    for step, people in result.received.items():
        out.print(f"Already received {step}, which lies ahead again and {then}: {people}.", markup=False)
    rows = (
        (each.email, each.step, each.to or "(end)", "overdue" if each.is_overdue else "", ", ".join(each.received))
        for each in result.people
    )
    if result.people:
        print_rows(("Address", "Step", "To", "Overdue", "Already received"), rows, nothing="")
    for warning in result.warnings:
        template = f" ({warning.template})" if warning.template else ""
        where = "feed" if warning.step is None else f"{warning.step}{template}"
        out.print(f"Warning: {where}: {warning.sentence}", markup=False, soft_wrap=True)


@app.command()
def pause(reference: Reference, tenant: Tenant = tenants.DEFAULT) -> None:
    """Stop running steps, and hold unsent emails. Everyone keeps their place, and new people still enter."""

    async def work(sequences: Sequences, tenant_id: int, sequence_id: str) -> Any:
        return await sequences.pause(tenant_id, sequence_id, actor=CONSOLE)

    out.print(f"Paused {_run(tenant, reference, work).name}.", markup=False)


@app.command()
def resume(
    reference: Reference,
    *,
    overdue: OverdueOption = None,
    hours: Hours = 24,
    dry_run: DryRun = False,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Run steps again. If the next step or an unsent email of people is overdue, choose --overdue."""

    async def work(sequences: Sequences, tenant_id: int, sequence_id: str) -> int:
        if dry_run:
            return await sequences.count_overdue(tenant_id, sequence_id)
        choice = _choice(overdue, hours)
        return (await sequences.resume(tenant_id, sequence_id, overdue=choice, actor=CONSOLE))[1]

    late = _run(tenant, reference, work)
    out.print(f"{'Nothing was changed' if dry_run else 'Resumed'}. Overdue: {late}.", markup=False)


@app.command()
def enrol(
    reference: Reference,
    emails: Emails = None,
    *,
    list_key: OnList = None,
    segment: InSegment = None,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Enrol people by their addresses, or everyone on a list or in a segment."""

    async def work(sequences: Sequences, tenant_id: int, sequence_id: str) -> Any:
        people = People(tuple(emails or ()), list_key, segment)
        return await sequences.enrolments.enrol(tenant_id, sequence_id, people, actor=CONSOLE)

    result = _run(tenant, reference, work)
    if as_json:
        print_json(SequenceEnrolResponse.model_validate(result).to_dict())
        return
    out.print(
        f"Enrolled: {result.enrolled}. Already in it: {result.already_in}. Left out by the re-entry rule: "
        f"{result.re_entry}. May not receive its emails: {result.not_eligible}. Unknown addresses: {result.unknown}.",
        markup=False,
        soft_wrap=True,
    )


@app.command()
def rehearse(
    reference: Reference,
    emails: Emails = None,
    *,
    list_key: OnList = None,
    segment: InSegment = None,
    days: Annotated[int, typer.Option(min=1, max=MAX_DAYS, help="How many days to rehearse.")] = 30,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Run the draft on a virtual clock, for the people in it and others as if they entered now. Nothing is sent."""
    is_named = bool(emails or list_key or segment)
    people = People(tuple(emails or ()), list_key, segment) if is_named else None

    async def work(sequences: Sequences, tenant_id: int, sequence_id: str) -> Rehearsal:
        return await sequences.rehearsals.rehearse(tenant_id, sequence_id, people=people, days=days)

    result = _run(tenant, reference, work)
    if as_json:
        print_json(rehearsal_response(result).to_dict())
        return
    out.print(f"People: {result.people}. Emails: {result.emails}. Still in it after {days} days: {result.still_in}.")
    rows = (
        (
            day.day.isoformat(),
            day.emails,
            ", ".join(f"{step} {number}" for step, number in day.by_step.items()),
            "; ".join(deferred_text(each) for each in day.deferred),
        )
        for day in result.days
        if day.emails or day.deferred
    )
    print_rows(("Day!", "Emails#", "Steps", "Limits"), rows, nothing="No emails.")
    for sentence in (*left_out_texts(result), *unsent_texts(result)):
        out.print(sentence, markup=False, soft_wrap=True)


@app.command()
def explain(
    reference: Reference,
    email: Annotated[str, typer.Argument(metavar="EMAIL", show_default=False)],
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Explain why a person got an email of a sequence or not, what comes next and when."""

    async def work(sequences: Sequences, tenant_id: int, sequence_id: str) -> Any:
        return await sequences.explanations.of_sequence(tenant_id, sequence_id, email)

    now, runs = SystemClock().now(), _run(tenant, reference, work)
    if as_json:
        print_json(run_list_response(runs, now, display.zone).to_dict())
        return
    for run_ in runs:
        out.print(run_text(run_, now, display.zone), markup=False, soft_wrap=True)
        rows = ((clock_time(step.at), step.node, step_text(step, display.zone)) for step in run_.steps)
        if run_.steps:
            print_rows(("Time ({zone})", "Step", "Result"), rows, nothing="")


@app.command()
def retry(
    reference: Reference,
    *,
    email: Annotated[str | None, typer.Option(help="Only this person.", show_default=False)] = None,
    skip: Annotated[bool, typer.Option("--skip", help="Continue without the email of the failed step.")] = False,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Run failed steps again, or skip their emails."""

    async def work(sequences: Sequences, tenant_id: int, sequence_id: str) -> int:
        return await sequences.enrolments.retry(tenant_id, sequence_id, email=email, skips=skip, actor=CONSOLE)

    out.print(f"{'Skipped' if skip else 'Retrying'}: {_run(tenant, reference, work)}.", markup=False)


@app.command()
def remove(
    reference: Reference,
    email: Annotated[str, typer.Argument(metavar="EMAIL", show_default=False)],
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Take a person out of a sequence, and cancel its unsent messages to them."""

    async def work(sequences: Sequences, tenant_id: int, sequence_id: str) -> None:
        await sequences.enrolments.remove(tenant_id, sequence_id, email, actor=CONSOLE)

    _run(tenant, reference, work)
    out.print(f"Removed {email}.", markup=False)


@app.command()
def delete(reference: Reference, tenant: Tenant = tenants.DEFAULT, yes: Yes = False) -> None:
    """Delete a draft that was never published, or archive a sequence, which ends it for everyone in it."""
    confirm(f"End the sequence {reference} for everyone in it?", yes=yes)

    async def work(sequences: Sequences, tenant_id: int, sequence_id: str) -> None:
        await sequences.remove(tenant_id, sequence_id, actor=CONSOLE)

    _run(tenant, reference, work)
    out.print(f"Deleted {reference}.", markup=False)


def _sequences(at: Installation) -> Sequences:
    return make_sequences(at.settings, at.database, at.clock)


def _next_time(person: EnrolmentRecord) -> str:
    if person.unsent_step is not None:
        return "waits until the previous email is sent"
    until = clock_time(person.due_at)
    return f"waits for consent until {until}" if person.awaits_consent else until


def _print_missing(missing: Sequence[FieldError]) -> None:
    """Print the lists, segments and templates that a document names and this tenant does not have."""
    if missing:
        out.print("It cannot be published yet:", markup=False)
    for each in missing:
        out.print(f"{each.field}: {each.message}", markup=False, soft_wrap=True)


def _choice(overdue: Overdue | None, hours: int) -> OverdueChoice | None:
    return None if overdue is None else OverdueChoice(overdue, hours)


async def _add_templates(
    at: Installation, tenant_id: int, document: Any, bundled: Sequence[BundledTemplate], *, replaces: bool
) -> None:
    templates = make_templates(at.settings, at.database, at.clock)
    added = await add_templates(at.database, templates, tenant_id, document, bundled, actor=CONSOLE, replaces=replaces)
    if added:
        aside.print(f"Stored the templates {', '.join(added)}.", markup=False)
