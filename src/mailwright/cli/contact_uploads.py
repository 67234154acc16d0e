"""Import files of contacts on another server: upload them, show the progress, and fetch the report."""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from mailwright.actions import imports, load_noun, moves
from mailwright.actions.imports import ImportPreviewResponse, ImportResponse
from mailwright.actions.lists import create as create_list
from mailwright.actions.lists import list_lists
from mailwright.actions.moves import MoveCountsResponse, MoveResponse
from mailwright.audience.switching.exports import ExportFile
from mailwright.audience.switching.uploads import MoveState
from mailwright.cli.derived import perform
from mailwright.cli.import_progress import import_progress
from mailwright.cli.output import aside
from mailwright.domain.errors import InvalidInput, NotPossibleNow

_FIRST_WAIT_SECONDS: Final = 0.1
_LONGEST_WAIT_SECONDS: Final = 2.0
# A server that does not continue an import for this long has stopped it.
_STANDSTILL_SECONDS: Final = 300.0

noun = load_noun("contact")


def has_list(list_key: str, *, tenant: str) -> bool:
    lists = load_noun("list")
    found = perform(lists.find(list_lists), {}, path={}, tenant=tenant)
    return any(each.list_key == list_key for each in found.lists)


def preview_upload(file: Path, values: dict[str, Any], *, tenant: str) -> ImportPreviewResponse:
    """Upload the file and return how the server would read it. Nothing is stored."""
    action = noun.find(imports.preview)
    found: ImportPreviewResponse = perform(action, values, path={}, tenant=tenant, upload=file)
    return found


def add_list(list_key: str, *, tenant: str) -> None:
    """Create the list of an import, as a local import does."""
    values = {"listKey": list_key, "isPublic": True, "requiresConfirmation": False}
    perform(load_noun("list").find(create_list), values, path={}, tenant=tenant)


def import_upload(file: Path, values: dict[str, Any], report: Path, *, tenant: str) -> ImportResponse:
    """Upload the file, wait until the server has imported it, and write the report."""
    begun: ImportResponse = perform(noun.find(imports.begin), values, path={}, tenant=tenant, upload=file)
    path = {"import_id": begun.import_id}
    for warning in begun.warnings:
        aside.print(warning, markup=False)
    found = begun
    with import_progress(begun.size_bytes, begun.read_bytes, begun.rows) as show:
        waits, moved_at = _waits(), time.monotonic()
        while found.finished_at is None:
            time.sleep(next(waits))
            before, found = found, perform(noun.find(imports.show), {}, path=path, tenant=tenant)
            show(found.read_bytes, found.rows)
            if found.updated_at != before.updated_at:
                moved_at = time.monotonic()
            elif time.monotonic() - moved_at > _STANDSTILL_SECONDS:
                raise NotPossibleNow(
                    f"The server has not continued the import {begun.import_id} for five minutes. Its log says why. "
                    "What was imported stays; run the same command again to import the file from its beginning."
                )
    perform(noun.find(imports.report), {}, path=path, tenant=tenant, target=report)
    return found


def move_uploads(
    files: Sequence[ExportFile], values: dict[str, Any], *, tenant: str, report: Path | None, is_preview: bool
) -> MoveCountsResponse:
    """Upload the export files of another product, move their contacts, and write the report."""
    if not files:
        raise InvalidInput("give at least one file.", field="FILE")
    found: MoveResponse | None = None
    for file in files:
        named = {"fileName": file.path.name} | ({} if file.status is None else {"status": file.status.value})
        upload = partial(perform, tenant=tenant, upload=file.path)
        if found is None:
            found = upload(noun.find(moves.create), {**values, **named}, path={})
        else:
            found = upload(noun.find(moves.add_file), named, path={"move_id": found.move_id})
    assert found is not None
    path = {"move_id": found.move_id}
    if not is_preview and not found.problem:
        found = perform(noun.find(moves.start), {}, path=path, tenant=tenant)
        waits = _waits()
        while found.state == MoveState.RUNNING:
            time.sleep(next(waits))
            found = perform(noun.find(moves.show), {}, path=path, tenant=tenant)
    if found.problem:
        raise InvalidInput(found.problem)
    if found.counts is None:
        raise NotPossibleNow("The server was stopped during the move. Run the same command again.")
    if report is not None and not is_preview:
        perform(noun.find(moves.report), {}, path=path, tenant=tenant, target=report)
    return found.counts


def _waits() -> Iterator[float]:
    """Yield the seconds between two questions about the progress. They grow, so that a long import costs little."""
    wait = _FIRST_WAIT_SECONDS
    while True:
        yield wait
        wait = min(wait * 2, _LONGEST_WAIT_SECONDS)
