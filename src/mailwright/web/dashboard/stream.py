"""Streams: the live parts of a page, rendered by the server and told whenever they change."""

from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import unquote

import orjson
from fastapi import Request
from starlette.responses import Response, StreamingResponse

from mailwright.access.roles import Role
from mailwright.web.dashboard.labels import zone_of
from mailwright.web.dashboard.shell import ZONE_COOKIE
from mailwright.web.parts import parts_of
from mailwright.web.session import Visitor, welcome

# Nobody between us and the listener keeps events back to hand them on together.
_AT_ONCE = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def stream(
    request: Request,
    visitor: Visitor,
    topic: str,
    look: Callable[[], Awaitable[Mapping[str, str]]],
    needed: Role = Role.VIEWER,
) -> Response:
    """`look` gives the HTML of each live part by the id of its element; static/live.js puts it there.

    Those who look at the same topic of the same tenant, in the same zone and role, share one look a second.
    """
    zone = str(zone_of(unquote(request.cookies.get(ZONE_COOKIE, ""))))
    shared = (topic, visitor.tenant_id, visitor.user.role, zone)

    async def parts() -> bytes:
        return orjson.dumps(dict(await look()))

    events = parts_of(request).live.stream(shared, parts, welcome(request, needed), event="parts")
    return StreamingResponse(events, media_type="text/event-stream", headers=_AT_ONCE)
