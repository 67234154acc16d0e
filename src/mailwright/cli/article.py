"""`mailwright article`: commands that read or write files, or that combine actions. The others are derived."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer

from mailwright.actions import articles
from mailwright.actions.articles import ArticleSendRequest, ArticleSendResponse, SliceImportResponse, noun
from mailwright.app.profiles import open_profiles
from mailwright.app.templates import make_templates
from mailwright.cli.derived import make_group, perform, print_result
from mailwright.cli.opening import Installation, find_tenant, run, warn_if_held
from mailwright.cli.options import Json, Limit, Tenant
from mailwright.cli.output import out, print_json
from mailwright.domain.errors import InvalidInput
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.base import combine
from mailwright.sources.api.validation import parse_strict
from mailwright.sources.articles import files
from mailwright.sources.articles.runs import ArticleRun, ArticleRuns
from mailwright.sources.articles.slice_input import FIELDS, parse_slice
from mailwright.sources.articles.slices import SliceChanges, SliceStore

app = make_group(noun)

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
        templates = make_templates(at.settings, at.database, at.clock)
        return await SliceStore(at.database, at.clock, templates).import_slices(CONSOLE, owner.id, given)

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
    listed = perform(noun.find(articles.show_article), {}, path={"article_key": key}, tenant=tenant)
    found = [parse_slice({name: value for name, value in each if name in FIELDS}) for each in listed.slices]
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
    recipient = {"email": as_, "ocd_ids": list(ocd_ids or ())}
    seen = perform(noun.find(articles.preview), recipient, path={"article_key": key}, tenant=tenant)
    if as_json:
        print_json(seen.to_dict())
        return
    if seen.subject is None:
        out.print("This recipient gets nothing. `mailwright article explain` shows the reason for each slice.")
        raise typer.Exit(1)
    if html:
        out.file.write(f"{seen.html}\n")
        return
    out.print(f"Subject: {seen.subject}\n\n{seen.text}", markup=False)


@app.command()
def coverage(key: Key, *, filters: Filters = None, tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """Show how many recipients would get each variant now."""
    action, audience = noun.find(articles.coverage), {"audience_filter": _conditions(filters)}
    found = perform(action, audience, path={"article_key": key}, tenant=tenant)
    print_result(action, found, {}, as_json=as_json)


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
        print_json(combine(ArticleSendResponse, begun, is_replay=is_replay).to_dict())
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
    if run_id is None:
        action = noun.find(articles.list_runs)
        found = perform(action, {"limit": limit}, path={}, tenant=tenant)
    else:
        action = noun.find(articles.show_run)
        found = perform(action, {}, path={"run_id": run_id}, tenant=tenant)
    print_result(action, found, {}, as_json=as_json)


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
