"""The faults in short, for every run of the suite; `make faults` does the same for half an hour."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.conftest import DatabaseAddress
from tests.engines import Valkey, postgresql, sqlite_template, valkey_server
from tests.faults import disks, drains, freezes, http_answers, http_phases, kills, outages, phases, poison, same_key
from tests.faults.figures import Figures
from tests.faults.stage import Stage, a_stage
from tests.standins.smtp_sink import Step


@pytest.fixture
async def stage(engine: DatabaseAddress) -> AsyncIterator[Stage]:
    async with a_stage(engine.url) as stage:
        yield stage


@pytest.fixture
async def file_stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """On SQLite alone: for faults of a file, and for what no engine has a say in."""
    file = tmp_path / "mailwright.db"
    file.write_bytes(sqlite_template())
    async with a_stage(f"sqlite:///{file}") as stage:
        yield stage


@pytest.fixture
def own_valkey() -> Iterator[Valkey]:
    with valkey_server() as server:
        yield server


def every_bar_is_reached(figures: Figures) -> None:
    assert figures.misses == []


@pytest.mark.promise("never-lost")
@pytest.mark.promise("never-doubled")
async def test_killed_workers_lose_nothing_and_double_nothing_unsaid(stage: Stage) -> None:
    every_bar_is_reached(await kills.run(stage, kills=2, messages=200, audit_by_command=False))


@pytest.mark.promise("never-lost")
@pytest.mark.promise("never-doubled")
async def test_a_worker_killed_after_the_last_byte_leaves_a_doubt_and_the_source_decides(file_stage: Stage) -> None:
    every_bar_is_reached(await phases.kills(file_stage, steps=[Step.DOT]))


@pytest.mark.promise("provider-phase")
async def test_a_connection_cut_after_the_last_byte_is_a_doubt_for_the_living_worker_too(file_stage: Stage) -> None:
    every_bar_is_reached(await phases.cuts(file_stage, steps=[Step.DOT]))


@pytest.mark.promise("never-lost")
@pytest.mark.promise("never-doubled")
async def test_a_worker_killed_after_the_last_byte_of_a_request_leaves_a_doubt_that_waits_for_a_report(
    stage: Stage,
) -> None:
    every_bar_is_reached(await http_phases.kills(stage, carriers=["ses"], moments=[http_phases.AFTER_THE_BODY]))


@pytest.mark.promise("never-doubled")
async def test_a_worker_killed_amid_the_answer_leaves_a_doubt_whoever_carries_the_mail(file_stage: Stage) -> None:
    every_bar_is_reached(
        await http_phases.kills(file_stage, carriers=["sendgrid"], moments=[http_phases.IN_THE_ANSWER])
    )


@pytest.mark.parametrize("carrier", ["ses", "sendgrid"])
async def test_whatever_a_provider_answers_to_one_mail_the_others_do_not_notice(
    file_stage: Stage, carrier: str
) -> None:
    some = {"statuses": http_answers.SOME_STATUSES, "large_answers": 3}
    every_bar_is_reached(await http_answers.run(file_stage, carriers=[carrier], **some))


@pytest.mark.promise("claim-take-over")
async def test_what_a_killed_worker_had_only_claimed_is_simply_free_again(stage: Stage) -> None:
    every_bar_is_reached(await phases.claimed_only(stage, messages=120))


@pytest.mark.promise("drain-graceful")
async def test_a_worker_told_to_stop_finishes_and_leaves_nothing_behind(stage: Stage) -> None:
    every_bar_is_reached(await drains.run(stage, stops=2))


@pytest.mark.promise("claim-fenced")
async def test_a_worker_that_stood_still_past_its_locks_sends_nothing_twice(stage: Stage) -> None:
    every_bar_is_reached(await freezes.run(stage, freezes=1, messages=150))


@pytest.mark.promise("poison-isolated")
async def test_a_mail_that_kills_its_worker_is_put_aside_after_five_claims(file_stage: Stage) -> None:
    file_stage.settings = {"MAILWRIGHT_LOCK_TTL_SECONDS": "1"}
    every_bar_is_reached(await poison.before_the_mark(file_stage, innocents=60, workers=1))


@pytest.mark.promise("poison-isolated")
async def test_a_mail_that_kills_while_it_is_sent_takes_no_other_with_it(file_stage: Stage) -> None:
    every_bar_is_reached(await poison.after_the_mark(file_stage, innocents=80))


@pytest.mark.promise("accept-idempotent")
async def test_one_key_from_many_clients_at_once_is_one_message(stage: Stage) -> None:
    every_bar_is_reached(await same_key.run(stage, keys=10, clients=20))


@pytest.mark.promise("never-lost")
async def test_a_lost_postgresql_is_a_503_and_never_a_202_that_is_not_stored() -> None:
    with postgresql() as server:  # one of its own: the others' must not stop
        async with a_stage(await server.create()) as stage:
            every_bar_is_reached(await outages.run(stage, server, outages=2))


@pytest.mark.promise("limits-never-exceeded")
async def test_a_valkey_in_trouble_never_lets_a_limit_be_exceeded(file_stage: Stage, own_valkey: Valkey) -> None:
    every_bar_is_reached(await outages.without_valkey(file_stage, own_valkey, limit=60))


async def test_a_locked_database_is_a_503_and_goes_on_by_itself(file_stage: Stage) -> None:
    every_bar_is_reached(await disks.locked(file_stage, seconds=0))


async def test_a_full_disk_is_a_503_and_goes_on_by_itself(file_stage: Stage) -> None:
    every_bar_is_reached(await disks.full(file_stage))
