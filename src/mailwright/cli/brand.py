"""`mailwright brand`: the brand kit of a tenant."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Tenant, group
from mailwright.cli.output import aside, out, print_json, table
from mailwright.content.brand import Brand, contrast_warnings
from mailwright.content.brand_store import Brands
from mailwright.domain.errors import InvalidInput
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.brand import brand_response
from mailwright.sources.api.validation import parse

app = group("The brand kit: name, logo, colours, fonts, footer and links of emails and public pages.")

RESET = "none"


def _option(help_text: str, metavar: str = "TEXT") -> Any:
    return typer.Option(metavar=f"{metavar}|{RESET}", help=help_text, show_default=False)


@app.command()
def show(tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """Show the brand kit."""

    async def work(at: Installation) -> Brand:
        return await Brands(at.database, at.clock).load((await find_tenant(at, tenant)).id)

    brand = run(work)
    if as_json:
        print_json(brand_response(brand).to_dict())
        return
    made = table("Field!", "Value")
    for name, value in brand.model_dump(mode="json").items():
        made.add_row(name.replace("_", "-"), _shown(value))
    out.print(made)
    _print_warnings(brand)


@app.command()
def edit(
    *,
    name: Annotated[str | None, _option("Name of the sender.")] = None,
    logo_url: Annotated[
        str | None, _option("Address of the logo, for example from `mailwright image upload`.", "URL")
    ] = None,
    logo_width: Annotated[int | None, typer.Option(help="Width of the logo in pixels.", show_default=False)] = None,
    primary: Annotated[str | None, _option("Colour of buttons and links.", "#RRGGBB")] = None,
    text: Annotated[str | None, _option("Colour of text.", "#RRGGBB")] = None,
    background: Annotated[str | None, _option("Colour around the content.", "#RRGGBB")] = None,
    accent: Annotated[str | None, _option("Second colour, for highlights.", "#RRGGBB")] = None,
    font: Annotated[str | None, _option("Font of text: system, arial, georgia …", "FONT")] = None,
    heading_font: Annotated[str | None, _option("Font of headings.", "FONT")] = None,
    footer_html: Annotated[str | None, _option("Footer of emails: text, simple formatting and links.", "HTML")] = None,
    postal_address: Annotated[str | None, _option("Postal address of the sender.")] = None,
    website: Annotated[str | None, _option("Address that the logo links to.", "URL")] = None,
    social: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NETWORK=URL|none", help="Social link; repeat the option for several.", show_default=False
        ),
    ] = None,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Change the brand kit. Options that are not given stay as they are; `none` restores a default."""
    texts = {
        "name": name,
        "logo_url": logo_url,
        "primary": primary,
        "text": text,
        "background": background,
        "accent": accent,
        "font": font,
        "heading_font": heading_font,
        "footer_html": footer_html,
        "postal_address": postal_address,
        "website": website,
    }
    given: dict[str, Any] = {field: value for field, value in texts.items() if value is not None}
    if logo_width is not None:
        given["logo_width"] = logo_width
    if social is not None:
        given["social"] = _social(social)

    async def work(at: Installation) -> Brand:
        owner = await find_tenant(at, tenant)
        brands = Brands(at.database, at.clock)
        fields = (await brands.load(owner.id)).model_dump(mode="json") | given
        brand = parse(Brand, {field: value for field, value in fields.items() if value != RESET})
        await brands.save(owner.id, brand, actor=CONSOLE)
        return brand

    brand = run(work, creates=True)
    out.print(f"Saved the brand kit of {tenant}.", markup=False)
    _print_warnings(brand)


def _social(given: Sequence[str]) -> list[dict[str, str]] | str:
    if list(given) == [RESET]:
        return RESET
    pairs = [each.partition("=") for each in given]
    if any(not separator for _, separator, _ in pairs):
        raise InvalidInput("--social must be a network and an address, for example github=https://github.com/acme.")
    return [{"network": network, "href": href} for network, _, href in pairs]


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(f"{each['network']}={each['href']}" for each in value) or "–"
    return str(value) if value not in (None, "") else "–"


def _print_warnings(brand: Brand) -> None:
    for warning in contrast_warnings(brand):
        aside.print(f"Warning: {warning.message}", markup=False)
