"""Article pages: slices, preview, coverage, import and export."""

import io
import zipfile
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request
from starlette.datastructures import UploadFile
from starlette.responses import Response

from mailwright.app.wiring import Engine
from mailwright.audience import contacts
from mailwright.domain.clock import Instant
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import gettext
from mailwright.sources.articles import files
from mailwright.sources.articles.assembly import Inclusion, Slice, SliceSet, decide_inclusion
from mailwright.sources.articles.files import FileProblem, FilesRefused
from mailwright.sources.articles.preview import ArticlePreview
from mailwright.sources.articles.profiles.errors import ProfilesError
from mailwright.web.dashboard import previews
from mailwright.web.dashboard.forms import FORM, Errors, field_errors
from mailwright.web.dashboard.shell import PageRoute, email_frame, fragment, page, redirect
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep, result_cache_of

router = APIRouter(prefix="/articles", route_class=PageRoute, include_in_schema=False)

ArticleKey = Annotated[str, Path(max_length=63, pattern=r"^[a-z0-9-]+$")]
Email = Annotated[str, Query(alias="as", max_length=254)]
Divisions = Annotated[str, Query(alias="in", max_length=8_000)]

_SUGGESTED_CONTACTS: Final = 20
_RUNS_SHOWN: Final = 1


@dataclass(frozen=True, slots=True)
class SliceRow:
    """A slice and its current state: `published`, or the reason why nobody gets it."""

    slice: Slice
    state: str


