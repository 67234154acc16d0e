"""Passwords: hashed by argon2id, slowly and on a thread of their own, so that no mail waits for a sign-in."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from mailwright.domain.errors import InvalidInput

T = TypeVar("T")

MIN_LENGTH: Final = 10
MAX_LENGTH: Final = 200

# The leanest of OWASP's parameters for argon2id: 7 MiB, five passes, as strong as 19 MiB and two. A small machine has
# a worker beside it.
_HASHER: Final = PasswordHasher(time_cost=5, memory_cost=7 * 1024, parallelism=1)


class Passwords:
    def __init__(self) -> None:
        # One at a time: a flood of sign-ins then costs 19 MiB, not 19 MiB each.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="passwords")
        self._nobodys: str | None = None

    async def hash(self, password: str) -> str:
        return await self._apart(_HASHER.hash, password)

    async def is_right(self, password: str, hashed: str | None) -> bool:
        """None is nobody's: it takes as long to find that wrong as it takes for somebody's."""
        if len(password) > MAX_LENGTH:
            return False
        if hashed is None:
            self._nobodys = self._nobodys or await self.hash("nobody's password")
        is_right = await self._apart(_verify, hashed or self._nobodys or "", password)
        return is_right and hashed is not None

    async def _apart(self, work: Callable[..., T], *arguments: str) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)


def check_password(password: str, login: str) -> None:
    """Long is what counts; what must be in it is up to its owner."""
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise InvalidInput(f"a password has {MIN_LENGTH} to {MAX_LENGTH} characters", field="password")
    if password.strip().casefold() == login.casefold() or len(set(password)) < 4:
        raise InvalidInput("this password is too easy to guess; take a few words", field="password")


def _verify(hashed: str, password: str) -> bool:
    try:
        return _HASHER.verify(hashed, password)
    except (VerificationError, InvalidHashError):
        return False
