"""`mailwright article`: slices, previews, coverage and sending."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from mailwright.app.profiles import open_profiles
from mailwright.app.templates import make_templates
from mailwright.cli.opening import Installation, find_tenant, run, warn_if_held
from mailwright.cli.options import Json, Limit, Tenant, group
from mailwright.cli.output import clock_time, out, print_json, print_rows, two_lines
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.articles import (
    ArticleSendRequest,
    ArticleSummaryResponse,
    SliceImportResponse,
    article_coverage_response,
    article_preview_response,
    article_run_detail_response,
    article_run_response,
    article_send_response,
    slice_decision_response,
)
from mailwright.sources.api.validation import parse_strict
from mailwright.sources.articles import files
from mailwright.sources.articles.assembly import Slice, SliceSet
from mailwright.sources.articles.preview import ArticleCoverage, ArticlePreview, ArticlePreviews
from mailwright.sources.articles.profiles.reads import ProfileRead
from mailwright.sources.articles.runs import ArticleRun, ArticleRuns, RunVariant
from mailwright.sources.articles.slices import ArticleSummary, SliceChanges, SliceStore

app = group("Articles: one newsletter, assembled per recipient from slices.")

Key = Annotated[
    str, typer.Argument(metavar="KEY", help="The article key, for example spring-vote.", show_default=False)
]
Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="NAME=VALUE",
        help="Only recipients with this attribute value, for example state=OH. `list` and `ocd_id` can be used too.",
        show_default=False,
    ),
]
As = Annotated[str | None, typer.Option("--as", metavar="EMAIL", help="Preview as this contact.", show_default=False)]
Divisions = Annotated[
    list[str] | None,
    typer.Option("--ocd-id", metavar="ID", help="Preview as a recipient in this division; can be repeated."),
]

Part = TypeVar("Part", SliceStore, ArticleRuns)


@app.command("list")
def list_command(tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """List articles."""

    async def work(at: Installation) -> list[ArticleSummary]:
        owner = await find_tenant(at, tenant)
        return await _service(SliceStore, at).list_articles(owner.id)

    found = run(work)
    if as_json:
        print_json([ArticleSummaryResponse.model_validate(each).to_dict() for each in found])
        return
    rows = ((each.article_key, each.slices, each.published, clock_time(each.updated_at)) for each in found)
    print_rows(("Key!", "Slices#", "Published#", "Updated!"), rows, nothing="No articles.")


@app.command("import")
def import_command(
    path: Annotated[
        Path, typer.Argument(help="A folder of .md files, a single .md file, or a .csv file.", show_default=False)
    ],
    *,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Import slices. A slice replaces the stored one at its position. If any slice is invalid, nothing is imported."""
    given = files.read(path)

    async def work(at: Installation) -> SliceChanges:
        owner = await find_tenant(at, tenant)
        return await _service(SliceStore, at).import_slices(CONSOLE, owner.id, given)

    put = run(work, creates=True)
    if as_json:
        print_json(SliceImportResponse.model_validate(put).to_dict())
        return
    out.print(f"{put.added} added, {put.changed} updated, {put.unchanged} unchanged.")


