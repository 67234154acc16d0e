"""The way into the demonstration's dashboard: an administrator who is there already, and a link to click."""

import secrets
from dataclasses import dataclass

from mailwright.access.failed_sign_ins import FailedSignIns
from mailwright.access.roles import Role
from mailwright.access.sessions import LINK_SESSION_AGE, Sessions
from mailwright.access.users import FIRST_LOGIN, Users
from mailwright.app.wiring import Engine


@dataclass(frozen=True, slots=True)
class Entry:
    login: str
    token: str  # signs in once
    password: str | None  # None where the last demonstration made one


async def make_entry(engine: Engine) -> Entry:
    users = Users(engine.database, engine.clock, FailedSignIns(engine.database, engine.clock))
    password = None
    if not await users.has_any():
        password = "-".join(secrets.token_hex(2) for _ in range(3))
        await users.create(FIRST_LOGIN, password, Role.ADMIN, actor="demo")
    sessions = Sessions(engine.database, engine.clock)
    token = await sessions.open(await users.find(FIRST_LOGIN), address="console", agent="demo", lasts=LINK_SESSION_AGE)
    return Entry(FIRST_LOGIN, token, password)
