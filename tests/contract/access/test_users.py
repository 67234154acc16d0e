"""Users, second factors and sessions, on both engines."""

import asyncio
from pathlib import Path

import pyotp
import pytest
from argon2 import PasswordHasher
from sqlalchemy import select, update

from mailwright.access import second_factor
from mailwright.access.failed_sign_ins import ADDRESS_POLICY, FailedSignIns, TooManyFailedSignIns
from mailwright.access.initial_setup import InitialSetup, SetupLinkInvalid
from mailwright.access.passwords import Passwords, password_hasher
from mailwright.access.roles import Role
from mailwright.access.second_factors import SecondFactors
from mailwright.access.sessions import IDLE_TIMEOUT, MAX_SESSION_AGE, Sessions
from mailwright.access.users import FIRST_LOGIN, User, UserExists, Users
from mailwright.domain.clock import MINUTE, ManualClock
from mailwright.domain.errors import InvalidInput, NotDurable, NotFound, NotPossibleNow
from mailwright.outbox.audit_log import list_entries
from mailwright.storage.database import Database
from mailwright.storage.tables import sessions as session_rows
from mailwright.storage.tables import users as user_rows
from tests.builders import a_tenant, account_notices, user_store

HERE = "192.0.2.1"
RIGHT = "correct horse battery"
OTHER = "another pile of words"


@pytest.fixture
def users(database: Database, clock: ManualClock) -> Users:
    return user_store(database, clock)


@pytest.fixture
def sessions(database: Database, clock: ManualClock) -> Sessions:
    return Sessions(database, clock)


@pytest.fixture
def factors(database: Database, clock: ManualClock) -> SecondFactors:
    return SecondFactors(database, clock, FailedSignIns(database, clock), account_notices(database, clock))


@pytest.fixture
def production_hashing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mailwright.access.passwords.password_hasher", password_hasher)


@pytest.fixture
async def ada(users: Users) -> User:
    return await users.create("Ada", RIGHT, Role.ADMIN, actor="test")


async def enter(sessions: Sessions, user: User) -> str:
    return await sessions.open(user, address=HERE, agent="test")


# Passwords.


@pytest.mark.usefixtures("production_hashing")
async def test_a_password_is_stored_as_argon2id(users: Users, ada: User, database: Database) -> None:
    async with database.read() as tx:
        [row] = await tx.execute(select(user_rows))
    assert row.password_hash.startswith("$argon2id$v=19$m=7168,t=5,p=1$")
    assert RIGHT not in str(row)


async def test_addresses_of_the_last_test_email_are_remembered(users: Users, ada: User) -> None:
    assert await users.test_addresses(ada) == ""
    await users.remember_test_addresses(ada, "ada@example.com")
    assert await users.test_addresses(ada) == "ada@example.com"


async def test_only_an_enabled_user_with_correct_password_signs_in(users: Users, ada: User) -> None:
    assert (await users.sign_in(" ADA ", RIGHT, HERE)) == await users.find("ada")
    for login, password in (("ada", RIGHT + "x"), ("ada", ""), ("nobody", RIGHT), ("ada", "x" * 10_000)):
        assert await users.sign_in(login, password, HERE) is None


async def test_unknown_user_takes_as_long_as_known_user(monkeypatch: pytest.MonkeyPatch) -> None:
    passwords = Passwords()
    verify = PasswordHasher.verify
    verified: list[str] = []

    def count(hasher: PasswordHasher, hashed: str, password: str) -> bool:
        verified.append(hashed)
        return verify(hasher, hashed, password)

    monkeypatch.setattr(PasswordHasher, "verify", count)
    hashed = await passwords.hash(RIGHT)
    assert not await passwords.is_correct(RIGHT, None)
    assert len(verified) == 1  # A hash was compared although there is no user.
    assert await passwords.is_correct(RIGHT, hashed)


