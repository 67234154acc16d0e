"""Articles over HTTP: slices, what readers would get, and the trigger that sends it."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from mailwright.domain.errors import NotFound
from mailwright.outbox import tenants
from mailwright.schemas import articles as answers
from mailwright.schemas.article_requests import (
    ArticleCoverageRequest,
    ArticlePreviewRequest,
    ArticleSendRequest,
    SliceRequest,
    told,
)
from mailwright.schemas.campaign_requests import parse
from mailwright.schemas.paging import Page, decode_cursor, encode_cursor
from mailwright.sources.api.requests import FieldError, RequestInvalid
from mailwright.sources.articles import files
from mailwright.sources.articles.assembly import SliceSet
from mailwright.sources.articles.files import FilesRefused
from mailwright.sources.articles.runs import UnknownArticle
from mailwright.sources.articles.slice_input import SliceRefused
from mailwright.web.api.administrator import ADMINISTRATORS_ONLY, AdministratorDep
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_body, describe_files, describe_responses
from mailwright.web.bodies import json_response, read_bytes, read_json
from mailwright.web.parts import Parts

router = APIRouter(tags=["articles"])

# What the journal says of whoever shows a key; people have names.
ACTOR = "api"
_NEWEST = 2**63 - 1
_BODY_PROBLEMS = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
_CSV_BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"text/csv": {"schema": {"type": "string", "format": "binary"}}}}
}

ArticleKey = Annotated[str, Path(max_length=63, pattern=r"^[a-z0-9-]+$")]


class RunPage(Page):
    article_key: Annotated[str | None, Field(max_length=63, alias="article_key", description="Only of this one.")] = (
        None
    )


@router.post(
    "/v1/articles/send",
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra={**describe_body(ArticleSendRequest), **ADMINISTRATORS_ONLY},
    responses=describe_responses(
        {HTTPStatus.ACCEPTED: answers.ArticleSendResponse, HTTPStatus.OK: answers.ArticleSendResponse},
        HTTPStatus.CONFLICT,
        *_BODY_PROBLEMS,
    ),
)
async def send(request: Request, parts: Parts, administrator: AdministratorDep) -> Response:
    """Answered as soon as the run is on disk: a worker then writes to everyone. The same batch again gets 200 and the
    run as it is; nothing is sent twice."""
    wanted = parse(ArticleSendRequest, await read_json(request))
    tenant = await tenants.find(parts.database, tenants.DEFAULT)
    run, is_replay = await parts.article_runs.start(administrator.actor, tenant.id, wanted.order())
    status = HTTPStatus.OK if is_replay else HTTPStatus.ACCEPTED
    return json_response({**answers.run(run), "is_replay": is_replay}, status)


@router.get("/v1/articles", responses=describe_responses({HTTPStatus.OK: answers.ArticleListResponse}))
async def list_articles(parts: Parts, caller: CallerDep) -> Response:
    """By key."""
    found = await parts.slices.list_articles(caller.tenant_id)
    return json_response({"articles": [answers.article(each) for each in found]})


@router.get(
    "/v1/articles/{articleKey}",
    responses=describe_responses({HTTPStatus.OK: answers.SliceListResponse}, HTTPStatus.NOT_FOUND),
)
async def show_article(articleKey: ArticleKey, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803 - as in the address
    """All slices, whether they are published or not."""
    found = await parts.slices.list_slices(caller.tenant_id, articleKey)
    if not found:
        raise NotFound
    return json_response({"slices": [answers.slice_(each) for each in SliceSet(found).slices]})


@router.get("/v1/articles/{articleKey}/slices.csv", responses=describe_files(("text/csv",), HTTPStatus.NOT_FOUND))
async def export(articleKey: ArticleKey, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Taken in again, it changes nothing."""
    found = await parts.slices.list_slices(caller.tenant_id, articleKey)
    if not found:
        raise NotFound
    headers = {"Content-Disposition": f'attachment; filename="{articleKey}.csv"'}
    return Response(files.as_csv(SliceSet(found).slices), media_type="text/csv; charset=utf-8", headers=headers)


