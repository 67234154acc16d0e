"""`mailwright template`: commands that read and write files, request links, or list one row for each locale.

The others are derived from the actions.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TextIO

import orjson
import typer
from rich.text import Text

from mailwright.actions.templates import noun, starter_responses
from mailwright.app.link_checks import dead_links
from mailwright.app.sender_dns import check_sender
from mailwright.app.template_checks import check_template
from mailwright.app.templates import make_templates
from mailwright.cli.derived import make_group
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import BlocksFile, HtmlFile, Json, MarkdownFile, MjmlFile, State, Tenant
from mailwright.cli.output import clock_time, out, print_json, print_rows
from mailwright.cli.remote import require_local
from mailwright.content.blocks.starters import load_starter
from mailwright.content.formats import TemplateFormat
from mailwright.content.presend_checks import IssueLevel, PresendIssue, links_of
from mailwright.content.template_store import StoredTemplate, TemplateDraft, TemplateStore
from mailwright.content.variables import Variable, standard_values
from mailwright.domain.findings import Verdict
from mailwright.domain.foreign_json import load_json
from mailwright.domain.locales import DEFAULT_LOCALE
from mailwright.domain.record_state import RecordState
from mailwright.ops.settings import Settings
from mailwright.outbox import tenants
from mailwright.schemas.templates import TemplateVersionResponse, template_check_response, template_preview_response

app = make_group(noun)

TemplateId = Annotated[
    str, typer.Argument(metavar="ID", help="The template id, for example receipt.", show_default=False)
]
Locale = Annotated[str | None, typer.Option(help="The language, for example pt or pt-BR.", show_default=False)]
VersionNumber = Annotated[
    int | None, typer.Option("--version", min=1, help="The version number.", show_default="the newest")
]


@app.command()
def create(
    template_id: TemplateId,
    *,
    subject: Annotated[
        str | None, typer.Option(help="The subject. May use variables: Hello {{ name }}.", show_default=False)
    ] = None,
    html: HtmlFile = None,
    mjml: MjmlFile = None,
    markdown: MarkdownFile = None,
    blocks: BlocksFile = None,
    starter: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Begin with a starter; `mailwright template starters` lists them.", show_default=False
        ),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="The file of the text part.", show_default="derived from the HTML"
        ),
    ] = None,
    locale: Locale = None,
    variable: Annotated[
        list[str] | None,
        typer.Option(
            "--var",
            metavar="NAME[=SAMPLE]",
            help="Declare a variable; NAME? declares an optional one.",
            show_default=False,
        ),
    ] = None,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Create a template, or a new version of it. Errors are reported now, before any email uses it."""
    files = dict(zip(TemplateFormat, (html, mjml, markdown, blocks), strict=True))
    draft = replace(
        _draft({format_: file for format_, file in files.items() if file is not None}, starter, subject),
        text=text.read_text(encoding="utf-8") if text else None,
        locale=locale or DEFAULT_LOCALE,
    )
    if variable:
        draft = replace(draft, variables=tuple(_parse_variable(each) for each in variable))

    async def work(at: Installation) -> StoredTemplate:
        owner = await find_tenant(at, tenant)
        return await _store(at).write(owner.id, template_id, draft)

    stored = run(work, creates=True)
    locale = f" in {stored.locale}" if stored.locale else ""
    out.print(f"New emails{locale} use version {stored.version} of {stored.template_id}.", markup=False)


@app.command()
def starters(as_json: Json = False) -> None:
    """List the starters: complete emails to begin with."""
    require_local("This command")
    found = starter_responses()
    if as_json:
        print_json([each.to_dict() for each in found])
        return
    rows = ((each.name, each.kind, each.description) for each in found)
    print_rows(("Starter!", "For", "Description"), rows, nothing="")


