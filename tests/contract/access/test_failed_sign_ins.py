"""Failed sign-ins, on both engines: counted per account and per address across processes, and answered with a wait."""

import asyncio

import pytest
from fastapi import FastAPI
from sqlalchemy import select

from mailwright.access.failed_sign_ins import (
    ACCOUNT_POLICY,
    ADDRESS_POLICY,
    KNOWN_FOR,
    MAX_KNOWN_NETWORKS,
    FailedSignIns,
    TooManyFailedSignIns,
    address_key,
)
from mailwright.domain.clock import ManualClock
from mailwright.storage.database import Database
from mailwright.storage.tables import failed_sign_ins, known_networks
from mailwright.web.api.administrator import AdministratorDep
from mailwright.web.app import create_app
from tests.api import an_engine, client_of

RIGHT = "correct horse battery staple"


async def sign_in(failures: FailedSignIns, *, is_correct: bool, host: str = "192.0.2.1", name: str = "ada") -> bool:
    async def verify() -> bool | None:
        return True if is_correct else None

    return await failures.check(name, host, verify) is True


@pytest.mark.promise("session-revoked")
async def test_address_is_blocked_longer_after_each_failure(database: Database, clock: ManualClock) -> None:
    failures = FailedSignIns(database, clock)
    for number in range(ADDRESS_POLICY.free_failures):
        assert not await sign_in(failures, is_correct=False, name=f"user{number}")
    waits = []
    for _ in range(3):
        with pytest.raises(TooManyFailedSignIns) as refused:
            await sign_in(failures, is_correct=True)
        waits.append(refused.value.retry_after_seconds)
        clock.advance(refused.value.retry_after_seconds * 1000)
        assert not await sign_in(failures, is_correct=False)
    assert waits == [30, 60, 120]


@pytest.mark.promise("session-revoked")
async def test_failures_at_one_account_count_across_addresses(database: Database, clock: ManualClock) -> None:
    failures = FailedSignIns(database, clock)
    for number in range(ACCOUNT_POLICY.free_failures):
        assert not await sign_in(failures, is_correct=False, host=f"192.0.2.{number}")
    with pytest.raises(TooManyFailedSignIns):
        await sign_in(failures, is_correct=True, host="198.51.100.1")
    assert await sign_in(failures, is_correct=True, host="198.51.100.1", name="grace")
    # The owner is locked out for a short time only.
    clock.advance(ACCOUNT_POLICY.longest_block)
    assert await sign_in(failures, is_correct=True, host="198.51.100.1")


@pytest.mark.promise("session-revoked")
async def test_known_network_enters_while_others_guess(database: Database, clock: ManualClock) -> None:
    failures = FailedSignIns(database, clock)
    assert await sign_in(failures, is_correct=True, host="198.51.100.1")
    guesses = 0
    for number in range(70):
        try:
            await sign_in(failures, is_correct=False, host=f"192.0.2.{number % 10}")
            guesses += 1
        except TooManyFailedSignIns:
            pass
    # All unknown networks share one count, so the guesses stay limited.
    assert guesses == ACCOUNT_POLICY.free_failures
    with pytest.raises(TooManyFailedSignIns):
        await sign_in(failures, is_correct=True, host="203.0.113.1")
    assert await sign_in(failures, is_correct=True, host="198.51.100.1")
    # The owner's success does not give the attacker new guesses.
    with pytest.raises(TooManyFailedSignIns):
        await sign_in(failures, is_correct=False, host="192.0.2.1")


@pytest.mark.promise("session-revoked")
async def test_guesses_from_a_known_network_are_limited(database: Database, clock: ManualClock) -> None:
    failures = FailedSignIns(database, clock)
    assert await sign_in(failures, is_correct=True)
    for _ in range(ADDRESS_POLICY.free_failures):
        assert not await sign_in(failures, is_correct=False)
    with pytest.raises(TooManyFailedSignIns):
        await sign_in(failures, is_correct=True)


async def test_network_is_forgotten_and_their_number_is_limited(database: Database, clock: ManualClock) -> None:
    failures = FailedSignIns(database, clock)
    for number in range(MAX_KNOWN_NETWORKS + 5):
        clock.advance(1)
        assert await sign_in(failures, is_correct=True, host=f"198.51.100.{number}")
    async with database.read() as tx:
        known = {row.network for row in await tx.execute(select(known_networks))}
    assert known == {f"198.51.100.{number}" for number in range(5, MAX_KNOWN_NETWORKS + 5)}
    clock.advance(KNOWN_FOR)
    for number in range(ACCOUNT_POLICY.free_failures):
        assert not await sign_in(failures, is_correct=False, host=f"192.0.2.{number}")
    with pytest.raises(TooManyFailedSignIns):
        await sign_in(failures, is_correct=True, host="198.51.100.10")


