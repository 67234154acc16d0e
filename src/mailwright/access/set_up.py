"""Set-up: the first administrator of an installation that has none. A link from the console makes exactly one."""

import secrets
from typing import Final

from sqlalchemy import delete

from mailwright.access.roles import Role
from mailwright.access.sessions import digest_of
from mailwright.access.users import User, Users
from mailwright.domain.errors import NotPossibleNow
from mailwright.storage.database import Database
from mailwright.storage.statements import statement
from mailwright.storage.tables import installation

INVITE = statement(__package__, "invite")

# The digest stands beside what else the installation keeps for itself.
_NAME: Final = "set_up_digest"


class SetUpOver(NotPossibleNow):
    """This link was used, or is not the newest. Start the server again for another, or use `mailwright user create`."""

    code = "SET_UP_OVER"


class SetUp:
    def __init__(self, database: Database, users: Users) -> None:
        self._database = database
        self._users = users

    async def invite(self) -> str | None:
        """A token that makes the first administrator; None once there is anybody. Only the newest one works."""
        if await self._users.is_anybody_there():
            return None
        token = secrets.token_urlsafe(24)
        async with self._database.write() as tx:
            await tx.run(INVITE, name=_NAME, digest=digest_of(token))
        return token

    async def accept(self, token: str, login: str, password: str) -> User:
        """What was wrong with the name or the password is told before the link is used up."""
        self._users.check(login, password)
        async with self._database.write() as tx:
            mine = (installation.c.name == _NAME, installation.c.value == digest_of(token))
            used = await tx.execute(delete(installation).where(*mine).returning(installation.c.name))
        if not used or await self._users.is_anybody_there():
            raise SetUpOver
        return await self._users.create(login, password, Role.ADMIN, actor="set-up")