@app.command()
def export(
    key: Key,
    to: Annotated[Path, typer.Argument(help="A .csv file, or a folder for .md files.", show_default=False)],
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Export an article's slices. Importing the unchanged export changes nothing."""

    async def work(at: Installation) -> list[Slice]:
        owner = await find_tenant(at, tenant)
        return await _service(SliceStore, at).list_slices(owner.id, key)

    found = SliceSet(run(work)).slices
    if not found:
        raise NotFound(f"There is no article {key}.")
    if to.suffix.lower() == ".csv":
        to.write_text(files.as_csv(found), encoding="utf-8")
    else:
        for name, text in files.as_markdown(found).items():
            file = to / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    out.print(f"Exported {len(found)} slices to {to}.", markup=False)


@app.command()
def preview(
    key: Key,
    *,
    as_: As = None,
    ocd_ids: Divisions = None,
    html: Annotated[bool, typer.Option("--html", help="Print the HTML of the email.")] = False,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Preview an article as a recipient would get it now."""
    seen = _load_preview(key, as_, ocd_ids, tenant)
    if as_json:
        print_json(article_preview_response(seen).to_dict())
        return
    if seen.article is None or seen.rendered is None:
        out.print("This recipient gets nothing. `mailwright article explain` shows the reason for each slice.")
        raise typer.Exit(1)
    if html:
        out.file.write(f"{seen.rendered.html}\n")
        return
    out.print(f"Subject: {seen.rendered.subject}\n\n{seen.rendered.text}", markup=False)


@app.command()
def explain(
    key: Key, *, as_: As = None, ocd_ids: Divisions = None, tenant: Tenant = tenants.DEFAULT, as_json: Json = False
) -> None:
    """Explain why each slice is or is not in a recipient's article."""
    seen = _load_preview(key, as_, ocd_ids, tenant)
    if as_json:
        print_json([slice_decision_response(each).to_dict() for each in seen.slices])
        return
    rows = (("✓" if each.inclusion.is_included else "–", _label(each.slice), each.reason) for each in seen.slices)
    print_rows(("!", "Slice", "Reason"), rows, nothing="No slices.")


@app.command()
def coverage(key: Key, *, filters: Filters = None, tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """Show how many recipients would get each variant now."""

    async def work(at: Installation) -> ArticleCoverage:
        owner = await find_tenant(at, tenant)
        async with _previews(at) as previews:
            return await previews.coverage(owner.id, key, _conditions(filters))

    found = run(work)
    if as_json:
        print_json(article_coverage_response(key, found).to_dict())
        return
    rows = (
        (each.recipients, each.title, "\n".join(one.scope_ocd_id or "everyone" for one in each.slices))
        for each in found.variants
    )
    print_rows(("Recipients#", "Headline", "Slices for"), rows, nothing="Nobody would receive it.")
    out.print(f"Recipients on the list {found.list_key}: {found.recipients}. Variants: {len(found.variants)}.")
    if found.source is not None:
        out.print(f"Recipients come from {found.source}.", markup=False)
    if found.skipped:
        out.print(f"{found.skipped} subscribers match no slice.")
    for each in found.unread:
        out.print(f"No recipient gets: {_label(each)}", markup=False)


@app.command()
def send(
    *,
    tag: Annotated[str, typer.Option("--tag", help="The campaign tag for statistics.", show_default=False)],
    key: Annotated[str, typer.Option("--key", help="The article key.", show_default=False)],
    batch: Annotated[
        str, typer.Option("--batch", help="A UUID. The same batch is sent only once.", show_default=False)
    ],
    filters: Filters = None,
    override_sender_rules: Annotated[
        bool,
        typer.Option(
            "--override-sender-rules",
            help="Send even if the large mailbox providers' sender rules are not met. The audit log records this.",
        ),
    ] = False,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Send an article to every recipient that matches all filters. Repeating the command sends nothing twice."""
    request = {"campaign_tag": tag, "article_key": key, "send_batch_id": batch, "audience_filter": _conditions(filters)}
    order = parse_strict(ArticleSendRequest, request).run_request()

    async def work(at: Installation) -> tuple[ArticleRun, bool]:
        owner = await find_tenant(at, tenant)
        await warn_if_held(at)
        async with _runs(at) as runs:
            return await runs.start(CONSOLE, owner.id, order, overrides_rules=override_sender_rules)

    begun, is_replay = run(work)
    if as_json:
        print_json(article_send_response(begun, is_replay=is_replay).to_dict())
        return
    if is_replay:
        out.print(f"This batch was already sent: run {begun.run_id}, {begun.recipients} recipients.", markup=False)
        return
    out.print(f"Started run {begun.run_id}. A worker sends it.", markup=False)


@app.command()
def runs(
    run_id: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Show this run in detail.")] = None,
    *,
    tenant: Tenant = tenants.DEFAULT,
    limit: Limit = 20,
    as_json: Json = False,
) -> None:
    """List runs, or show one run with its message counts."""
    if run_id is not None:
        _one_run(run_id, tenant, as_json=as_json)
        return

    async def work(at: Installation) -> list[ArticleRun]:
        owner = await find_tenant(at, tenant)
        return await _service(ArticleRuns, at).list_runs(owner.id, limit=limit)

    found = run(work)
    if as_json:
        print_json([article_run_response(each).to_dict() for each in found])
        return
    rows = (
        (
            each.run_id,
            two_lines(each.campaign_tag, each.article_key),
            each.recipients,
            two_lines(clock_time(each.started_at), _state(each)),
        )
        for each in found
    )
    print_rows(("Run!", "Tag, article", "Recipients#", "Started"), rows, nothing="No runs.")


def _one_run(run_id: str, tenant: str, *, as_json: bool) -> None:
    async def work(at: Installation) -> tuple[ArticleRun, dict[str, int], list[RunVariant]]:
        owner = await find_tenant(at, tenant)
        made = _service(ArticleRuns, at)
        found = await made.find(owner.id, run_id)
        return found, await made.count_messages(found), await made.list_variants(found)

    found, counts, shares = run(work)
    if as_json:
        print_json(article_run_detail_response(found, counts, shares).to_dict())
        return
    out.print(f"{found.article_key} as {found.campaign_tag}, by {found.actor}: {_state(found)}.", markup=False)
    print_rows(("Status!", "Messages#"), counts.items(), nothing="No messages yet.")
    out.print(f"Recipients: {found.recipients}. Variants: {len(shares)}. Without a slice: {found.skipped}.")
    if found.read is not None:
        _print_read(found.read)


def _print_read(read: ProfileRead) -> None:
    counts = f"{read.rows_read} rows read, {read.matched} addresses matched, {read.refused} rows refused, "
    left_out = f"{read.excluded} unsubscribed or bounced there, {read.suppressed} suppressed here"
    out.print(f"Recipients come from {read.source}: {counts}{left_out}.", markup=False)
    for each in read.refusals:
        out.print(f"Refused: {each.email or 'no address'}: {each.reason}", markup=False)


def _load_preview(key: str, email: str | None, ocd_ids: Sequence[str] | None, tenant: str) -> ArticlePreview:
    async def work(at: Installation) -> ArticlePreview:
        owner = await find_tenant(at, tenant)
        async with _previews(at) as previews:
            person = await previews.find_recipient(owner.id, email, ocd_ids or ())
            return await previews.preview(owner.id, key, person)

    return run(work)


def _service(part: type[Part], at: Installation) -> Part:
    return part(at.database, at.clock, make_templates(at.settings, at.database, at.clock))


@asynccontextmanager
async def _previews(at: Installation) -> AsyncIterator[ArticlePreviews]:
    async with open_profiles(at.settings, at.database) as profiles:
        templates = make_templates(at.settings, at.database, at.clock)
        yield ArticlePreviews(at.database, at.clock, templates, profiles)


@asynccontextmanager
async def _runs(at: Installation) -> AsyncIterator[ArticleRuns]:
    from mailwright.app.sender_directory import make_directory  # noqa: PLC0415 - as below
    from mailwright.app.sender_rules import make_sender_rules  # noqa: PLC0415 - loads the DNS checks

    templates = make_templates(at.settings, at.database, at.clock)
    rules = make_sender_rules(at.settings, at.database, make_directory(at.settings, at.database, at.clock))
    async with open_profiles(at.settings, at.database) as profiles:
        yield ArticleRuns(at.database, at.clock, templates, rules, profiles)


def _conditions(given: Sequence[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given or ():
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            raise InvalidInput("must look like `state=OH`", field="--filter")
        found[name] = value
    return found


def _label(each: Slice) -> str:
    title: Any = each.title or each.dek or each.body_md.partition("\n")[0][:60]
    return f"{each.section_order}.{each.sort_index} {title}"


def _state(each: ArticleRun) -> str:
    if each.failure is not None:
        return f"failed: {each.failure}"
    if each.hold_reason is not None:
        return f"on hold because the sender rules are not met: {each.hold_reason}"
    if each.read is not None and each.read.ended_at is None and each.enqueue_ended_at is None:
        return f"waiting for recipients: {each.read.problem}" if each.read.problem else "reading recipients"
    return "all messages queued" if each.enqueue_ended_at is not None else "in progress"
