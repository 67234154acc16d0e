"""Article runs: start a run after reviewing its recipients, and watch its progress."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final
from uuid import uuid4

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from mailwright.actions.articles import ArticleSendRequest
from mailwright.app.wiring import Engine
from mailwright.domain.errors import IdempotencyConflict, InvalidInput, MailwrightError
from mailwright.domain.message import Source
from mailwright.domain.states import Status
from mailwright.domain.translation import gettext
from mailwright.schemas.paging import decode_cursor, encode_cursor
from mailwright.sources.api.validation import RequestInvalid, parse_strict
from mailwright.sources.articles import history
from mailwright.sources.articles.assembly import narrowest_scope
from mailwright.sources.articles.profiles.errors import ProfilesError
from mailwright.sources.articles.runs import NEWEST, ArticleRun, RunVariant
from mailwright.web.dashboard.articles import ArticleKey, article_values, filter_errors, filter_of, slices_of
from mailwright.web.dashboard.forms import FORM, Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.readiness import readiness_of
from mailwright.web.dashboard.shell import PageRoute, page, redirect, render_part
from mailwright.web.dashboard.stream import stream
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/articles", route_class=PageRoute, include_in_schema=False)

_PAGE: Final = 30
# Groups of message statuses, in display order: tone, label, statuses.
_GROUPS: Final = (
    ("good", "sent", (Status.SENT,)),
    ("bad", "failed", (Status.FAILED,)),
    ("unconfirmed", "unconfirmed", (Status.IN_DOUBT, Status.CLOSED_UNKNOWN)),
    ("neutral", "cancelled", (Status.CANCELLED,)),
    ("info", "queued", (Status.PENDING, Status.SENT_ATTEMPT, Status.RETRY_SCHEDULED)),
)
_NAMES: Final = {"campaign_tag": "tag", "send_batch_id": "batch", "article_key": FORM}


@router.get("/{article_key}/send")
async def show_form(request: Request, engine: EngineDep, visitor: EditorDep, article_key: ArticleKey) -> Response:
    """Show the form with a new batch id, so that submitting it twice starts one run."""
    return await _form_page(request, engine, visitor, article_key, Fields(batch=str(uuid4())))


@router.post("/{article_key}/send")
async def send(request: Request, engine: EngineDep, visitor: EditorDep, article_key: ArticleKey) -> Response:
    """Show the recipients first; start the run when they are confirmed."""
    form = await read_fields(request)
    try:
        wanted = {
            "campaign_tag": form["tag"],
            "article_key": article_key,
            "audience_filter": filter_of(form["filter"]),
            "send_batch_id": form["batch"],
        }
        order = parse_strict(ArticleSendRequest, wanted).run_request()
        if form["confirmed"] != "yes":
            coverage = await engine.article_previews.coverage(visitor.tenant_id, article_key, order.audience_filter)
            return await _form_page(request, engine, visitor, article_key, form, coverage=coverage)
        overrides = bool(form["overrideSenderRules"])
        run, is_replay = await engine.article_runs.start(
            visitor.actor, visitor.tenant_id, order, overrides_rules=overrides
        )
    except (InvalidInput, IdempotencyConflict, RequestInvalid, ProfilesError) as error:
        return await _form_page(request, engine, visitor, article_key, form, error)
    words = gettext("This batch was already sent.") if is_replay else gettext("Run started.")
    return redirect(request, f"/articles/~runs/{run.run_id}", words)


@router.get("/{article_key}/runs")
async def show_runs(
    request: Request,
    engine: EngineDep,
    visitor: ViewerDep,
    article_key: ArticleKey,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    await slices_of(engine, visitor, article_key)
    before = decode_cursor("run", cursor)[0] if cursor else NEWEST
    found = await engine.article_runs.list_runs(visitor.tenant_id, limit=_PAGE, before=before, article_key=article_key)
    following = encode_cursor("run", found[-1].id) if len(found) == _PAGE else None
    values: dict[str, Any] = {"runs": found, "following": following, "is_first": cursor is None}
    return await page(request, visitor, "articles/runs.html", **article_values(article_key), **values)


@router.get("/~runs/{run_id}")
async def show_run(
    request: Request,
    engine: EngineDep,
    visitor: ViewerDep,
    run_id: str,
    show: Annotated[str, Query(max_length=20)] = "",
    after: Annotated[str, Query(max_length=320)] = "",
) -> Response:
    """Show a run with its emails by address, optionally filtered by status."""
    run = await engine.article_runs.find(visitor.tenant_id, run_id)
    values = {
        **article_values(run.article_key),
        **await _progress_values(engine, run),
        **await _variant_values(engine, visitor, run),
    }
    values |= await _message_values(engine, run, show, after)
    return await page(request, visitor, "articles/run.html", **values)


@router.get("/~runs/{run_id}/stream")
async def watch(request: Request, engine: EngineDep, visitor: ViewerDep, run_id: str) -> Response:
    async def render_parts() -> Mapping[str, str]:
        run = await engine.article_runs.find(visitor.tenant_id, run_id)
        values = {
            **article_values(run.article_key),
            **await _progress_values(engine, run),
            **await _variant_values(engine, visitor, run),
        }
        values |= await _message_values(engine, run)
        names = ("progress", "emails", "variants")
        return {name: render_part(request, visitor, f"articles/{name}.html", **values) for name in names}

    await engine.article_runs.find(visitor.tenant_id, run_id)
    return stream(request, visitor, f"article-run:{run_id}", render_parts)


async def _progress_values(engine: Engine, run: ArticleRun) -> dict[str, Any]:
    counts = await engine.article_runs.count_messages(run)
    groups = [(tone, sum(counts.get(each, 0) for each in those), words) for tone, words, those in _GROUPS]
    queued = groups[-1][1]
    return {"run": run, "groups": groups, "is_over": run.enqueue_ended_at is not None and not queued}


async def _message_values(engine: Engine, run: ArticleRun, show: str = "", after: str = "") -> dict[str, Any]:
    wanted = next((those for _, words, those in _GROUPS if words == show), ())
    found = await history.list_messages(engine.database, run, limit=_PAGE, after=after, statuses=wanted)
    following = found[-1].email if len(found) == _PAGE else None
    return {"emails": found, "show": show if wanted else "", "following": following, "is_first": not after}


async def _variant_values(engine: Engine, visitor: Visitor, run: ArticleRun) -> dict[str, Any]:
    """Return the variants of a run. Slices deleted since then are missing."""
    variants: list[RunVariant] = await engine.article_runs.list_variants(run)
    known = await engine.slices.list_slices(visitor.tenant_id, run.article_key)
    by_id = {each.slice_id: each for each in known}
    scopes = [narrowest_scope(by_id[key] for key in each.slice_ids if key in by_id) for each in variants]
    return {"variants": variants, "scopes": scopes}


async def _form_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    article_key: str,
    form: Fields,
    error: MailwrightError | None = None,
    *,
    coverage: Any = None,
) -> Response:
    await slices_of(engine, visitor, article_key)
    status = HTTPStatus.OK if error is None else HTTPStatus.UNPROCESSABLE_ENTITY
    errors = Errors() if error is None else _errors_for(error)
    values = {
        "form": form,
        "errors": errors,
        "coverage": coverage,
        "readiness": await readiness_of(engine, visitor, source=Source.ARTICLE),
    }
    return await page(request, visitor, "articles/send.html", status=status, **article_values(article_key), **values)


def _errors_for(error: MailwrightError) -> Errors:
    if isinstance(error, InvalidInput) and (error.field or "").startswith("audience_filter"):
        return filter_errors(error)
    return field_errors(error, _NAMES)
