"""`mailwright template`: what mails are made from. Every change is a new version; old ones stay."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.text import Text

from mailwright.app.link_checks import dead_links
from mailwright.app.templates import make_templates
from mailwright.checks.findings import Verdict
from mailwright.checks.sender_dns import check_sender
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, Tenant, group
from mailwright.cli.output import clock_time, out, print_json, print_rows
from mailwright.content.formats import TemplateFormat
from mailwright.content.presend_checks import IssueLevel, PresendContext, PresendIssue, links_of, run_presend_checks
from mailwright.content.template_store import StoredTemplate, TemplateDraft, TemplateStore, diff_versions
from mailwright.content.variables import Variable, standard_values
from mailwright.domain.locales import DEFAULT_LOCALE
from mailwright.ops.settings import Settings
from mailwright.outbox import tenants
from mailwright.schemas import templates as answers

app = group("Templates that mails are made from.")

TemplateId = Annotated[str, typer.Argument(metavar="ID", help="The templateId, as in receipt.", show_default=False)]
Locale = Annotated[str | None, typer.Option(help="As pt or pt-BR; without it, for everyone.", show_default=False)]
VersionNumber = Annotated[
    int | None, typer.Option("--version", min=1, help="A version by its number.", show_default="the newest")
]
Source = Annotated[
    typer.FileText | None, typer.Option(help="Its file; - reads stdin.", encoding="utf-8", show_default=False)
]


@app.command()
def put(
    template_id: TemplateId,
    subject: Annotated[str, typer.Option(help="May use variables: Hello {{ name }}.", show_default=False)],
    *,
    html: Source = None,
    mjml: Source = None,
    markdown: Source = None,
    text: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="The file of the text.", show_default="made from the HTML"),
    ] = None,
    locale: Locale = None,
    variable: Annotated[
        list[str] | None,
        typer.Option(
            "--var",
            metavar="NAME[=SAMPLE]",
            help="Declare a variable; NAME? one that may be missing.",
            show_default=False,
        ),
    ] = None,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Store a new version of a template. What is wrong with it is said now, not when the first mail is built."""
    given = [
        (format_, file)
        for format_, file in zip(TemplateFormat, (html, mjml, markdown), strict=True)
        if file is not None
    ]
    if len(given) != 1:
        raise typer.BadParameter("give one of --html, --mjml and --markdown")
    [(format_, file)] = given
    draft = TemplateDraft(
        subject=subject,
        body=file.read(),
        format=format_,
        text=text.read_text(encoding="utf-8") if text else None,
        locale=locale or DEFAULT_LOCALE,
        variables=tuple(_declared(each) for each in variable or ()),
    )

    async def work(at: Installation) -> StoredTemplate:
        owner = await tenants.find(at.database, tenant)
        return await _store(at).write(owner.id, template_id, draft)

    stored = run(work, creates=True)
    whom = f" for readers of {stored.locale}" if stored.locale else ""
    out.print(f"{stored.template_id}, version {stored.version}, is what new mails use{whom} from now on.", markup=False)


