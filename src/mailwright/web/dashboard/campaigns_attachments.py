"""The attachments of a draft: upload, download and removal."""

from typing import Final

from fastapi import APIRouter, Request
from starlette.datastructures import UploadFile
from starlette.responses import Response

from mailwright.content.mime import EmailAttachment
from mailwright.domain.errors import InvalidInput, NotPossibleNow
from mailwright.domain.translation import gettext
from mailwright.sources.api.requests import parse_file
from mailwright.sources.api.validation import RequestInvalid
from mailwright.sources.campaigns.attachments import read_content
from mailwright.sources.campaigns.records import Actor
from mailwright.texts.sentences import sentence
from mailwright.web.dashboard.email_parts import download
from mailwright.web.dashboard.shell import PageRoute, redirect
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep

# The campaign id comes last, so that web/body_limits.py can set the upload limit for one path prefix.
PREFIX: Final = "/campaigns/~attachments"

router = APIRouter(prefix=PREFIX, route_class=PageRoute, include_in_schema=False)


@router.post("/{campaign_id}")
async def attach(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    to = f"/campaigns/{campaign_id}/edit/content"
    try:
        added = await _read_files(request)
        await engine.campaigns.attach(_acting(visitor), campaign_id, added)
    except RequestInvalid as error:
        words = " ".join(sentence(f"{each.field} {each.message}") for each in error.errors)
        return redirect(request, to, words, tone="bad")
    except (InvalidInput, NotPossibleNow) as error:
        return redirect(request, to, error.text, tone="bad")
    return redirect(
        request,
        to,
        gettext("File attached.") if len(added) == 1 else gettext("{added} files attached.", added=len(added)),
    )


@router.post("/{campaign_id}/{attachment_id}/remove")
async def detach(
    request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str, attachment_id: str
) -> Response:
    to = f"/campaigns/{campaign_id}/edit/content"
    try:
        await engine.campaigns.detach(_acting(visitor), campaign_id, attachment_id)
    except NotPossibleNow as error:
        return redirect(request, to, error.text, tone="bad")
    return redirect(request, to, gettext("File removed."))


@router.get("/{campaign_id}/{attachment_id}")
async def download_file(engine: EngineDep, visitor: ViewerDep, campaign_id: str, attachment_id: str) -> Response:
    campaign = await engine.campaigns.find(campaign_id, tenant_id=visitor.tenant_id)
    attachment, content = await read_content(engine.database, campaign.key, attachment_id)
    return download(content, attachment.filename)


async def _read_files(request: Request) -> list[EmailAttachment]:
    files = [file for file in (await request.form()).getlist("files") if isinstance(file, UploadFile) and file.filename]
    if not files:
        raise InvalidInput(gettext("Choose a file."), field="files")
    return [parse_file(file.filename or "", file.content_type, await file.read()) for file in files]


def _acting(visitor: Visitor) -> Actor:
    return Actor(visitor.actor, visitor.tenant_id)
