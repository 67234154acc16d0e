"""The demo administrator and a one-time sign-in link."""

import secrets

from mailwright.access.roles import Role
from mailwright.access.sessions import Sessions
from mailwright.access.users import FIRST_LOGIN
from mailwright.app.wiring import Engine
from mailwright.domain.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class DemoSignIn:
    login: str
    token: str  # valid once
    password: str | None  # None if the previous demo created the user


async def make_sign_in(engine: Engine) -> DemoSignIn:
    users = engine.users
    password = None
    if not await users.has_any():
        password = "-".join(secrets.token_hex(2) for _ in range(3))
        await users.create(FIRST_LOGIN, password, Role.ADMIN, actor="demo")
    sessions = Sessions(engine.database, engine.clock)
    token = await sessions.open_link(await users.find(FIRST_LOGIN), agent="demo")
    return DemoSignIn(FIRST_LOGIN, token, password)