@app.command()
def show(
    template_id: TemplateId,
    locale: Locale = None,
    version: VersionNumber = None,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Show a version of a template as its author wrote it: the newest, unless another is asked for."""
    found, _ = run(lambda at: _which(at, tenant, template_id, locale, version))
    if as_json:
        print_json(answers.template(found))
        return
    for line in (
        f"{_named(found)}, stored {clock_time(found.created_at)} UTC",
        f"Subject: {found.subject}",
        f"Variables: {', '.join(_shown(each) for each in found.expected_variables()) or 'none'}",
        f"\n{found.body}",
    ):
        out.print(line, markup=False)
    if found.text is not None:
        out.print(f"\n{found.text}", markup=False)


@app.command("list")
def list_command(tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """List a tenant's templates, each in its newest versions."""

    async def work(at: Installation) -> list[StoredTemplate]:
        owner = await tenants.find(at.database, tenant)
        newest = await _store(at).some(owner.id, limit=10_000)
        return [stored for by_locale in newest for stored in by_locale.values()]

    found = run(work)
    nothing = f"The tenant {tenant} has no template; `mailwright template put ID --subject … --html FILE` stores one."
    _print_versions(found, as_json=as_json, nothing=nothing)


@app.command()
def versions(template_id: TemplateId, tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """List all versions of a template, the latest first."""

    async def work(at: Installation) -> list[StoredTemplate]:
        owner = await tenants.find(at.database, tenant)
        return await _store(at).versions(owner.id, template_id)

    _print_versions(run(work), as_json=as_json, nothing="")


@app.command()
def diff(
    template_id: TemplateId,
    before: Annotated[int | None, typer.Argument(min=1, help="A version.", show_default="the one before")] = None,
    after: Annotated[int | None, typer.Argument(min=1, help="A later one.", show_default="the newest")] = None,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Show what changed from one version to another."""

    async def work(at: Installation) -> str:
        owner = await tenants.find(at.database, tenant)
        return diff_versions(*await _store(at).versions_to_compare(owner.id, template_id, before, after))

    out.print(run(work) or "Nothing differs.\n", end="", markup=False, soft_wrap=True)


@app.command()
def preview(
    template_id: TemplateId,
    *,
    values: Annotated[
        list[str] | None,
        typer.Option("--var", metavar="NAME=VALUE", help="A value; JSON or plain text.", show_default=False),
    ] = None,
    locale: Locale = None,
    version: VersionNumber = None,
    html: Annotated[
        Path | None, typer.Option(help="Write the HTML to this file, for a browser.", show_default=False)
    ] = None,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Show what a reader would get: the subject and the text, and the HTML in a file."""
    given = {name: _value(value) for name, _, value in (each.partition("=") for each in values or ())}
    stored, settings = run(lambda at: _which(at, tenant, template_id, locale, version))
    rendered = stored.render(given, standard_values(settings.postal_address))
    if html is not None:
        html.write_text(rendered.html or "", encoding="utf-8")
    if as_json:
        print_json(answers.preview(stored, rendered))
    else:
        out.print(f"Subject: {rendered.subject}\n\n{rendered.text}", markup=False, soft_wrap=True)


@app.command("preflight")
def preflight_command(
    template_id: TemplateId,
    *,
    locale: Locale = None,
    version: VersionNumber = None,
    bulk: Annotated[bool, typer.Option("--bulk/--transactional", help="Bulk mail needs a link to leave.")] = True,
    check_links: Annotated[bool, typer.Option("--check-links", help="Ask every link whether it is there.")] = False,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Tell what readers and mailbox providers would mind. Exit code 1 if something must be put right first."""
    stored, settings = run(lambda at: _which(at, tenant, template_id, locale, version))
    found = asyncio.run(_findings(stored, settings, is_bulk=bulk, check_links=check_links))
    if as_json:
        print_json(answers.preflight(found))
    for each in () if as_json else found:
        shape, colour = _SHAPES[each.level]
        out.print(Text(f"{shape} {each.level}  {each.where}: {each.sentence} [{each.code}]", style=colour))
    if not found and not as_json:
        out.print("Nothing to mind.")
    if any(each.level is IssueLevel.ERROR for each in found):
        raise typer.Exit(NEGATIVE)


_SHAPES = {IssueLevel.ERROR: ("✗", "red"), IssueLevel.WARNING: ("!", "yellow")}


async def _findings(
    stored: StoredTemplate, settings: Settings, *, is_bulk: bool, check_links: bool
) -> list[PresendIssue]:
    told = [
        f"{each.name.upper()}: {each.summary}"
        async for each in check_sender(settings)
        if each.verdict is Verdict.PROBLEM
    ]
    facts = PresendContext(is_bulk=is_bulk, postal_address=settings.postal_address, sender=tuple(told))
    found = run_presend_checks(subject=stored.subject, html=stored.html, text=stored.text, facts=facts)
    return [*found, *(await dead_links(links_of(stored.html)) if check_links else ())]


async def _which(
    at: Installation, tenant: str, template_id: str, locale: str | None, version: int | None
) -> tuple[StoredTemplate, Settings]:
    owner = await tenants.find(at.database, tenant)
    store = _store(at)
    if version is not None:
        return await store.version(owner.id, template_id, version), at.settings
    return await store.latest(owner.id, template_id, locale), at.settings


def _store(at: Installation) -> TemplateStore:
    return make_templates(at.settings, at.database, at.clock)


def _print_versions(found: list[StoredTemplate], *, as_json: bool, nothing: str) -> None:
    if as_json:
        print_json([answers.version_line(stored) for stored in found])
        return
    rows = (
        (one.template_id, one.version, one.locale or "everyone", one.format, one.subject, clock_time(one.created_at))
        for one in found
    )
    print_rows(("Template!", "Version#", "For!", "Format!", "Subject", "Stored (UTC)!"), rows, nothing=nothing)


def _named(stored: StoredTemplate) -> str:
    return f"{stored.template_id}, version {stored.version}" + (f", for {stored.locale}" if stored.locale else "")


def _shown(variable: Variable) -> str:
    return variable.name if variable.is_required else f"{variable.name} (optional)"


def _declared(text: str) -> Variable:
    """`name`, `name=sample`, and with a question mark after the name where it may be missing."""
    name, separator, sample = text.partition("=")
    return Variable(name.removesuffix("?"), not name.endswith("?"), _value(sample) if separator else None)


def _value(text: str) -> Any:
    """`3`, `true` and `["a"]` are what they look like; anything else is a text."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
