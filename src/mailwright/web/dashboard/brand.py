"""The settings page of the brand kit, with a preview of an email in its design."""

from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

import orjson
from fastapi import APIRouter, Request
from pydantic.alias_generators import to_camel
from starlette.datastructures import FormData, QueryParams, UploadFile
from starlette.responses import Response

from mailwright.app.stored_settings import load_effective
from mailwright.app.wiring import Engine
from mailwright.content.blocks.compile import compile_document
from mailwright.content.blocks.document import parse_document
from mailwright.content.brand import Brand, Font, Network, contrast_warnings
from mailwright.content.image_files import ImagesUnavailable
from mailwright.content.image_rules import MAX_UPLOAD_BYTES
from mailwright.content.images import FILE_NAME
from mailwright.content.template import Template
from mailwright.content.variables import standard_values
from mailwright.domain.errors import InvalidInput, MailwrightError
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.sources.api.validation import parse
from mailwright.web.dashboard.forms import Errors, Fields, field_errors
from mailwright.web.dashboard.previews import notice, preview_html
from mailwright.web.dashboard.settings import TABS
from mailwright.web.dashboard.shell import PageRoute, email_frame, fragment, page, redirect
from mailwright.web.dashboard.stored_forms import sender_values
from mailwright.web.errors import BodyTooLarge
from mailwright.web.session import AdminDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/settings/brand", route_class=PageRoute, include_in_schema=False)

COLORS: Final = (
    ("primary", lazy_gettext("Primary"), lazy_gettext("Buttons and links")),
    ("text", lazy_gettext("Text"), lazy_gettext("Headings and paragraphs")),
    ("background", lazy_gettext("Background"), lazy_gettext("Around the content")),
    ("accent", lazy_gettext("Accent"), lazy_gettext("Highlights and quotes")),
)
FONTS: Final = (
    (Font.SYSTEM, lazy_gettext("System (each device)")),
    (Font.ARIAL, "Arial"),
    (Font.HELVETICA, "Helvetica"),
    (Font.VERDANA, "Verdana"),
    (Font.TAHOMA, "Tahoma"),
    (Font.TREBUCHET, "Trebuchet"),
    (Font.GEORGIA, lazy_gettext("Georgia (serif)")),
    (Font.TIMES, lazy_gettext("Times (serif)")),
    (Font.PALATINO, lazy_gettext("Palatino (serif)")),
    (Font.COURIER, lazy_gettext("Courier (typewriter)")),
)
NETWORKS: Final = {
    Network.FACEBOOK: "Facebook",
    Network.INSTAGRAM: "Instagram",
    Network.X: "X",
    Network.LINKEDIN: "LinkedIn",
    Network.YOUTUBE: "YouTube",
    Network.TIKTOK: "TikTok",
    Network.TELEGRAM: "Telegram",
    Network.WHATSAPP: "WhatsApp",
    Network.GITHUB: "GitHub",
    Network.MASTODON: "Mastodon",
    Network.BLUESKY: "Bluesky",
    Network.WEB: lazy_gettext("Website"),
}
# The fields of the form that are fields of the brand kit.
_TEXTS: Final = tuple(name for name in Brand.model_fields if name != "social")
_SAMPLE: Final = (
    {"id": "header", "type": "header"},
    {"id": "title", "type": "heading", "level": 1, "html": "The spring collection is here"},
    {
        "id": "text",
        "type": "text",
        "html": "<p>Hello Ada, this is how your emails will look. A <a href='https://example.com'>link</a> has the "
        "primary colour, and so has the button.</p>",
    },
    {"id": "button", "type": "button", "label": "See the collection", "href": "https://example.com"},
    {"id": "quote", "type": "quote", "html": "Simple, clear and on brand.", "cite": "A happy reader"},
)