@pytest.mark.promise("session-revoked")
async def test_block_holds_in_another_process(database: Database, clock: ManualClock) -> None:
    for _ in range(ADDRESS_POLICY.free_failures):
        await sign_in(FailedSignIns(database, clock), is_correct=False)
    with pytest.raises(TooManyFailedSignIns):
        await sign_in(FailedSignIns(database, clock), is_correct=True)


@pytest.mark.promise("session-revoked")
async def test_parallel_sign_ins_are_verified_one_by_one(database: Database, clock: ManualClock) -> None:
    failures = FailedSignIns(database, clock)
    wrong = [sign_in(failures, is_correct=False) for _ in range(ADDRESS_POLICY.free_failures + 5)]
    results = await asyncio.gather(*wrong, return_exceptions=True)
    assert results.count(False) == ADDRESS_POLICY.free_failures
    assert sum(isinstance(each, TooManyFailedSignIns) for each in results) == 5
    with pytest.raises(TooManyFailedSignIns):
        await sign_in(failures, is_correct=True)


@pytest.mark.promise("session-revoked")
async def test_success_with_own_account_keeps_address_failures(database: Database, clock: ManualClock) -> None:
    failures = FailedSignIns(database, clock)
    for _ in range(ADDRESS_POLICY.free_failures):
        await sign_in(failures, is_correct=False, name="victim")
        if _ < ADDRESS_POLICY.free_failures - 1:
            assert await sign_in(failures, is_correct=True, name="mallory")
    with pytest.raises(TooManyFailedSignIns):
        await sign_in(failures, is_correct=True, name="mallory")


async def test_success_clears_account_and_time_clears_all(database: Database, clock: ManualClock) -> None:
    failures = FailedSignIns(database, clock)
    await sign_in(failures, is_correct=False)
    assert await sign_in(failures, is_correct=True)
    async with database.read() as tx:
        assert [row.subject for row in await tx.execute(select(failed_sign_ins))] == ["address:192.0.2.1"]
    clock.advance(ACCOUNT_POLICY.forgotten_after + 1)
    await failures.delete_expired()
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
def test_ipv6_addresses_are_counted_per_network(host: str | None, name: str) -> None:
    assert address_key(host).name == name


def an_app(database: Database, clock: ManualClock, password: str | None) -> FastAPI:
    app = create_app(an_engine(database, clock, admin_password=password))

    @app.post("/only-administrators")
    async def only(administrator: AdministratorDep) -> str:
        return administrator.actor

    return app


async def test_only_the_admin_password_is_accepted(database: Database, clock: ManualClock) -> None:
    async with client_of(an_app(database, clock, RIGHT)) as client:
        responses = [
            await client.post("/only-administrators", headers={"Authorization": credentials.encode()})
            for credentials in (
                f"Bearer {RIGHT}",
                "",
                "Bearer",
                f"Bearer {RIGHT}x",
                f"Basic {RIGHT}",
                "Bearer ключ",
                RIGHT,
            )
        ]
    assert [response.status_code for response in responses] == [200, *[401] * 6]
    assert responses[0].json() == "ADMIN_PASSWORD"
    assert {response.json()["code"] for response in responses[1:]} == {"UNAUTHORIZED"}


async def test_non_ascii_admin_password_is_accepted(database: Database, clock: ManualClock) -> None:
    async with client_of(an_app(database, clock, "пароль")) as client:
        response = await client.post("/only-administrators", headers={b"Authorization": "Bearer пароль".encode()})
    assert response.status_code == 200


async def test_without_admin_password_every_request_is_refused(database: Database, clock: ManualClock) -> None:
    async with client_of(an_app(database, clock, None)) as client:
        responses = [
            await client.post("/only-administrators", headers={"Authorization": f"Bearer {credentials}"})
            for credentials in ("None", "x")
        ]
    assert [response.status_code for response in responses] == [401, 401]


async def test_api_key_at_an_administrator_route_is_no_guess(database: Database, clock: ManualClock) -> None:
    app = an_app(database, clock, RIGHT)
    key = await app.state.engine.keys.create(1)
    for wrong in (key, "mw_" + "x" * 43):
        async with client_of(app, wrong) as client:
            responses = [await client.post("/only-administrators") for _ in range(ADDRESS_POLICY.free_failures + 1)]
        assert {response.status_code for response in responses} == {401}
    async with client_of(app, RIGHT) as client:
        assert (await client.post("/only-administrators")).status_code == 200


@pytest.mark.promise("session-revoked")
async def test_too_many_wrong_passwords_return_429_with_retry_after(database: Database, clock: ManualClock) -> None:
    async with client_of(an_app(database, clock, RIGHT), "wrong") as client:
        responses = [await client.post("/only-administrators") for _ in range(ADDRESS_POLICY.free_failures + 1)]
    assert [response.status_code for response in responses] == [*[401] * ADDRESS_POLICY.free_failures, 429]
    assert responses[-1].json()["code"] == "TOO_MANY_GUESSES"
    assert responses[-1].headers["Retry-After"] == "30"
