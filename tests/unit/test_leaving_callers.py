"""Whoever leaves in the middle of asking is no failure of ours."""

from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from structlog.testing import capture_logs

from mailwright.web.errors import UnexpectedErrors


@pytest.mark.parametrize(("error", "complaints"), [(ClientDisconnect(), []), (LookupError(), ["request_failed"])])
async def test_whoever_leaves_while_asking_leaves_no_complaint_in_the_log(
    error: Exception, complaints: list[str]
) -> None:
    answered: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        raise error

    async def send(message: Any) -> None:
        answered.append(message)

    with capture_logs() as logged:
        await UnexpectedErrors(application)({"type": "http", "method": "POST", "path": "/"}, None, send)  # type: ignore[arg-type]
    assert [each["event"] for each in logged] == complaints
    assert bool(answered) == bool(complaints)