@router.get("")
async def show(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    fields = _fields_of(await engine.brands.load(visitor.tenant_id))
    used = (await load_effective(engine.settings, engine.database)).settings
    suggested = "" if fields["name"] else sender_values(used)["sender_name"]
    return await _page(request, visitor, fields, suggested_name=suggested)


@router.post("")
async def save(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Save the brand kit. A logo in the form is uploaded first."""
    form = await request.form()
    fields = _read(form)
    try:
        if (logo := await _upload_logo(form, engine, visitor)) is not None:
            fields["logo_url"] = logo
        brand = _brand(fields)
    except (InvalidInput, BodyTooLarge, ImagesUnavailable) as error:
        return await _page(request, visitor, fields, error)
    await engine.brands.save(visitor.tenant_id, brand, actor=visitor.actor)
    words = gettext(
        "Brand kit saved. New emails and your public pages use it. Publish templates again to use it in them."
    )
    return redirect(request, "/settings/brand", words)


@router.get("/preview")
async def preview(request: Request, engine: EngineDep, _visitor: AdminDep) -> Response:
    """Show an email in the design of the form, whose values are in the query. Nothing is stored."""
    fields = _read(request.query_params)
    try:
        brand = _brand(fields)
    except InvalidInput as error:
        return email_frame(notice(" ".join(field_errors(error).values())))
    links = [each.model_dump(mode="json") for each in brand.social]
    social = [{"id": "social", "type": "social", "links": links}] if links else []
    document = {"version": 1, "blocks": [*_SAMPLE, *social, {"id": "footer", "type": "footer"}]}
    html = compile_document(parse_document(orjson.dumps(document)), brand, title=gettext("Preview")).html
    rendered = Template(subject=gettext("Preview"), html=html, text=None).render(standard_values(engine.postal_address))
    return email_frame(preview_html(rendered, is_dark=request.query_params.get("scheme") == "dark"))


@router.get("/contrast")
async def contrast(request: Request, visitor: AdminDep) -> Response:
    """Show which colours of the form are hard to read."""
    try:
        warnings = contrast_warnings(_brand(_read(request.query_params)))
    except InvalidInput:
        warnings = []  # The form shows the error when it is saved.
    return fragment(request, visitor, "settings/brand_contrast.html", warnings=warnings)


async def _upload_logo(form: FormData, engine: Engine, visitor: Visitor) -> str | None:
    """Store the logo of the form in the image library, and return its URL."""
    file = form.get("logo")
    if not isinstance(file, UploadFile) or not file.filename:
        return None
    content = await file.read(MAX_UPLOAD_BYTES + 1)
    if len(content) > MAX_UPLOAD_BYTES:
        raise BodyTooLarge(
            gettext("The logo is larger than {max_upload_bytes} MB.", max_upload_bytes=MAX_UPLOAD_BYTES // 1024**2),
            field="logo",
        )
    try:
        image = await engine.images.add(
            visitor.tenant_id, file.filename, content, alt=gettext("Logo"), actor=visitor.actor
        )
    except InvalidInput as error:
        raise InvalidInput(error.text, field="logo") from error
    return engine.images.url(image, engine.public_url)


def _read(form: FormData | QueryParams) -> Fields:
    names = (*_TEXTS, *(f"social_{network}" for network in Network))
    return Fields({name: value.strip() for name in names if isinstance(value := form.get(name), str)})


def _brand(fields: Fields) -> Brand:
    """Build the brand kit of a form. An empty field has its default."""
    given: dict[str, Any] = {name: fields[name] for name in _TEXTS if fields[name]}
    links = ((network, fields[f"social_{network}"]) for network in Network)
    given["social"] = [{"network": network, "href": href} for network, href in links if href]
    return parse(Brand, given)


def _fields_of(brand: Brand) -> Fields:
    values = brand.model_dump(mode="json", exclude={"social"})
    links = {f"social_{link.network}": link.href for link in brand.social}
    return Fields({name: "" if value is None else str(value) for name, value in values.items()} | links)


def _form_errors(error: MailwrightError, fields: Fields) -> Errors:
    """Return the errors by form field. The API numbers the links that are given."""
    given = [network for network in Network if fields[f"social_{network}"]]
    names = {f"social[{number}].href": f"social_{network}" for number, network in enumerate(given)}
    return field_errors(error, {**names, **{to_camel(name): name for name in _TEXTS}})


def _own_logo(url: str) -> str | None:
    """Return the path of an uploaded logo. Pages of the dashboard load no images from elsewhere."""
    file_name = url.rpartition("/")[2]
    return f"/images/{file_name}" if FILE_NAME.fullmatch(file_name) else None


async def _page(
    request: Request,
    visitor: Visitor,
    fields: Fields,
    error: MailwrightError | None = None,
    *,
    suggested_name: str = "",
) -> Response:
    fields = Fields({**fields, "name": fields["name"] or suggested_name})
    try:
        warnings = contrast_warnings(_brand(fields))
    except InvalidInput:
        warnings = []
    return await page(
        request,
        visitor,
        "settings/brand.html",
        status=HTTPStatus.OK if error is None else HTTPStatus.UNPROCESSABLE_ENTITY,
        tabs=TABS,
        form=fields,
        errors=Errors() if error is None else _form_errors(error, fields),
        warnings=warnings,
        colors=COLORS,
        fonts=FONTS,
        networks=[(f"social_{network}", name) for network, name in NETWORKS.items()],
        has_links=any(fields[f"social_{network}"] for network in Network),
        is_name_suggested=bool(suggested_name),
        logo=_own_logo(fields["logo_url"]),
        preview=urlencode(fields),
    )
