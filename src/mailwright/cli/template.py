"""`mailwright template`: email templates. Every change creates a new version."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TextIO

import orjson
import typer
from rich.text import Text

from mailwright.app.link_checks import dead_links
from mailwright.app.sender_dns import check_sender
from mailwright.app.template_checks import check_template
from mailwright.app.template_removal import make_template_removal
from mailwright.app.templates import make_templates
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import BlocksFile, HtmlFile, Json, MarkdownFile, MjmlFile, State, Tenant, group
from mailwright.cli.output import clock_time, out, print_json, print_rows, zone_time
from mailwright.content.blocks.starters import list_starters, load_starter
from mailwright.content.formats import TemplateFormat
from mailwright.content.presend_checks import IssueLevel, PresendIssue, links_of
from mailwright.content.template_store import StoredTemplate, TemplateDraft, TemplateStore, diff_versions
from mailwright.content.variables import Variable, standard_values
from mailwright.domain.findings import Verdict
from mailwright.domain.foreign_json import load_json
from mailwright.domain.locales import DEFAULT_LOCALE
from mailwright.domain.record_state import RecordState
from mailwright.ops.settings import Settings
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.templates import (
    TemplateVersionResponse,
    starter_response,
    template_check_response,
    template_preview_response,
    template_response,
)

app = group("Email templates.")

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
    if as_json:
        print_json([starter_response(each).to_dict() for each in list_starters()])
        return
    rows = ((each.name, each.kind, each.description) for each in list_starters())
    print_rows(("Starter!", "For", "Description"), rows, nothing="")


@app.command()
def show(
    template_id: TemplateId,
    locale: Locale = None,
    version: VersionNumber = None,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Show the source of a template version, by default the newest."""
    found, _ = run(lambda at: _find_version(at, tenant, template_id, locale, version))
    if as_json:
        print_json(template_response(found).to_dict())
        return
    for line in (
        f"{_version_label(found)}, created {zone_time(found.created_at)}",
        f"Subject: {found.subject}",
        f"Variables: {', '.join(_variable_label(each) for each in found.expected_variables()) or 'none'}",
        f"\n{found.body}",
    ):
        out.print(line, markup=False)
    if found.text is not None:
        out.print(f"\n{found.text}", markup=False)


@app.command("list")
def list_command(state: State = RecordState.ACTIVE, tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """List a tenant's templates with their newest versions."""

    async def work(at: Installation) -> list[StoredTemplate]:
        owner = await find_tenant(at, tenant)
        newest = await _store(at).list_page(owner.id, limit=10_000, state=state)
        return [stored for by_locale in newest for stored in by_locale.values()]

    found = run(work)
    nothing = f"The tenant {tenant} has no templates. Create one with `mailwright template create ID`."
    _print_versions(found, as_json=as_json, nothing=nothing)


@app.command()
def versions(template_id: TemplateId, tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """List all versions of a template, newest first."""

    async def work(at: Installation) -> list[StoredTemplate]:
        owner = await find_tenant(at, tenant)
        return await _store(at).versions(owner.id, template_id)

    _print_versions(run(work), as_json=as_json, nothing="")


@app.command()
def archive(template_id: TemplateId, tenant: Tenant = tenants.DEFAULT) -> None:
    """Hide a template from lists. Emails that name its id still work; a new version brings it back."""
    run(lambda at: _remove(at, tenant, "archive", template_id))
    out.print(f"Archived the template {template_id}.", markup=False)


@app.command()
def delete(template_id: TemplateId, tenant: Tenant = tenants.DEFAULT) -> None:
    """Delete a template. Emails that were already accepted still use it."""
    run(lambda at: _remove(at, tenant, "delete", template_id))
    out.print(
        f"Deleted the template {template_id}. `mailwright template restore {template_id}` brings it back.",
        markup=False,
        soft_wrap=True,
    )


@app.command()
def restore(template_id: TemplateId, tenant: Tenant = tenants.DEFAULT) -> None:
    """Bring back an archived or deleted template."""
    run(lambda at: _remove(at, tenant, "restore", template_id))
    out.print(f"Restored the template {template_id}.", markup=False)


async def _remove(at: Installation, tenant: str, action: str, template_id: str) -> None:
    owner = await find_tenant(at, tenant)
    removal = make_template_removal(at.settings, at.database, at.clock)
    actions = {"archive": removal.archive, "delete": removal.delete, "restore": removal.restore}
    await actions[action](owner.id, template_id, actor=CONSOLE)


@app.command()
def diff(
    template_id: TemplateId,
    before: Annotated[
        int | None, typer.Argument(min=1, help="The older version.", show_default="the previous one")
    ] = None,
    after: Annotated[int | None, typer.Argument(min=1, help="The newer version.", show_default="the newest")] = None,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Show the differences between two versions."""

    async def work(at: Installation) -> str:
        owner = await find_tenant(at, tenant)
        return diff_versions(*await _store(at).versions_to_compare(owner.id, template_id, before, after))

    out.print(run(work) or "No differences.\n", end="", markup=False, soft_wrap=True)


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


def _print_versions(found: list[StoredTemplate], *, as_json: bool, nothing: str) -> None:
    if as_json:
        print_json([TemplateVersionResponse.model_validate(stored).to_dict() for stored in found])
        return
    rows = (
        (one.template_id, one.version, one.locale or "default", one.format, one.subject, clock_time(one.created_at))
        for one in found
    )
    print_rows(("Template!", "Version#", "Locale!", "Format!", "Subject", "Created ({zone})!"), rows, nothing=nothing)


def _version_label(stored: StoredTemplate) -> str:
    return f"{stored.template_id}, version {stored.version}" + (f", for {stored.locale}" if stored.locale else "")


def _variable_label(variable: Variable) -> str:
    return variable.name if variable.is_required else f"{variable.name} (optional)"


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
