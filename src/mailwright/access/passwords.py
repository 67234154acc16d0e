"""Hash and verify passwords with argon2id on a separate thread, so that sign-ins do not delay messages."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar

from mailwright.domain.errors import InvalidInput

if TYPE_CHECKING:
    from argon2 import PasswordHasher

T = TypeVar("T")

MIN_LENGTH: Final = 10
MAX_LENGTH: Final = 200


class Passwords:
    def __init__(self) -> None:
        # Hash one password at a time, so that parallel sign-ins need no more memory than one.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="passwords")
        self._dummy_hash: str | None = None

    async def hash(self, password: str) -> str:
        return await self._run_in_thread(_hash, password)

    async def is_correct(self, password: str, hashed: str | None) -> bool:
        """Compare a password with its hash. If `hashed` is None, take equally long, so that timing reveals no users."""
        if len(password) > MAX_LENGTH:
            return False
        if hashed is None:
            self._dummy_hash = self._dummy_hash or await self.hash("a password that nobody has")
        is_correct = await self._run_in_thread(_verify, hashed or self._dummy_hash or "", password)
        return is_correct and hashed is not None

    async def _run_in_thread(self, work: Callable[..., T], *arguments: str) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)


def check_password(password: str, login: str) -> None:
    """Raise if a password is too short, too long or easy to guess. No mix of character types is required."""
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise InvalidInput(
            "A password needs {min_length} to {max_length} characters.",
            field="password",
            min_length=MIN_LENGTH,
            max_length=MAX_LENGTH,
        )
    if password.strip().casefold() == login.casefold() or len(set(password)) < 4:
        raise InvalidInput("This password is too easy to guess. Use a few random words.", field="password")


@cache
def password_hasher() -> "PasswordHasher":
    """Return the hasher. It is imported at the first use, because most commands need no password.

    OWASP recommends several equally strong parameter sets for argon2id. This one needs the least memory (7 MiB, with
    five passes), because a small machine also runs a worker.
    """
    from argon2 import PasswordHasher  # noqa: PLC0415 - as above

    return PasswordHasher(time_cost=5, memory_cost=7 * 1024, parallelism=1)


def _hash(password: str) -> str:
    return password_hasher().hash(password)


def _verify(hashed: str, password: str) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError  # noqa: PLC0415 - as above

    try:
        return password_hasher().verify(hashed, password)
    except (VerificationError, InvalidHashError):
        return False
