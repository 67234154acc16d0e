"""The local mailbox: emails that the provider `mailbox` stored instead of sending.

One folder holds the emails of all tenants; a visitor sees only those of their own tenant.
"""

import asyncio
import os
from collections.abc import Sequence
from email.parser import BytesHeaderParser
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.access.roles import Role
from mailwright.app.wiring import Engine
from mailwright.domain.clock import Instant
from mailwright.domain.errors import NotFound
from mailwright.domain.ids import is_uuid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import gettext
from mailwright.outbox.message_records import find_recipients
from mailwright.outbox.system_emails import ACCOUNT_PREFIX
from mailwright.schemas.paging import decode_cursor, encode_cursor
from mailwright.web.dashboard.email_parts import (
    ParsedEmail,
    download,
    file_response,
    frame_response,
    parse_email,
    readable,
)
from mailwright.web.dashboard.shell import PageRoute, page, render_part
from mailwright.web.dashboard.stream import stream
from mailwright.web.session import ViewerDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/mailbox", route_class=PageRoute, include_in_schema=False)

PAGE: Final = 50
_SUFFIX: Final = ".mailwright"
_FOLDERS: Final = ("new", "cur")
# The number of files looked up in one query.
_BATCH: Final = 200
_NEWEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class MailboxFile:
    outbox_id: str
    stored_at_ns: int
    path: str


@dataclass(frozen=True, slots=True)
class MailboxRow:
    outbox_id: str
    to_email: str
    subject: str
    stored_at_ns: int

    @property
    def at(self) -> Instant:
        return self.stored_at_ns // 1_000_000


@router.get("")
async def list_mails(
    request: Request, engine: EngineDep, visitor: ViewerDep, q: str = "", cursor: str = ""
) -> Response:
    values = await _list_values(engine, visitor, q, cursor)
    return await page(request, visitor, "mailbox/list.html", email=None, outbox_id="", **values)


@router.get("/stream")
async def listen(
    request: Request, engine: EngineDep, visitor: ViewerDep, *, q: str = "", cursor: str = "", shown: str = ""
) -> Response:
    async def render_parts() -> dict[str, str]:
        values = await _list_values(engine, visitor, q, cursor)
        return {"inbox": render_part(request, visitor, "mailbox/inbox.html", outbox_id=shown, **values)}

    return stream(request, visitor, f"mailbox {q} {cursor} {shown}", render_parts)


@router.get("/{outbox_id}")
async def show(
    request: Request,
    engine: EngineDep,
    visitor: ViewerDep,
    outbox_id: str,
    *,
    q: str = "",
    cursor: str = "",
    view: str = "html",
    width: Literal["desktop", "phone"] = "desktop",
) -> Response:
    email = await _read_email(engine, visitor, outbox_id)
    values: dict[str, Any] = {
        **await _list_values(engine, visitor, q, cursor),
        "email": email,
        "view": email.view(view),
        "width": width,
        "outbox_id": outbox_id,
        "at": f"/mailbox/{outbox_id}",
    }
    return await page(request, visitor, "mailbox/list.html", **values)


@router.get("/{outbox_id}/frame")
async def show_frame(engine: EngineDep, visitor: ViewerDep, outbox_id: str) -> Response:
    return frame_response(await _read_email(engine, visitor, outbox_id))


@router.get("/{outbox_id}/files/{number}")
async def download_file(engine: EngineDep, visitor: ViewerDep, outbox_id: str, number: int) -> Response:
    return file_response(await _read_email(engine, visitor, outbox_id), number)


@router.get("/{outbox_id}/source.eml")
async def download_source(engine: EngineDep, visitor: ViewerDep, outbox_id: str) -> Response:
    email = await _read_email(engine, visitor, outbox_id)
    return download(email.source, f"{outbox_id}.eml", "message/rfc822")


