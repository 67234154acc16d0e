"""HTTP routes of articles: slices, previews, sends and runs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Annotated

from fastapi import Path, Query, Request
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.domain.errors import NotFound
from mailwright.outbox import tenants
from mailwright.schemas.articles import (
    ArticleCoverageRequest,
    ArticleCoverageResponse,
    ArticleListResponse,
    ArticlePreviewRequest,
    ArticlePreviewResponse,
    ArticleRunDetailResponse,
    ArticleRunListResponse,
    ArticleRunPage,
    ArticleSendRequest,
    ArticleSendResponse,
    SliceImportResponse,
    SliceInvalid,
    SliceListResponse,
    SliceRequest,
    SliceResponse,
    article_coverage_response,
    article_preview_response,
    article_run_detail_response,
    article_run_response,
    article_send_response,
)
from mailwright.sources.api.validation import FieldError, RequestInvalid, parse_strict
from mailwright.sources.articles import files
from mailwright.sources.articles.assembly import Slice, SliceSet
from mailwright.sources.articles.files import FilesRefused
from mailwright.sources.articles.runs import UnknownArticle
from mailwright.sources.articles.slice_input import SliceRefused
from mailwright.web.api.administrator import AdministratorDep
from mailwright.web.api.caller import CallerDep, Credential, actor_of
from mailwright.web.api.openapi import (
    BODY_PROBLEMS,
    describe_body,
    describe_file_body,
    describe_files,
    describe_responses,
)
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_bytes, read_json
from mailwright.web.state import EngineDep

router = Routes(tags=["articles"])

_CSV_BODY = describe_file_body("text/csv")

ArticleKey = Annotated[str, Path(max_length=63, pattern=r"^[a-z0-9-]+$")]


@router.post(
    "/v1/articles/send",
    scope=Credential.ADMINISTRATOR,
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=describe_body(ArticleSendRequest),
    responses=describe_responses(
        {HTTPStatus.ACCEPTED: ArticleSendResponse, HTTPStatus.OK: ArticleSendResponse},
        HTTPStatus.CONFLICT,
        *BODY_PROBLEMS,
    ),
)
async def send(request: Request, engine: EngineDep, administrator: AdministratorDep) -> Response:
    """Start sending an article to its audience.

    The response is sent once the run is stored; a worker then enqueues the messages. If the batch was requested before,
    the response is 200 with the existing run, and nothing is sent twice.
    """
    wanted = parse_strict(ArticleSendRequest, await read_json(request))
    tenant = await tenants.find(engine.database, tenants.DEFAULT)
    run, is_replay = await engine.article_runs.start(
        administrator.actor, tenant.id, wanted.run_request(), overrides_rules=wanted.override_sender_rules
    )
    status = HTTPStatus.OK if is_replay else HTTPStatus.ACCEPTED
    return json_response(article_send_response(run, is_replay=is_replay), status)


@router.get("/v1/articles", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: ArticleListResponse}))
async def list_articles(engine: EngineDep, caller: CallerDep) -> Response:
    """List the articles, by key."""
    articles = await engine.slices.list_articles(caller.tenant_id)
    return json_response(ArticleListResponse(articles=articles))


@router.get(
    "/v1/articles/{articleKey}",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: SliceListResponse}, HTTPStatus.NOT_FOUND),
)
async def show_article(articleKey: ArticleKey, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """List all slices of an article, published or not."""
    return json_response(SliceListResponse(slices=await _slices(engine, caller, articleKey)))


@router.get(
    "/v1/articles/{articleKey}/slices.csv",
    scope=Scope.READ,
    responses=describe_files(("text/csv",), HTTPStatus.NOT_FOUND),
)
async def export(articleKey: ArticleKey, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Download the slices of an article as CSV. Importing the file unchanged changes nothing."""
    slices = await _slices(engine, caller, articleKey)
    headers = {"Content-Disposition": f'attachment; filename="{articleKey}.csv"'}
    return Response(files.as_csv(slices), media_type="text/csv; charset=utf-8", headers=headers)