@router.get("")
async def show_all(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    found = await engine.slices.list_articles(visitor.tenant_id)
    latest = {
        each.article_key: run
        for each in found
        for run in await engine.article_runs.list_runs(
            visitor.tenant_id, limit=_RUNS_SHOWN, article_key=each.article_key
        )
    }
    return await page(request, visitor, "articles/list.html", articles=found, latest=latest)


# Import and export of files. Their paths begin with ~, because no article key begins with it.


@router.get("/~import")
async def show_import(request: Request, visitor: EditorDep) -> Response:
    return await page(request, visitor, "articles/import.html", errors=Errors(), problems=(), more=0)


@router.post("/~import")
async def import_files(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    """Import all files. If any line is invalid, import nothing and report every invalid line."""
    problems: tuple[FileProblem, ...] = ()
    errors = Errors()
    try:
        found = files.read_texts(await _uploaded(request))
        put = await engine.slices.import_slices(visitor.actor, visitor.tenant_id, found)
    except FilesRefused as error:
        problems = error.problems
    except InvalidInput as error:
        errors = field_errors(error, {"path": "files"})
    else:
        keys = {each.slice.article_key for each in found}
        words = gettext(
            "{added} added, {changed} changed, {unchanged} unchanged.",
            added=put.added,
            changed=put.changed,
            unchanged=put.unchanged,
        )
        return redirect(request, f"/articles/{keys.pop()}" if len(keys) == 1 else "/articles", words)
    shown: dict[str, Any] = {"errors": errors, "problems": problems[: files.MAX_PROBLEMS]}
    more = max(0, len(problems) - files.MAX_PROBLEMS)
    status = HTTPStatus.UNPROCESSABLE_ENTITY
    return await page(request, visitor, "articles/import.html", status=status, more=more, **shown)


@router.get("/{article_key}/slices.csv")
async def export_csv(engine: EngineDep, visitor: ViewerDep, article_key: ArticleKey) -> Response:
    text = files.as_csv((await slices_of(engine, visitor, article_key)).slices)
    return _download(text.encode(), "text/csv; charset=utf-8", f"{article_key}.csv")


@router.get("/{article_key}/slices.zip")
async def export_markdown(engine: EngineDep, visitor: ViewerDep, article_key: ArticleKey) -> Response:
    """Download the slices as a folder for `mailwright article import`."""
    texts = files.as_markdown((await slices_of(engine, visitor, article_key)).slices)
    folder = io.BytesIO()
    with zipfile.ZipFile(folder, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in texts.items():
            packed.writestr(name, text)
    return _download(folder.getvalue(), "application/zip", f"{article_key}.zip")


# One article.


@router.get("/{article_key}")
async def show(request: Request, engine: EngineDep, visitor: ViewerDep, article_key: ArticleKey) -> Response:
    now = engine.clock.now()
    edition = await slices_of(engine, visitor, article_key)
    rows = [SliceRow(each, state_of(each, now)) for each in edition.slices]
    return await page(request, visitor, "articles/show.html", **article_values(article_key), rows=rows)


@router.get("/{article_key}/preview")
async def preview(
    request: Request,
    engine: EngineDep,
    visitor: ViewerDep,
    article_key: ArticleKey,
    email: Email = "",
    divisions: Divisions = "",
) -> Response:
    """Preview the article for a contact or for divisions."""
    await slices_of(engine, visitor, article_key)
    seen, errors = None, Errors()
    try:
        seen = await _preview_for(engine, visitor, article_key, email, divisions)
    except (InvalidInput, ProfilesError) as error:
        errors = field_errors(error, {"email": "as", "ocd_ids": "in", FORM: "as"})
    suggested = await contacts.list_page(engine.database, visitor.tenant_id, limit=_SUGGESTED_CONTACTS, status="active")
    html = seen.rendered.html if seen is not None and seen.rendered is not None else None
    return await page(
        request,
        visitor,
        "articles/preview.html",
        **article_values(article_key),
        status=HTTPStatus.UNPROCESSABLE_ENTITY if errors else HTTPStatus.OK,
        seen=seen,
        errors=errors,
        contacts=suggested,
        email=email,
        divisions=divisions,
        has_dark=previews.has_dark_style(html or ""),
    )


@router.get("/{article_key}/mail")
async def show_mail(
    engine: EngineDep,
    visitor: ViewerDep,
    article_key: ArticleKey,
    email: Email = "",
    divisions: Divisions = "",
    scheme: Annotated[str, Query(max_length=10)] = "light",
) -> Response:
    """Render the email for the preview frame."""
    seen = await _preview_for(engine, visitor, article_key, email, divisions)
    if seen.rendered is None:
        return email_frame(previews.notice(gettext("No slice matches this recipient, so they get no email.")))
    return email_frame(previews.preview_html(seen.rendered, is_dark=scheme == "dark"))


@router.get("/{article_key}/coverage")
async def show_coverage(
    request: Request,
    engine: EngineDep,
    visitor: ViewerDep,
    article_key: ArticleKey,
    filter: Annotated[str, Query(max_length=2_000)] = "",  # noqa: A002 - the name in the URL
    whole: Annotated[str, Query(max_length=3)] = "",
) -> Response:
    """Show who gets which variant. Computed after the page has loaded, unless scripts are off."""
    await slices_of(engine, visitor, article_key)
    values = (
        await coverage_values(request, engine, visitor, article_key, filter)
        if whole
        else {"coverage": None, "errors": Errors()}
    )
    values |= {"filter": filter, "is_there": bool(whole)}
    return await page(request, visitor, "articles/coverage.html", **article_values(article_key), **values)


@router.get("/{article_key}/coverage/results")
async def show_coverage_results(
    request: Request,
    engine: EngineDep,
    visitor: ViewerDep,
    article_key: ArticleKey,
    filter: Annotated[str, Query(max_length=2_000)] = "",  # noqa: A002
) -> Response:
    values = await coverage_values(request, engine, visitor, article_key, filter)
    return fragment(request, visitor, "articles/coverage_results.html", **article_values(article_key), **values)


# Shared by the other article pages.


def article_values(article_key: str) -> dict[str, Any]:
    to = f"/articles/{article_key}"
    tabs = (
        (to, gettext("Slices")),
        (f"{to}/preview", gettext("Preview")),
        (f"{to}/coverage", gettext("Coverage")),
        (f"{to}/runs", gettext("Runs")),
    )
    return {"key": article_key, "to": to, "tabs": tabs}


async def slices_of(engine: Engine, visitor: Visitor, article_key: str) -> SliceSet:
    found = await engine.slices.list_slices(visitor.tenant_id, article_key)
    if not found:
        raise NotFound(gettext("There is no article {article_key}.", article_key=article_key))
    return SliceSet(found)


async def coverage_values(
    request: Request, engine: Engine, visitor: Visitor, article_key: str, text: str
) -> dict[str, Any]:
    try:
        given = filter_of(text)
        question = ("coverage", visitor.tenant_id, article_key, *sorted(given.items()))
        coverage = await result_cache_of(request).get(
            question, lambda: engine.article_previews.coverage(visitor.tenant_id, article_key, given)
        )
        return {"coverage": coverage, "errors": Errors()}
    except InvalidInput as error:
        return {"coverage": None, "errors": filter_errors(error)}
    except ProfilesError as error:
        return {"coverage": None, "errors": field_errors(error)}


def filter_of(text: str) -> dict[str, str]:
    """Parse `state=OH county=Franklin`, or one condition per line, where values may contain spaces."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        words = line.split() if line.count("=") > 1 else [line.strip()]
        for word in filter(None, words):
            name, sign, value = word.partition("=")
            if not sign or not name.strip() or not value.strip():
                raise InvalidInput(
                    gettext("“{word}” is not a condition. Use the form state=OH.", word=word[:60]),
                    field="audience_filter",
                )
            found[name.strip()] = value.strip()
    return found


def filter_errors(error: InvalidInput) -> Errors:
    """Return all errors of a filter as the error of its single form field."""
    name, _, word = (error.field or "").partition(".")
    if name != "audience_filter":
        return field_errors(error)
    return Errors(filter=f"{word}: {error.text}" if word else error.text)


def state_of(each: Slice, now: Instant) -> str:
    found = decide_inclusion(each, (), now)
    return "published" if found in (Inclusion.FOR_EVERYONE, Inclusion.OUT_OF_SCOPE) else found.value


async def _preview_for(
    engine: Engine, visitor: Visitor, article_key: str, email: str, divisions: str
) -> ArticlePreview:
    named = divisions.replace(",", " ").replace(";", " ").split()
    person = await engine.article_previews.find_recipient(visitor.tenant_id, email.strip() or None, named)
    return await engine.article_previews.preview(visitor.tenant_id, article_key, person)


async def _uploaded(request: Request) -> list[tuple[str, str]]:
    texts: list[tuple[str, str]] = []
    room = files.MAX_FILE_BYTES
    for each in (await request.form()).getlist("files"):
        if not isinstance(each, UploadFile) or not each.filename:
            continue
        room -= each.size or 0
        if room < 0:
            raise InvalidInput(
                gettext(
                    "The files are larger than {MAX_FILE_BYTES} MB in total",
                    MAX_FILE_BYTES=files.MAX_FILE_BYTES // 1024**2,
                ),
                field="files",
            )
        try:
            texts.append((each.filename, (await each.read()).decode("utf-8-sig")))
        except UnicodeDecodeError as error:
            raise InvalidInput(
                gettext("{filename} is not encoded in UTF-8", filename=each.filename[:80]), field="files"
            ) from error
    if not texts:
        raise InvalidInput(gettext("Choose one .csv file or several .md files."), field="files")
    return texts


def _download(content: bytes, media_type: str, name: str) -> Response:
    headers: Mapping[str, str] = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return Response(content, media_type=media_type, headers=dict(headers))