async def _list_values(engine: Engine, visitor: Visitor, q: str, cursor: str) -> dict[str, Any]:
    before = decode_cursor("mailbox", cursor)[0] if cursor else _NEWEST
    words = q.strip()[:320]
    rows = await _rows(engine, visitor, words, before) if engine.mailbox_folder is not None else []
    following = encode_cursor("mailbox", rows[PAGE - 1].stored_at_ns) if len(rows) > PAGE else None
    return {
        "is_on": engine.mailbox_folder is not None,
        "rows": rows[:PAGE],
        "following": following,
        "q": words,
        "cursor": cursor,
    }


async def _rows(engine: Engine, visitor: Visitor, words: str, before: int) -> list[MailboxRow]:
    """Return one row more than a page holds, latest first, to show whether there is a next page."""
    arrived = await asyncio.to_thread(_files, engine.mailbox_folder or Path(), before)
    found: list[MailboxRow] = []
    for start in range(0, len(arrived), _BATCH):
        some = arrived[start : start + _BATCH]
        known = await _addresses_of(engine, visitor, [each.outbox_id for each in some])
        mine = [each for each in some if each.outbox_id in known]
        for each, subject in zip(mine, await asyncio.to_thread(_subjects, mine), strict=True):
            line = MailboxRow(each.outbox_id, known[each.outbox_id], subject, each.stored_at_ns)
            if words.lower() in line.subject.lower() or words.lower() in line.to_email:
                found.append(line)
        if len(found) > PAGE:
            break
    return found


def _files(folder: Path, before: int) -> list[MailboxFile]:
    found: list[MailboxFile] = []
    for name in _FOLDERS:
        if not (folder / name).is_dir():
            continue
        with os.scandir(folder / name) as entries:
            for entry in entries:
                outbox_id = entry.name.partition(_SUFFIX)[0]
                if _SUFFIX in entry.name and is_uuid(outbox_id):
                    stored_at_ns = entry.stat().st_mtime_ns
                    if stored_at_ns < before:
                        found.append(MailboxFile(outbox_id, stored_at_ns, entry.path))
    return sorted(found, key=lambda each: each.stored_at_ns, reverse=True)


def _subjects(some: Sequence[MailboxFile]) -> list[str]:
    """Read the subjects from the emails, because the stored subject of a campaign message is not personalized."""
    return [_subject(each.path, each.stored_at_ns) for each in some]


@lru_cache(maxsize=10_000)
def _subject(path: str, stored_at_ns: int) -> str:
    try:
        with Path(path).open("rb") as file:
            head = BytesHeaderParser().parse(file)
    except OSError:
        return ""
    return readable(str(head.get("Subject", "")))


async def _addresses_of(engine: Engine, visitor: Visitor, outbox_ids: Sequence[str]) -> dict[str, str]:
    """Return the recipient addresses of those messages that belong to the tenant."""
    # Emails of accounts hold links to the accounts of others.
    is_limited = visitor.user.tenant_id is not None or not visitor.may(Role.ADMIN)
    without = ACCOUNT_PREFIX if is_limited else None
    return await find_recipients(engine.database, visitor.tenant_id, outbox_ids, without=without)


async def _read_email(engine: Engine, visitor: Visitor, outbox_id: str) -> ParsedEmail:
    if engine.mailbox_folder is None or not is_uuid(outbox_id):
        raise NotFound
    if not await _addresses_of(engine, visitor, [outbox_id]):
        raise NotFound(gettext("This email is not in the mailbox."))
    content = await asyncio.to_thread(_content, engine.mailbox_folder, outbox_id)
    if content is None:
        raise NotFound(gettext("This email is no longer in the mailbox."))
    return parse_email(content)


def _content(folder: Path, outbox_id: str) -> bytes | None:
    """Read an email. Mail clients move files to `cur` and append flags to their names."""
    for name in _FOLDERS:
        for path in sorted((folder / name).glob(f"{outbox_id}{_SUFFIX}*")):
            try:
                return path.read_bytes()
            except FileNotFoundError:
                continue
    return None