@router.post(
    "/v1/articles/{articleKey}/preview",
    scope=Scope.READ,
    openapi_extra=describe_body(ArticlePreviewRequest),
    responses=describe_responses({HTTPStatus.OK: ArticlePreviewResponse}, HTTPStatus.NOT_FOUND, *BODY_PROBLEMS),
)
async def preview(request: Request, articleKey: ArticleKey, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Preview the article for one recipient, with the reason why each slice is included or not."""
    wanted = parse_strict(ArticlePreviewRequest, await read_json(request))
    with _unknown_article_is_not_found():
        recipient = await engine.article_previews.find_recipient(caller.tenant_id, wanted.email, wanted.ocd_ids)
        rendered = await engine.article_previews.preview(caller.tenant_id, articleKey, recipient)
    return json_response(article_preview_response(rendered))


@router.post(
    "/v1/articles/{articleKey}/coverage",
    scope=Scope.READ,
    openapi_extra=describe_body(ArticleCoverageRequest),
    responses=describe_responses({HTTPStatus.OK: ArticleCoverageResponse}, HTTPStatus.NOT_FOUND, *BODY_PROBLEMS),
)
async def coverage(request: Request, articleKey: ArticleKey, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Count the recipients of each variant, and list the slices that nobody would get."""
    wanted = parse_strict(ArticleCoverageRequest, await read_json(request))
    with _unknown_article_is_not_found():
        counted = await engine.article_previews.coverage(caller.tenant_id, articleKey, wanted.audience_filter or {})
    return json_response(article_coverage_response(articleKey, counted))


@router.put(
    "/v1/slices",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(SliceRequest),
    responses=describe_responses({HTTPStatus.OK: SliceResponse}, *BODY_PROBLEMS),
)
async def put_slice(request: Request, engine: EngineDep, caller: CallerDep) -> Response:
    """Add a slice, or change the slice at the same position."""
    wanted = parse_strict(SliceRequest, await read_json(request)).slice()
    with _invalid_slices_are_reported():
        [stored], _ = await engine.slices.put(actor_of(caller), caller.tenant_id, [wanted])
    return json_response(SliceResponse.model_validate(stored))


@router.post(
    "/v1/slices/import",
    scope=Scope.MANAGE,
    openapi_extra=_CSV_BODY,
    responses=describe_responses({HTTPStatus.OK: SliceImportResponse}, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
)
async def import_slices(request: Request, engine: EngineDep, caller: CallerDep) -> Response:
    """Import slices from CSV. The columns are the fields of a slice.

    If any line is invalid, nothing is imported, and the error lists each invalid line.
    """
    body = await read_bytes(request, files.MAX_FILE_BYTES)
    with _invalid_slices_are_reported():
        try:
            slices = files.read_texts([("slices.csv", body.decode("utf-8-sig"))])
        except UnicodeDecodeError as error:
            raise RequestInvalid([FieldError("body", "NOT_UTF8", "is not UTF-8")]) from error
        changes = await engine.slices.import_slices(actor_of(caller), caller.tenant_id, slices)
    return json_response(SliceImportResponse.model_validate(changes))


@router.get(
    "/v1/slices/{sliceId}",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: SliceResponse}, HTTPStatus.NOT_FOUND),
)
async def show_slice(sliceId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Show a slice."""
    return json_response(SliceResponse.model_validate(await engine.slices.find(caller.tenant_id, sliceId)))


@router.put(
    "/v1/slices/{sliceId}",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(SliceRequest),
    responses=describe_responses(
        {HTTPStatus.OK: SliceResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *BODY_PROBLEMS
    ),
)
async def change_slice(request: Request, sliceId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Replace a slice. The new position must be free."""
    wanted = parse_strict(SliceRequest, await read_json(request)).slice()
    with _invalid_slices_are_reported():
        changed = await engine.slices.change(actor_of(caller), caller.tenant_id, sliceId, wanted)
    return json_response(SliceResponse.model_validate(changed))


@router.delete(
    "/v1/slices/{sliceId}",
    scope=Scope.MANAGE,
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND),
)
async def remove_slice(sliceId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Delete a slice. Runs that have started still use it."""
    await engine.slices.remove(actor_of(caller), caller.tenant_id, sliceId)
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.get("/v1/article-runs", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: ArticleRunListResponse}))
async def list_runs(engine: EngineDep, caller: CallerDep, page: Annotated[ArticleRunPage, Query()]) -> Response:
    """List the runs, latest first."""
    runs = await engine.article_runs.list_runs(
        caller.tenant_id, limit=page.limit, before=page.before("run"), article_key=page.article_key
    )
    next_cursor = page.next_cursor("run", [run.id for run in runs])
    return json_response(
        ArticleRunListResponse(runs=[article_run_response(run) for run in runs], next_cursor=next_cursor)
    )


@router.get(
    "/v1/article-runs/{runId}",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: ArticleRunDetailResponse}, HTTPStatus.NOT_FOUND),
)
async def show_run(runId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Show a run with its messages by status and the recipients of each variant."""
    run = await engine.article_runs.find(caller.tenant_id, runId)
    counts = await engine.article_runs.count_messages(run)
    variants = await engine.article_runs.list_variants(run)
    return json_response(article_run_detail_response(run, counts, variants))


async def _slices(engine: EngineDep, caller: CallerDep, article_key: str) -> Sequence[Slice]:
    slices = await engine.slices.list_slices(caller.tenant_id, article_key)
    if not slices:
        raise NotFound
    return SliceSet(slices).slices


@contextmanager
def _unknown_article_is_not_found() -> Iterator[None]:
    """Report an unknown article as not found, because it is part of the URL and not a field of the request."""
    try:
        yield
    except UnknownArticle as error:
        raise NotFound from error


@contextmanager
def _invalid_slices_are_reported() -> Iterator[None]:
    """Report each invalid field or line, as for any other invalid request."""
    try:
        yield
    except SliceRefused as error:
        raise SliceInvalid(error) from error
    except FilesRefused as error:
        lines = [FieldError(f"line {problem.line}", error.code, problem.message) for problem in error.problems]
        raise RequestInvalid(lines[: files.MAX_PROBLEMS]) from error
