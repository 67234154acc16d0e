"""The brand kit: name, logo, colours, fonts, footer and links of emails and public pages."""

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from mailwright.access.roles import Role
from mailwright.actions.context import Context
from mailwright.actions.declaration import MANAGE, Aside, Line, Noun, Option, Table
from mailwright.content.brand import Brand, contrast_warnings
from mailwright.content.brand_store import Brands
from mailwright.schemas.base import ResponseModel
from mailwright.sources.api.fields import RequestModel
from mailwright.sources.api.validation import parse

noun = Noun(
    "brand", "The brand kit: name, logo, colours, fonts, footer and links of emails and public pages.", "/v1/brand"
)

_Text = Annotated[str, Field(max_length=20_000), Option(metavar="TEXT|none")]
_Url = Annotated[str, Field(max_length=20_000), Option(metavar="URL|none")]
_Color = Annotated[str, Field(max_length=20_000), Option(metavar="#RRGGBB|none")]
_Font = Annotated[str, Field(max_length=20_000), Option(metavar="FONT|none")]


def _social_link(value: Any) -> Any:
    """Return the link that a command line names as NETWORK=URL."""
    network, separator, href = value.partition("=") if isinstance(value, str) else ("", "", "")
    return {"network": network, "href": href} if separator else value


class BrandUpdateRequest(RequestModel):
    """Fields that are left out keep their value. Null restores the default."""

    name: Annotated[_Text | None, Field(description="Name of the sender.")] = None
    logo_url: Annotated[
        _Url | None, Field(description="Address of the logo, for example from `mailwright image upload`.")
    ] = None
    logo_width: Annotated[int | None, Field(description="Width of the logo in pixels.")] = None
    primary: Annotated[_Color | None, Field(description="Colour of buttons and links.")] = None
    text: Annotated[_Color | None, Field(description="Colour of text.")] = None
    background: Annotated[_Color | None, Field(description="Colour around the content.")] = None
    accent: Annotated[_Color | None, Field(description="Second colour, for highlights.")] = None
    font: Annotated[_Font | None, Field(description="Font of text: system, arial, georgia …")] = None
    heading_font: Annotated[_Font | None, Field(description="Font of headings.")] = None
    footer_html: Annotated[
        Annotated[str, Field(max_length=20_000), Option(metavar="HTML|none")] | None,
        Field(description="Footer of emails: text, simple formatting and links."),
    ] = None
    postal_address: Annotated[_Text | None, Field(description="Postal address of the sender.")] = None
    website: Annotated[_Url | None, Field(description="Address that the logo links to.")] = None
    social: Annotated[
        tuple[Annotated[dict[str, str], BeforeValidator(_social_link)], ...] | None,
        Option(metavar="NETWORK=URL|none"),
        Field(max_length=100, description="Social link; repeat the option for several."),
    ] = None


class BrandWarningResponse(ResponseModel):
    """Colours that are hard to read together. The brand kit is saved nevertheless."""

    field: str
    message: str


class BrandResponse(ResponseModel):
    brand: Brand
    warnings: list[BrandWarningResponse]

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The fields as people read them."""
        return [(name.replace("_", "-"), _shown(value)) for name, value in self.brand.model_dump(mode="json").items()]


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(f"{each['network']}={each['href']}" for each in value) or "–"
    return str(value) if value not in (None, "") else "–"


def _warnings(found: BrandResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield from (Aside(f"Warning: {each.message}", None) for each in found.warnings)


def _lines(found: BrandResponse, given: Mapping[str, Any]) -> Iterator[Line]:
    yield Table("rows", {"Field!": itemgetter(0), "Value": itemgetter(1)}, nothing="")
    yield from _warnings(found, given)


def _saved(found: BrandResponse, given: Mapping[str, Any]) -> Iterator[Line]:
    yield f"Saved the brand kit of {given['tenant']}."
    yield from _warnings(found, given)


@noun.get(command="show", help="Show the brand kit.", shown=_lines)
async def show_brand(at: Context) -> BrandResponse:
    """Return the brand kit, with warnings about colours that are hard to read."""
    return _response(await _brands(at).load(at.tenant_id))


@noun.put(scope=MANAGE, role=Role.ADMIN, audit="brand.change")
async def save_brand(at: Context, wanted: Brand) -> BrandResponse:
    """Replace the brand kit. A field that is missing gets its default."""
    await _brands(at).save(at.tenant_id, wanted, actor=at.actor)
    return _response(wanted)


@noun.patch(
    scope=MANAGE,
    role=Role.ADMIN,
    audit="brand.change",
    command="edit",
    help="Change the brand kit. Options that are not given stay as they are; `none` restores a default.",
    shown=_saved,
)
async def edit_brand(at: Context, wanted: BrandUpdateRequest) -> BrandResponse:
    """Change the brand kit. Fields that are left out keep their value; null restores the default."""
    fields = (await _brands(at).load(at.tenant_id)).model_dump(mode="json") | wanted.model_dump(exclude_unset=True)
    given = {name: value for name, value in fields.items() if value is not None}
    return await save_brand(at, parse(Brand, given))


def _brands(at: Context) -> Brands:
    return Brands(at.database, at.clock) if at.engine is None else at.engine.brands


def _response(brand: Brand) -> BrandResponse:
    warnings = [BrandWarningResponse(field=each.field, message=each.message) for each in contrast_warnings(brand)]
    return BrandResponse(brand=brand, warnings=warnings)
