"""A caller that disconnects is not an error of the server."""

from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from structlog.testing import capture_logs

from mailwright.web.errors import UnexpectedErrors


@pytest.mark.parametrize(("error", "expected_events"), [(ClientDisconnect(), []), (LookupError(), ["request_failed"])])
async def test_disconnected_caller_logs_no_error(error: Exception, expected_events: list[str]) -> None:
    responses: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        raise error

    async def send(message: Any) -> None:
        responses.append(message)

    with capture_logs() as logged:
        await UnexpectedErrors(application)({"type": "http", "method": "POST", "path": "/"}, None, send)  # type: ignore[arg-type]
    assert [each["event"] for each in logged] == expected_events
    assert bool(responses) == bool(expected_events)
