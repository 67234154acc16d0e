"""Create the first administrator of an installation through a one-time link that the server prints."""

import secrets
from typing import Final

from mailwright.access.roles import Role
from mailwright.access.sessions import token_digest
from mailwright.access.users import User, Users
from mailwright.domain.errors import NotPossibleNow
from mailwright.outbox.installation_values import store_value, take_value
from mailwright.storage.database import Database

# The name of the stored digest in the table `installation`.
_NAME: Final = "set_up_digest"


class SetupLinkInvalid(NotPossibleNow):
    """This link was already used, or a newer one replaced it. Restart the server for a new link."""

    code = "SET_UP_OVER"


class InitialSetup:
    def __init__(self, database: Database, users: Users) -> None:
        self._database = database
        self._users = users

    async def create_token(self) -> str | None:
        """Return the token of a new link, or None if a user exists. It replaces any earlier token."""
        if await self._users.has_any():
            return None
        token = secrets.token_urlsafe(24)
        async with self._database.write() as tx:
            await store_value(tx, _NAME, token_digest(token))
        return token

    async def create_admin(self, token: str, login: str, password: str) -> User:
        """Create the administrator. If the login or the password is not acceptable, the link stays valid."""
        self._users.check(login, password)
        async with self._database.write() as tx:
            used = await take_value(tx, _NAME, token_digest(token))
        if not used or await self._users.has_any():
            raise SetupLinkInvalid
        return await self._users.create(login, password, Role.ADMIN, actor="set-up")
