"""Wrong passwords, on both engines: counted by account and by address, in every process, and answered with a wait."""

import asyncio

import pytest
from fastapi import FastAPI
from sqlalchemy import select

from mailwright.access.failed_sign_ins import (
    ACCOUNT_POLICY,
    ADDRESS_POLICY,
    FailedSignIns,
    TooManyFailedSignIns,
    account_key,
    address_key,
)
from mailwright.domain.clock import ManualClock
from mailwright.storage.database import Database
from mailwright.storage.tables import failed_sign_ins
from mailwright.web.api.administrator import AdministratorDep
from mailwright.web.app import create_app
from tests.api import an_engine, client_of

RIGHT = "correct horse battery staple"


async def guess(at: FailedSignIns, *, is_right: bool, host: str = "192.0.2.1", name: str = "ada") -> bool:
    async def verify() -> bool | None:
        return True if is_right else None

    return await at.check([account_key(name), address_key(host)], verify) is True


@pytest.mark.promise("guesses-counted")
async def test_an_address_that_guesses_is_shut_out_ever_longer(database: Database, clock: ManualClock) -> None:
    at = FailedSignIns(database, clock)
    for number in range(ADDRESS_POLICY.free):
        assert not await guess(at, is_right=False, name=f"user{number}")
    waits = []
    for _ in range(3):
        with pytest.raises(TooManyFailedSignIns) as refused:
            await guess(at, is_right=True)
        waits.append(refused.value.retry_after_seconds)
        clock.advance(refused.value.retry_after_seconds * 1000)
        assert not await guess(at, is_right=False)
    assert waits == [30, 60, 120]


@pytest.mark.promise("guesses-counted")
async def test_guesses_at_one_account_from_everywhere_are_counted_together(
    database: Database, clock: ManualClock
) -> None:
    at = FailedSignIns(database, clock)
    for number in range(ACCOUNT_POLICY.free):
        assert not await guess(at, is_right=False, host=f"192.0.2.{number}")
    with pytest.raises(TooManyFailedSignIns):
        await guess(at, is_right=True, host="198.51.100.1")
    assert await guess(at, is_right=True, host="198.51.100.1", name="grace")
    # Its owner is kept out for a short while only.
    clock.advance(ACCOUNT_POLICY.longest)
    assert await guess(at, is_right=True, host="198.51.100.1")


@pytest.mark.promise("guesses-counted")
async def test_another_process_is_no_second_chance(database: Database, clock: ManualClock) -> None:
    for _ in range(ADDRESS_POLICY.free):
        await guess(FailedSignIns(database, clock), is_right=False)
    with pytest.raises(TooManyFailedSignIns):
        await guess(FailedSignIns(database, clock), is_right=True)


@pytest.mark.promise("guesses-counted")
async def test_guesses_that_come_all_at_once_are_judged_one_by_one(database: Database, clock: ManualClock) -> None:
    at = FailedSignIns(database, clock)
    wrong = [guess(at, is_right=False) for _ in range(ADDRESS_POLICY.free + 5)]
    results = await asyncio.gather(*wrong, guess(at, is_right=True), return_exceptions=True)
    assert sum(isinstance(each, TooManyFailedSignIns) for each in results) == 6
    assert True not in results


@pytest.mark.promise("guesses-counted")
async def test_an_account_of_ones_own_does_not_clear_the_address(database: Database, clock: ManualClock) -> None:
    at = FailedSignIns(database, clock)
    for _ in range(ADDRESS_POLICY.free):
        await guess(at, is_right=False, name="victim")
        if _ < ADDRESS_POLICY.free - 1:
            assert await guess(at, is_right=True, name="mallory")
    with pytest.raises(TooManyFailedSignIns):
        await guess(at, is_right=True, name="mallory")


async def test_a_right_guess_clears_the_account_and_time_clears_all(database: Database, clock: ManualClock) -> None:
    at = FailedSignIns(database, clock)
    await guess(at, is_right=False)
    assert await guess(at, is_right=True)
    async with database.read() as tx:
        assert [row.subject for row in await tx.execute(select(failed_sign_ins))] == ["address:192.0.2.1"]
    clock.advance(ACCOUNT_POLICY.forgotten_after + 1)
    await at.delete_expired()
    async with database.read() as tx:
        assert not await tx.execute(select(failed_sign_ins))


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("192.0.2.7", "address:192.0.2.7"),
        ("::ffff:192.0.2.7", "address:192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "address:2001:db8:1:2::/64"),
        (None, "address:unknown"),
    ],
)
def test_a_household_is_one_address(host: str | None, name: str) -> None:
    assert address_key(host).name == name


def an_app(database: Database, clock: ManualClock, password: str | None) -> FastAPI:
    app = create_app(an_engine(database, clock, admin_password=password))

    @app.post("/only-administrators")
    async def only(administrator: AdministratorDep) -> str:
        return administrator.actor

    return app


async def test_the_administrators_password_opens_and_nothing_else_does(database: Database, clock: ManualClock) -> None:
    async with client_of(an_app(database, clock, RIGHT)) as client:
        answers = [
            await client.post("/only-administrators", headers={"Authorization": shown.encode()})
            for shown in (f"Bearer {RIGHT}", "", "Bearer", f"Bearer {RIGHT}x", f"Basic {RIGHT}", "Bearer ключ", RIGHT)
        ]
    assert [answer.status_code for answer in answers] == [200, *[401] * 6]
    assert answers[0].json() == "ADMIN_PASSWORD"
    assert {answer.json()["code"] for answer in answers[1:]} == {"UNAUTHORIZED"}


async def test_a_password_is_its_bytes(database: Database, clock: ManualClock) -> None:
    async with client_of(an_app(database, clock, "пароль")) as client:
        answer = await client.post("/only-administrators", headers={b"Authorization": "Bearer пароль".encode()})
    assert answer.status_code == 200


async def test_without_a_password_set_nothing_opens(database: Database, clock: ManualClock) -> None:
    async with client_of(an_app(database, clock, None)) as client:
        answers = [
            await client.post("/only-administrators", headers={"Authorization": f"Bearer {shown}"})
            for shown in ("None", "x")
        ]
    assert [answer.status_code for answer in answers] == [401, 401]


@pytest.mark.promise("guesses-counted")
async def test_too_many_wrong_passwords_are_429_with_a_time(database: Database, clock: ManualClock) -> None:
    async with client_of(an_app(database, clock, RIGHT), "wrong") as client:
        answers = [await client.post("/only-administrators") for _ in range(ADDRESS_POLICY.free + 1)]
    assert [answer.status_code for answer in answers] == [*[401] * ADDRESS_POLICY.free, 429]
    assert answers[-1].json()["code"] == "TOO_MANY_GUESSES"
    assert answers[-1].headers["Retry-After"] == "30"