@pytest.mark.parametrize(
    ("login", "password"), [("a b", RIGHT), ("", RIGHT), ("ada", "short"), ("ada", "aaaaaaaaaaaa")]
)
async def test_unacceptable_login_or_password_names_its_field(users: Users, login: str, password: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await users.create(login, password, Role.VIEWER, actor="test")
    assert refused.value.field in {"login", "password"}
    assert await users.list_all() == []


async def test_login_is_unique(users: Users, ada: User) -> None:
    with pytest.raises(UserExists):
        await users.create("ADA", RIGHT, Role.VIEWER, actor="test")


async def test_admin_password_creates_only_the_first_administrator(database: Database, clock: ManualClock) -> None:
    users = Users(
        database, clock, FailedSignIns(database, clock), account_notices(database, clock), "set in the environment"
    )
    assert await users.sign_in(FIRST_LOGIN, "something else", HERE) is None
    assert not await users.has_any()
    first = await users.sign_in(FIRST_LOGIN, "set in the environment", HERE)
    assert first is not None
    assert first.role is Role.ADMIN
    # Afterwards, only the user's new password is accepted.
    await users.change_password(FIRST_LOGIN, OTHER, actor="test")
    assert await users.sign_in(FIRST_LOGIN, "set in the environment", HERE) is None


async def test_setup_link_creates_exactly_one_administrator(users: Users, database: Database) -> None:
    set_up = InitialSetup(database, users)
    old, new = await set_up.create_token(), await set_up.create_token()
    assert old is not None
    assert new is not None
    for token, password, error in (
        (old, RIGHT, SetupLinkInvalid),
        (new, "short", InvalidInput),
        ("", RIGHT, SetupLinkInvalid),
    ):
        with pytest.raises(error):
            await set_up.create_admin(token, "ada", password)
    assert (await set_up.create_admin(new, "ada", RIGHT)).role is Role.ADMIN
    with pytest.raises(SetupLinkInvalid):
        await set_up.create_admin(new, "eve", RIGHT)
    assert await set_up.create_token() is None


async def test_last_administrator_cannot_be_removed(users: Users, ada: User, database: Database) -> None:
    with pytest.raises(NotPossibleNow):
        await users.disable("ada", actor="test")
    with pytest.raises(NotPossibleNow):
        await users.change_role("ada", Role.EDITOR, actor="test")
    await users.create("grace", RIGHT, Role.ADMIN, actor="test")
    await users.disable("ada", actor="test")
    assert [user.login for user in await users.list_all() if user.disabled_at is None] == ["grace"]
    async with database.write() as tx:  # An identity provider created the only administrator.
        await tx.execute(update(user_rows).where(user_rows.c.login == "grace").values(password_hash=None))
    with pytest.raises(NotPossibleNow):
        await users.disable("grace", actor="test")
    with pytest.raises(NotPossibleNow):
        await users.change_role("grace", Role.VIEWER, actor="test")


@pytest.mark.parametrize("first", ["disable", "demote"])
@pytest.mark.parametrize("second", ["disable", "demote", "change"])
async def test_two_administrators_cannot_remove_each_other(users: Users, ada: User, first: str, second: str) -> None:
    await users.create("grace", RIGHT, Role.ADMIN, actor="test")

    async def remove(login: str, way: str) -> None:
        if way == "disable":
            await users.disable(login, actor="test")
        elif way == "demote":
            await users.change_role(login, Role.VIEWER, actor="test")
        else:
            await users.change(login, role=Role.EDITOR, email="new@example.com", actor="test")

    results = await asyncio.gather(remove("grace", first), remove("ada", second), return_exceptions=True)
    assert [type(each) for each in results if each is not None] == [NotPossibleNow]
    left = [user for user in await users.list_all() if user.role is Role.ADMIN and user.disabled_at is None]
    assert len(left) == 1


async def test_several_changes_of_a_user_are_stored_together(users: Users, ada: User) -> None:
    with pytest.raises(NotPossibleNow):
        await users.change("ada", role=Role.EDITOR, email="new@example.com", password=OTHER, actor="test")
    with pytest.raises(InvalidInput):
        await users.change("ada", email="new@example.com", password="short", actor="test")
    assert (await users.find("ada")).email is None
    assert await users.sign_in("ada", RIGHT, HERE) is not None
    await users.change("ada", role=Role.ADMIN, email="New@Example.com", password=OTHER, actor="test")
    assert (await users.find("ada")).email == "new@example.com"
    assert await users.sign_in("ada", OTHER, HERE) is not None
    await users.change("ada", email="", actor="test")
    assert (await users.find("ada")).email is None


@pytest.mark.promise("session-revoked")
@pytest.mark.parametrize("change", ["password", "second factor"])
async def test_password_changed_during_sign_in_refuses_the_session(
    users: Users, factors: SecondFactors, sessions: Sessions, ada: User, clock: ManualClock, change: str
) -> None:
    proved = await users.sign_in("ada", RIGHT, HERE)
    assert proved is not None
    clock.advance(1)
    if change == "password":
        await users.change_password("ada", OTHER, actor="ada")
    else:
        secret = await factors.begin(ada)
        assert await factors.confirm(ada, pyotp.TOTP(secret).at(clock.now() // 1_000))
    with pytest.raises(NotPossibleNow):
        await enter(sessions, proved)
    assert await enter(sessions, await users.find("ada"))


async def test_changes_of_a_user_are_in_the_audit_log(users: Users, ada: User, database: Database) -> None:
    await users.create("grace", RIGHT, Role.EDITOR, actor="ada")
    await users.change_role("grace", Role.VIEWER, actor="ada")
    await users.change_password("grace", OTHER, actor="ada")
    await users.disable("grace", actor="ada")
    await users.enable("grace", actor="ada")
    result = [entry for entry in await list_entries(database, tenant_id=None, limit=10) if entry.subject == "grace"]
    assert [entry.action for entry in result][::-1] == [
        "user_create",
        "user_role",
        "user_password",
        "user_disable",
        "user_enable",
    ]
    assert {entry.actor for entry in result} == {"ada"}
    assert OTHER not in str(result)


# Sessions.


async def test_session_is_stored_as_a_digest(ada: User, sessions: Sessions, database: Database) -> None:
    token = await enter(sessions, ada)
    async with database.read() as tx:
        assert token not in str(await tx.execute(select(session_rows)))
    result = await sessions.find(token)
    assert result is not None
    assert (result.user.login, result.tenant, result.awaits_code) == ("ada", "default", False)
    for wrong in (None, "", token[:-1], token + "x", "x" * 10_000):
        assert await sessions.find(wrong) is None


async def test_session_ends_when_idle_or_after_a_week(ada: User, sessions: Sessions, clock: ManualClock) -> None:
    idle, busy = await enter(sessions, ada), await enter(sessions, ada)
    began = clock.now()
    while clock.now() + IDLE_TIMEOUT // 2 < began + MAX_SESSION_AGE:
        clock.advance(IDLE_TIMEOUT // 2)
        assert await sessions.find(busy) is not None
    assert await sessions.find(idle) is None
    clock.advance(IDLE_TIMEOUT // 2)
    assert await sessions.find(busy) is None


async def test_listening_does_not_extend_a_session(ada: User, sessions: Sessions, clock: ManualClock) -> None:
    token = await enter(sessions, ada)
    for _ in range(3):
        clock.advance(IDLE_TIMEOUT // 3)
        await sessions.find(token, is_seen=False)
    assert await sessions.find(token) is None


@pytest.mark.promise("session-revoked")
async def test_new_password_ends_every_other_session(users: Users, ada: User, sessions: Sessions) -> None:
    mine, elsewhere = await enter(sessions, ada), await enter(sessions, ada)
    stored = await sessions.find(mine)
    assert stored is not None
    await users.change_password("ada", OTHER, actor="ada", keep_session=stored.digest)
    assert await sessions.find(mine) is not None
    assert await sessions.find(elsewhere) is None


@pytest.mark.promise("session-revoked")
async def test_disabling_a_user_ends_their_sessions(users: Users, ada: User, sessions: Sessions) -> None:
    grace = await users.create("grace", RIGHT, Role.EDITOR, actor="ada")
    token = await enter(sessions, grace)
    await users.disable("grace", actor="ada")
    assert await sessions.find(token) is None
    assert await users.sign_in("grace", RIGHT, HERE) is None


@pytest.mark.promise("session-revoked")
async def test_users_can_end_only_their_own_sessions(users: Users, ada: User, sessions: Sessions) -> None:
    grace = await users.create("grace", RIGHT, Role.EDITOR, actor="ada")
    theirs = await sessions.find(await enter(sessions, grace))
    token, other = await enter(sessions, ada), await enter(sessions, ada)
    mine = await sessions.find(token)
    assert mine is not None
    assert theirs is not None
    await sessions.end(mine, theirs.id)
    listed = await sessions.list_for_user(mine.user, mine)
    assert [each.is_this_one for each in listed].count(True) == 1
    await sessions.end(mine, next(each.id for each in listed if not each.is_this_one))
    assert await sessions.find(other) is None
    assert await sessions.list_for_user(theirs.user)


@pytest.mark.promise("tenant-isolation")
async def test_tenant_user_cannot_switch_tenant(
    users: Users, ada: User, sessions: Sessions, database: Database
) -> None:
    home = await a_tenant(database, "bakery")
    baker = await users.create("baker", RIGHT, Role.ADMIN, tenant_id=home, actor="ada")
    theirs = await sessions.find(await enter(sessions, baker))
    assert theirs is not None
    assert theirs.tenant_id == home
    with pytest.raises(NotFound):
        await sessions.switch_tenant(theirs, "default")
    token = await enter(sessions, ada)
    mine = await sessions.find(token)
    assert mine is not None
    await sessions.switch_tenant(mine, "bakery")
    moved = await sessions.find(token)
    assert moved is not None
    assert moved.tenant == "bakery"


# The second factor.


async def enrol(factors: SecondFactors, user: User, clock: ManualClock) -> tuple[pyotp.TOTP, list[str]]:
    generator = pyotp.TOTP(await factors.begin(user))
    codes = await factors.confirm(user, generator.at(clock.now() // 1000))
    assert codes is not None
    return generator, codes


@pytest.mark.promise("second-factor")
async def test_password_alone_does_not_pass_a_second_factor(
    users: Users, factors: SecondFactors, ada: User, sessions: Sessions, clock: ManualClock
) -> None:
    before = await enter(sessions, ada)
    await enrol(factors, ada, clock)
    assert await sessions.find(before) is None
    user = await users.sign_in("ada", RIGHT, HERE)
    assert user is not None
    token = await enter(sessions, user)
    half = await sessions.find(token)
    assert half is not None
    assert half.awaits_code
    clock.advance(10 * MINUTE)
    assert await sessions.find(token) is None


@pytest.mark.promise("second-factor")
async def test_code_is_accepted_once(factors: SecondFactors, ada: User, clock: ManualClock) -> None:
    generator, _ = await enrol(factors, ada, clock)
    assert not await factors.verify(
        ada, generator.at(clock.now() // 1000), HERE
    )  # This code confirmed the second factor.
    clock.advance(MINUTE)
    code = generator.at(clock.now() // 1000)
    assert not await factors.verify(ada, "000000" if code != "000000" else "111111", HERE)
    assert await factors.verify(ada, f"{code[:3]} {code[3:]}", HERE)
    assert not await factors.verify(ada, code, HERE)


@pytest.mark.promise("second-factor")
async def test_recovery_code_is_accepted_once(factors: SecondFactors, ada: User, clock: ManualClock) -> None:
    _, codes = await enrol(factors, ada, clock)
    assert len(set(codes)) == second_factor.RECOVERY_CODES
    assert await factors.verify(ada, codes[0].upper().replace("-", " "), HERE)
    assert not await factors.verify(ada, codes[0], HERE)
    assert await factors.verify(ada, codes[1], HERE)


@pytest.mark.promise("second-factor")
async def test_wrong_code_does_not_confirm_second_factor(
    users: Users, factors: SecondFactors, ada: User, clock: ManualClock
) -> None:
    secret = await factors.begin(ada)
    assert await factors.confirm(ada, "abcdef") is None
    assert await factors.pending_secret(ada) == secret
    assert not (await users.find("ada")).has_second_factor


@pytest.mark.promise("second-factor")
async def test_wrong_codes_are_limited_like_passwords(factors: SecondFactors, ada: User, clock: ManualClock) -> None:
    await enrol(factors, ada, clock)
    for _ in range(ADDRESS_POLICY.free_failures):
        assert not await factors.verify(ada, "abcdef", HERE)
    with pytest.raises(TooManyFailedSignIns):
        await factors.verify(ada, "abcdef", HERE)


@pytest.mark.usefixtures("production_hashing")
async def test_password_hash_uses_the_documented_parameters() -> None:
    hashed = await Passwords().hash(RIGHT)
    assert hashed.startswith("$argon2id$v=19$m=7168,t=5,p=1$")
    record = Path(__file__).parents[3] / "docs/decisions/0021-access.md"
    assert "argon2id, 7 MiB and five passes" in record.read_text(encoding="utf-8")


async def test_session_is_found_while_nothing_can_be_stored(
    sessions: Sessions, database: Database, clock: ManualClock, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages then say why. Only the time of the visit is not recorded."""
    token = await enter(sessions, ada)
    clock.advance(5 * MINUTE)

    def refuse() -> None:
        raise NotDurable

    monkeypatch.setattr(database, "write", refuse)
    found = await sessions.find(token)
    assert found is not None
    assert found.user.login == ada.login
