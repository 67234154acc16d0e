"""Let concurrent callers share one commit, so that a busy process pays for one disk flush instead of one per caller."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field
from itertools import islice
from typing import Generic, TypeVar

from mailwright.domain.errors import NotDurable
from mailwright.domain.lazy_dataclass import dataclass

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(slots=True)
class _Submission(Generic[Item, Result]):
    items: Sequence[Item]
    results: "asyncio.Future[list[Result]]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def succeed(self, results: list[Result]) -> None:
        if not self.results.done():
            self.results.set_result(results)

    def fail(self, error: Exception) -> None:
        if not self.results.done():
            self.results.set_exception(error)


class GroupCommit(Generic[Item, Result]):
    """Collects the items that arrive while a commit is running, and commits them together in the next one.

    `commit` stores items in one transaction and returns one result per item, in order. `after_commit` runs after every
    group. A group has at most `max_items` items and `max_bytes` bytes, unless a single caller submits more.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Item]], Awaitable[list[Result]]],
        *,
        after_commit: Callable[[], Awaitable[None]],
        max_items: int,
        max_bytes: int | None = None,
        size_of: Callable[[Item], int] = lambda _: 0,
    ) -> None:
        self._commit = commit
        self._after_commit = after_commit
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._size_of = size_of
        self._waiting: list[_Submission[Item, Result]] = []
        self._committing: asyncio.Task[None] | None = None

    async def submit(self, items: Sequence[Item]) -> list[Result]:
        """Return the results once the items are committed."""
        submission: _Submission[Item, Result] = _Submission(items)
        self._waiting.append(submission)
        if self._committing is None or self._committing.done():
            self._committing = asyncio.create_task(self._commit_all())
        return await submission.results

    async def close(self) -> None:
        """Wait until everything that was submitted is committed."""
        if self._committing is not None:
            await self._committing

    async def _commit_all(self) -> None:
        while self._waiting:
            group = self._next_group()
            try:
                results = await self._commit([item for submission in group for item in submission.items])
            except NotDurable as error:
                # Submissions that arrived in the meantime fail too, instead of waiting for the same database again.
                group += self._waiting
                self._waiting = []
                for submission in group:
                    submission.fail(error)
            except Exception:  # One caller's items cannot be stored. Commit one by one, so that the others succeed.
                await self._commit_one_by_one(group)
            else:
                each = iter(results)
                for submission in group:
                    submission.succeed(list(islice(each, len(submission.items))))
            await self._after_commit()

    async def _commit_one_by_one(self, group: Sequence[_Submission[Item, Result]]) -> None:
        for submission in group:
            try:
                submission.succeed(await self._commit(submission.items))
            except Exception as error:
                submission.fail(error)

    def _next_group(self) -> list[_Submission[Item, Result]]:
        group: list[_Submission[Item, Result]] = []
        count = size = 0
        for submission in self._waiting:
            items = submission.items
            count += len(items)
            if self._max_bytes is not None:
                size += sum([self._size_of(item) for item in items])
            is_full = count > self._max_items or (self._max_bytes is not None and size > self._max_bytes)
            if group and is_full:
                break
            group.append(submission)
        del self._waiting[: len(group)]
        return group
