"""Short fault runs; `make faults` does the same for half an hour."""

import math
from collections.abc import Iterator

import pytest

from tests.engines import Valkey, postgresql, valkey_server
from tests.faults import (
    bursts,
    clicks,
    copies,
    disks,
    drains,
    erasures,
    freezes,
    hourly_limits,
    http_answers,
    http_phases,
    kills,
    outages,
    partitions,
    phases,
    poison,
    provider_changes,
    same_key,
)
from tests.faults.figures import Figures
from tests.faults.stage import Stage, a_stage
from tests.standins.smtp_sink import Step


@pytest.fixture
def own_valkey() -> Iterator[Valkey]:
    with valkey_server() as server:
        yield server


def every_bar_is_reached(figures: Figures) -> None:
    assert figures.misses == []


@pytest.mark.promise("never-lost")
@pytest.mark.promise("never-doubled")
async def test_killed_workers_lose_nothing_and_report_duplicates(stage: Stage) -> None:
    every_bar_is_reached(await kills.run(stage, kills=2, messages=200, audit_by_command=False))


@pytest.mark.promise("erasure-at-once")
async def test_erased_people_get_nothing_while_workers_are_killed(stage: Stage) -> None:
    every_bar_is_reached(await erasures.run(stage, kills=2, people=16))


@pytest.mark.promise("limits-never-exceeded")
async def test_killed_workers_use_an_hourly_limit_in_full(stage: Stage) -> None:
    every_bar_is_reached(await hourly_limits.run(stage, kills=2, limit=120))


@pytest.mark.promise("never-lost")
@pytest.mark.promise("never-doubled")
@pytest.mark.promise("settings-all-errors")
async def test_workers_killed_during_a_provider_change_lose_nothing(stage: Stage) -> None:
    every_bar_is_reached(await provider_changes.run(stage, kills=2, messages=120))


@pytest.mark.promise("never-lost")
@pytest.mark.promise("never-doubled")
async def test_worker_killed_after_the_last_byte_leaves_a_doubt(file_stage: Stage) -> None:
    every_bar_is_reached(await phases.kills(file_stage, steps=[Step.DOT]))


@pytest.mark.promise("restore-held")
async def test_copy_without_its_marker_sends_nothing_twice(stage: Stage) -> None:
    every_bar_is_reached(await copies.run(stage, messages=50))


@pytest.mark.promise("tracking-nothing-lost")
async def test_killed_server_loses_no_answered_click(stage: Stage) -> None:
    every_bar_is_reached(await clicks.run(stage, kills=1, clicks=100))


async def test_bursts_through_killed_servers_are_machines(stage: Stage) -> None:
    every_bar_is_reached(await bursts.run(stage, kills=1, emails=40))


@pytest.mark.promise("provider-phase")
async def test_disconnect_after_the_last_byte_is_in_doubt(file_stage: Stage) -> None:
    every_bar_is_reached(await phases.cuts(file_stage, steps=[Step.DOT]))


@pytest.mark.promise("never-lost")
@pytest.mark.promise("never-doubled")
async def test_worker_killed_after_an_http_request_waits_for_a_report(
    stage: Stage,
) -> None:
    every_bar_is_reached(await http_phases.kills(stage, carriers=["ses"], moments=[http_phases.AFTER_THE_BODY]))


@pytest.mark.promise("never-doubled")
async def test_worker_killed_during_the_response_leaves_a_doubt(file_stage: Stage) -> None:
    every_bar_is_reached(
        await http_phases.kills(file_stage, carriers=["sendgrid"], moments=[http_phases.IN_THE_ANSWER])
    )


@pytest.mark.parametrize("carrier", ["ses", "sendgrid"])
async def test_response_to_one_message_does_not_affect_others(file_stage: Stage, carrier: str) -> None:
    some = {"statuses": http_answers.SOME_STATUSES, "large_answers": 3}
    every_bar_is_reached(await http_answers.run(file_stage, carriers=[carrier], **some))


@pytest.mark.promise("never-lost")
async def test_claims_of_a_killed_worker_become_free(stage: Stage) -> None:
    every_bar_is_reached(await phases.claimed_only(stage, messages=120))


@pytest.mark.promise("drain-graceful")
async def test_stopped_worker_leaves_nothing_behind(stage: Stage) -> None:
    every_bar_is_reached(await drains.run(stage, stops=2))


@pytest.mark.promise("never-doubled")
async def test_frozen_worker_past_its_lease_sends_no_duplicates(stage: Stage) -> None:
    every_bar_is_reached(await freezes.run(stage, freezes=1, messages=150))


@pytest.mark.promise("poison-isolated")
async def test_message_that_kills_workers_is_failed_after_five_claims(file_stage: Stage) -> None:
    file_stage.settings = {"MAILWRIGHT_LOCK_TTL_SECONDS": "1"}
    every_bar_is_reached(await poison.before_the_attempt(file_stage, innocents=60, workers=1))


@pytest.mark.promise("poison-isolated")
async def test_message_that_kills_during_the_send_affects_no_other(file_stage: Stage) -> None:
    every_bar_is_reached(await poison.during_the_attempt(file_stage, innocents=80))


@pytest.mark.promise("accept-idempotent")
async def test_concurrent_requests_with_one_key_make_one_message(stage: Stage) -> None:
    every_bar_is_reached(await same_key.run(stage, keys=10, clients=20))


@pytest.mark.promise("never-lost")
async def test_lost_postgresql_gives_503_and_never_a_false_202() -> None:
    with postgresql() as server:  # A separate server, because it is stopped.
        async with a_stage(await server.create()) as stage:
            every_bar_is_reached(await outages.run(stage, server, outages=2))


@pytest.mark.promise("never-lost")
@pytest.mark.promise("never-doubled")
async def test_processes_cut_off_from_postgresql_lose_and_double_nothing() -> None:
    with postgresql() as server:  # A separate server, because some of its sessions do not end in time.
        async with a_stage(await server.create()) as stage:
            some = ("worker", "database")
            figures = await partitions.run(stage, readers=100, seconds=3, partitions=some, max_seconds=math.inf)
            every_bar_is_reached(figures)


@pytest.mark.promise("limits-never-exceeded")
async def test_valkey_failure_never_exceeds_a_limit(file_stage: Stage, own_valkey: Valkey) -> None:
    every_bar_is_reached(await outages.without_valkey(file_stage, own_valkey, limit=60))


async def test_locked_database_gives_503_and_recovers(file_stage: Stage) -> None:
    every_bar_is_reached(await disks.locked(file_stage, seconds=0))


async def test_full_disk_gives_503_and_recovers(file_stage: Stage) -> None:
    every_bar_is_reached(await disks.full(file_stage))
