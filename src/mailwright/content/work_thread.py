"""Run work that takes much CPU time in a thread, so that it does not block the event loop."""

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from mailwright.content.template import InvalidTemplate

WORK_SECONDS: Final = 20.0

P = ParamSpec("P")
T = TypeVar("T")


async def run_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of `work`, or raise `InvalidTemplate` if it takes too long."""
    try:
        async with asyncio.timeout(WORK_SECONDS):
            return await asyncio.to_thread(work, *args, **kwargs)
    except TimeoutError as error:
        raise InvalidTemplate("The content takes too long to process. Make it smaller.") from error
