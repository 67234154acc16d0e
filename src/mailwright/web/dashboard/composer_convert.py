"""Bring HTML, Markdown, feeds and Notion pages into the composer as blocks."""

from typing import Final

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.feeds import fetch_feed
from mailwright.app.wiring import Engine
from mailwright.content.blocks.convert import JsonBlock, from_feed_items, from_foreign_html, from_html, from_markdown
from mailwright.content.blocks.dropped import dropped_notes
from mailwright.content.blocks.foreign_code import has_code
from mailwright.content.personal_links import find_personal_links
from mailwright.content.work_thread import run_in_thread
from mailwright.domain.translation import lazy_gettext
from mailwright.schemas.composer import ConvertRequest
from mailwright.sources.api.validation import FieldError, RequestInvalid, parse
from mailwright.sources.mailouts.notion import NotionError
from mailwright.sources.mailouts.refusals import MailoutRefused
from mailwright.web.bodies import json_response, read_json
from mailwright.web.dashboard.json_route import JsonRoute
from mailwright.web.dashboard.pasted_links import with_targets
from mailwright.web.session import EditorDep
from mailwright.web.state import EngineDep

_CODE_WARNING: Final = lazy_gettext(
    "The content has template code, for example a variable. It shows data of each recipient: check that you want it."
)
_REPLACED_WARNING: Final = lazy_gettext(
    "The content had personal links of a recipient, for example to unsubscribe. They now "
    "lead each recipient to their own page."
)
_PERSONAL_WARNING: Final = lazy_gettext(
    "The content has links that belong to one recipient, for example tracked ones. Replace "
    "them with the addresses that they lead to: the pre-send check refuses them."
)

router = APIRouter(prefix="/composer", route_class=JsonRoute, include_in_schema=False)


@router.post("/convert")
async def convert(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    """Return the content as blocks. Nothing is stored except copies of images from Notion."""
    asked = parse(ConvertRequest, await read_json(request))
    asked = asked.model_copy(update={"text": await with_targets(engine, visitor.tenant_id, asked.text)})
    blocks = await _blocks(engine, visitor.tenant_id, asked)
    shown = orjson.dumps(blocks).decode().replace("\\", " ")  # JSON escapes the quotes around addresses.
    found = {
        _CODE_WARNING: has_code(blocks),
        _REPLACED_WARNING: any(each.variable for each in find_personal_links(asked.text)),
        _PERSONAL_WARNING: any(True for _ in find_personal_links(shown)),
    }
    warnings = [text for text, applies in found.items() if applies]
    if asked.source == "html":
        warnings += await run_in_thread(dropped_notes, asked.text)
    return json_response({"blocks": blocks, "warnings": warnings})


async def _blocks(engine: Engine, tenant_id: int, asked: ConvertRequest) -> list[JsonBlock]:
    match asked.source:
        case "html":
            return await run_in_thread(from_html, asked.text)
        case "markdown":
            return await run_in_thread(from_markdown, asked.text)
        case "feed":
            items = await fetch_feed(asked.url.strip())
            return await run_in_thread(from_feed_items, items, asked.limit)
        case "notion":
            try:
                html = await engine.mailouts.read_page(tenant_id, asked.page.strip())
            except (NotionError, MailoutRefused) as error:
                raise RequestInvalid([FieldError("page", error.code, error.text)]) from error
            return await run_in_thread(from_foreign_html, html)