@router.post(
    "/v1/articles/{articleKey}/preview",
    openapi_extra=describe_body(ArticlePreviewRequest),
    responses=describe_responses(
        {HTTPStatus.OK: answers.ArticlePreviewResponse}, HTTPStatus.NOT_FOUND, *_BODY_PROBLEMS
    ),
)
async def preview(request: Request, articleKey: ArticleKey, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """As this reader would get it now, with the reason for each slice that is in it or is not."""
    wanted = parse(ArticlePreviewRequest, await read_json(request))
    with _as_an_address():
        person = await parts.article_previews.find_recipient(caller.tenant_id, wanted.email, wanted.ocd_ids)
        return json_response(
            answers.preview(await parts.article_previews.preview(caller.tenant_id, articleKey, person))
        )


@router.post(
    "/v1/articles/{articleKey}/coverage",
    openapi_extra=describe_body(ArticleCoverageRequest),
    responses=describe_responses(
        {HTTPStatus.OK: answers.ArticleCoverageResponse}, HTTPStatus.NOT_FOUND, *_BODY_PROBLEMS
    ),
)
async def coverage(request: Request, articleKey: ArticleKey, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """How many readers would get which variant now, and which slices nobody would get."""
    wanted = parse(ArticleCoverageRequest, await read_json(request))
    with _as_an_address():
        found = await parts.article_previews.coverage(caller.tenant_id, articleKey, wanted.audience_filter or {})
    return json_response(answers.coverage(articleKey, found))


@router.put(
    "/v1/slices",
    openapi_extra=describe_body(SliceRequest),
    responses=describe_responses({HTTPStatus.OK: answers.SliceResponse}, *_BODY_PROBLEMS),
)
async def put_slice(request: Request, parts: Parts, caller: CallerDep) -> Response:
    """In its place: what is there is changed, what is not is added."""
    wanted = parse(SliceRequest, await read_json(request))
    with _told():
        [stored], _ = await parts.slices.put(caller.actor or ACTOR, caller.tenant_id, [wanted.slice()])
    return json_response(answers.slice_(stored))


@router.post(
    "/v1/slices/import",
    openapi_extra=_CSV_BODY,
    responses=describe_responses({HTTPStatus.OK: answers.SliceImportResponse}, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
)
async def take_in(request: Request, parts: Parts, caller: CallerDep) -> Response:
    """A CSV whose columns are the fields of a slice. All of it is taken, or nothing, with the line of what is wrong."""
    body = await read_bytes(request, files.MAX_FILE_BYTES)
    with _told():
        try:
            found = files.read_texts([("slices.csv", body.decode("utf-8-sig"))])
        except UnicodeDecodeError as error:
            raise RequestInvalid([FieldError("body", "NOT_UTF8", "is not UTF-8")]) from error
        put = await parts.slices.import_slices(caller.actor or ACTOR, caller.tenant_id, found)
    return json_response(answers.taken(put))


@router.get(
    "/v1/slices/{sliceId}", responses=describe_responses({HTTPStatus.OK: answers.SliceResponse}, HTTPStatus.NOT_FOUND)
)
async def show_slice(sliceId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    return json_response(answers.slice_(await parts.slices.find(caller.tenant_id, sliceId)))


@router.put(
    "/v1/slices/{sliceId}",
    openapi_extra=describe_body(SliceRequest),
    responses=describe_responses(
        {HTTPStatus.OK: answers.SliceResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *_BODY_PROBLEMS
    ),
)
async def change_slice(request: Request, sliceId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Replaces the whole of it, also in another place, unless that is taken."""
    wanted = parse(SliceRequest, await read_json(request))
    with _told():
        changed = await parts.slices.change(caller.actor or ACTOR, caller.tenant_id, sliceId, wanted.slice())
    return json_response(answers.slice_(changed))


@router.delete(
    "/v1/slices/{sliceId}",
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND),
)
async def remove_slice(sliceId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Runs that have begun keep what they were begun with."""
    await parts.slices.remove(caller.actor or ACTOR, caller.tenant_id, sliceId)
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.get("/v1/article-runs", responses=describe_responses({HTTPStatus.OK: answers.ArticleRunListResponse}))
async def list_runs(parts: Parts, caller: CallerDep, page: Annotated[RunPage, Query()]) -> Response:
    """The latest first."""
    before = decode_cursor("run", page.cursor)[0] if page.cursor is not None else _NEWEST
    found = await parts.article_runs.list_runs(
        caller.tenant_id, limit=page.limit, before=before, article_key=page.article_key
    )
    following = encode_cursor("run", found[-1].id) if len(found) == page.limit else None
    return json_response({"runs": [answers.run(each) for each in found], "next_cursor": following})


@router.get(
    "/v1/article-runs/{runId}",
    responses=describe_responses({HTTPStatus.OK: answers.ArticleRunDetailResponse}, HTTPStatus.NOT_FOUND),
)
async def show_run(runId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Where its messages stand, and how many readers each variant has."""
    found = await parts.article_runs.find(caller.tenant_id, runId)
    counts, shares = await parts.article_runs.count_messages(found), await parts.article_runs.list_variants(found)
    return json_response(answers.run_story(found, counts, shares))


@contextmanager
def _as_an_address() -> Iterator[None]:
    """An article that is named by its address and is not there is not found."""
    try:
        yield
    except UnknownArticle as error:
        raise NotFound from error


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except SliceRefused as error:
        raise told(error) from error
    except FilesRefused as error:
        lines = [FieldError(f"line {each.line}", error.code, each.message) for each in error.problems]
        raise RequestInvalid(lines[: files.MAX_PROBLEMS]) from error