@app.command("list")
def list_command(state: State = RecordState.ACTIVE, tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """List a tenant's templates with their newest versions."""

    async def work(at: Installation) -> list[StoredTemplate]:
        owner = await find_tenant(at, tenant)
        newest = await _store(at).list_page(owner.id, limit=10_000, state=state)
        return [stored for by_locale in newest for stored in by_locale.values()]

    found = run(work)
    if as_json:
        print_json([TemplateVersionResponse.model_validate(stored).to_dict() for stored in found])
        return
    rows = (
        (one.template_id, one.version, one.locale or "default", one.format, one.subject, clock_time(one.created_at))
        for one in found
    )
    nothing = f"The tenant {tenant} has no templates. Create one with `mailwright template create ID`."
    print_rows(("Template!", "Version#", "Locale!", "Format!", "Subject", "Created ({zone})!"), rows, nothing=nothing)


@app.command()
def preview(
    template_id: TemplateId,
    *,
    values: Annotated[
        list[str] | None,
        typer.Option("--var", metavar="NAME=VALUE", help="A variable; JSON or plain text.", show_default=False),
    ] = None,
    locale: Locale = None,
    version: VersionNumber = None,
    html: Annotated[Path | None, typer.Option(help="Write the HTML to this file.", show_default=False)] = None,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Render a template: print subject and text, and write the HTML to a file."""
    given = {name: _value(value) for name, _, value in (each.partition("=") for each in values or ())}
    stored, settings = run(lambda at: _find_version(at, tenant, template_id, locale, version))
    rendered = stored.render(given, standard_values(settings.postal_address))
    if html is not None:
        html.write_text(rendered.html or "", encoding="utf-8")
    if as_json:
        print_json(template_preview_response(stored, rendered).to_dict())
    else:
        out.print(f"Subject: {rendered.subject}\n\n{rendered.text}", markup=False, soft_wrap=True)


@app.command("check")
def check_command(
    template_id: TemplateId,
    *,
    locale: Locale = None,
    version: VersionNumber = None,
    bulk: Annotated[
        bool | None,
        typer.Option(
            "--bulk/--transactional",
            help="Bulk email needs an unsubscribe link. Default: bulk, unless the footer of a design is transactional.",
            show_default=False,
        ),
    ] = None,
    check_links: Annotated[bool, typer.Option("--check-links", help="Request every link.")] = False,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Run the pre-send checks. Exit code 1 if there is an error."""

    async def check(at: Installation) -> list[PresendIssue]:
        stored, _ = await _find_version(at, tenant, template_id, locale, version)
        return await _findings(at, stored, is_bulk=bulk, check_links=check_links)

    found = run(check)
    if as_json:
        print_json(template_check_response(found).to_dict())
    for each in () if as_json else found:
        shape, colour = _SHAPES[each.level]
        text = " ".join(part for part in (each.sentence, each.advice) if part)
        out.print(Text(f"{shape} {each.level}  {each.where}: {text} [{each.code}]", style=colour))
    if not found and not as_json:
        out.print("No errors or warnings.")
    if any(each.level is IssueLevel.ERROR for each in found):
        raise typer.Exit(NEGATIVE)


_SHAPES = {IssueLevel.ERROR: ("✗", "red"), IssueLevel.WARNING: ("!", "yellow")}


async def _findings(
    at: Installation, stored: StoredTemplate, *, is_bulk: bool | None, check_links: bool
) -> list[PresendIssue]:
    sender_problems = [
        f"{each.name.upper()}: {each.summary}"
        async for each in check_sender(at.settings)
        if each.verdict is Verdict.PROBLEM
    ]
    found = await check_template(
        at.database,
        stored,
        postal_address=at.settings.postal_address,
        is_bulk=is_bulk,
        sender=tuple(sender_problems),
    )
    return [*found, *(await dead_links(links_of(stored.html)) if check_links else ())]


async def _find_version(
    at: Installation, tenant: str, template_id: str, locale: str | None, version: int | None
) -> tuple[StoredTemplate, Settings]:
    owner = await find_tenant(at, tenant)
    store = _store(at)
    if version is not None:
        return await store.version(owner.id, template_id, version), at.settings
    return await store.latest(owner.id, template_id, locale), at.settings


def _draft(files: Mapping[TemplateFormat, TextIO], starter: str | None, subject: str | None) -> TemplateDraft:
    if len(files) + (starter is not None) != 1:
        raise typer.BadParameter("give one of --html, --mjml, --markdown, --blocks and --starter")
    if starter is not None:
        found = load_starter(starter)
        body = orjson.dumps(found.document, option=orjson.OPT_INDENT_2).decode()
        return TemplateDraft(
            subject=subject or found.subject, body=body, format=TemplateFormat.BLOCKS, variables=found.variables
        )
    if subject is None:
        raise typer.BadParameter("give a --subject")
    [(format_, file)] = files.items()
    return TemplateDraft(subject=subject, body=file.read(), format=format_)


def _store(at: Installation) -> TemplateStore:
    return make_templates(at.settings, at.database, at.clock)


def _parse_variable(text: str) -> Variable:
    """Parse `name`, `name=sample` or `name?` for an optional variable."""
    name, separator, sample = text.partition("=")
    return Variable(name.removesuffix("?"), not name.endswith("?"), _value(sample) if separator else None)


def _value(text: str) -> Any:
    """Read `3`, `true` and `["a"]` as JSON, anything else as text."""
    try:
        return load_json(text)
    except orjson.JSONDecodeError:
        return text
