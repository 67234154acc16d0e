"""`mailwright template`: what mails are made from. Every change is a new version; old ones stay."""

from pathlib import Path
from typing import Annotated, Any

import typer
from sqlalchemy import func, select

from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, Tenant, group
from mailwright.cli.output import clock_time, out, print_json, print_rows
from mailwright.content.store import StoredTemplate, TemplateStore
from mailwright.domain.clock import isoformat
from mailwright.outbox import tenants
from mailwright.storage.tables import templates

app = group("Templates that mails are made from.")

TemplateId = Annotated[str, typer.Argument(metavar="ID", help="The templateId, as in receipt.", show_default=False)]


@app.command()
def put(
    template_id: TemplateId,
    subject: Annotated[str, typer.Option(help="May use variables: Hello {{ name }}.", show_default=False)],
    html: Annotated[
        typer.FileText, typer.Option(help="The file of the HTML; - reads stdin.", encoding="utf-8", show_default=False)
    ],
    text: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="The file of the text.", show_default="made from the HTML"),
    ] = None,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Store a new version of a template. What is wrong with it is said now, not when the first mail is built."""

    async def work(at: Installation) -> StoredTemplate:
        owner = await tenants.find(at.database, tenant)
        plain = text.read_text(encoding="utf-8") if text else None
        store = TemplateStore(at.database, at.clock)
        return await store.put(owner.id, template_id, subject=subject, html=html.read(), text=plain)

    stored = run(work, creates=True)
    out.print(f"{stored.template_id}, version {stored.version}, is what new mails use from now on.", markup=False)


@app.command()
def show(template_id: TemplateId, tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """Show the newest version of a template."""

    async def work(at: Installation) -> StoredTemplate:
        owner = await tenants.find(at.database, tenant)
        return await TemplateStore(at.database, at.clock).latest(owner.id, template_id)

    found = run(work)
    if as_json:
        print_json(_described(found))
        return
    for line in (
        f"{found.template_id}, version {found.version}, stored {clock_time(found.created_at)} UTC",
        f"Subject: {found.subject}",
        f"\n{found.html}",
    ):
        out.print(line, markup=False)
    if found.text is not None:
        out.print(f"\n{found.text}", markup=False)


@app.command("list")
def list_command(tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """List a tenant's templates, each in its newest version."""

    async def work(at: Installation) -> list[StoredTemplate]:
        owner = await tenants.find(at.database, tenant)
        return await _newest(at, owner.id)

    found = run(work)
    if as_json:
        print_json([_described(template, with_content=False) for template in found])
        return
    rows = ((one.template_id, one.version, one.subject, clock_time(one.created_at)) for one in found)
    nothing = f"The tenant {tenant} has no template; `mailwright template put ID --subject … --html FILE` stores one."
    print_rows(("Template!", "Version#", "Subject", "Stored (UTC)!"), rows, nothing=nothing)


async def _newest(at: Installation, tenant_id: int) -> list[StoredTemplate]:
    t = templates.c
    versions = select(func.max(t.id)).where(t.tenant_id == tenant_id).group_by(t.template_id)
    async with at.database.read() as tx:
        rows = await tx.execute(select(templates).where(t.id.in_(versions)).order_by(t.template_id))
    return [StoredTemplate(key=row.id, **{name: row._mapping[name] for name in _COLUMNS}) for row in rows]


_COLUMNS = ("tenant_id", "template_id", "version", "subject", "html", "text", "created_at")


def _described(template: StoredTemplate, *, with_content: bool = True) -> dict[str, Any]:
    content = {"html": template.html, "text": template.text} if with_content else {}
    return {
        "templateId": template.template_id,
        "version": template.version,
        "subject": template.subject,
        **content,
        "createdAt": isoformat(template.created_at),
    }
