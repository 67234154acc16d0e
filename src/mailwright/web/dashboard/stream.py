"""Live updates: stream re-rendered parts of a page over server-sent events."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

import orjson
from fastapi import Request
from starlette.responses import Response, StreamingResponse

from mailwright.access.roles import Role
from mailwright.domain.translation import current_catalogue, using
from mailwright.web.session import Visitor, access_check
from mailwright.web.state import live_updates_of

# Proxies must not buffer events.
_NO_BUFFERING = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
# Replaces the form token in a shared rendering. No token contains this character.
_OWN_TOKEN: Final = b"~own-form-token~"


def stream(
    request: Request,
    visitor: Visitor,
    topic: str,
    render_parts: Callable[[], Awaitable[Mapping[str, str]]],
    needed: Role = Role.VIEWER,
) -> Response:
    """Stream live parts of a page. `render_parts` returns HTML by element id; static/live.js inserts it.

    Listeners with the same topic, tenant, time zone, role and language share one rendering per second. Only the form
    token is each listener's own.
    """
    token = visitor.form_token.encode()
    catalogue = current_catalogue()
    shared = (topic, visitor.tenant_id, visitor.user.role, str(visitor.zone), catalogue.language)

    async def parts() -> bytes:
        with using(catalogue):
            return orjson.dumps(dict(await render_parts())).replace(token, _OWN_TOKEN)

    async def events() -> AsyncIterator[bytes]:
        is_allowed = access_check(request, needed)
        async for event in live_updates_of(request).stream(shared, parts, is_allowed, event="parts"):
            yield event.replace(_OWN_TOKEN, token)

    return StreamingResponse(events(), media_type="text/event-stream", headers=_NO_BUFFERING)
