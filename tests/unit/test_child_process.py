"""Processes of one command share its limits on connections."""

import pytest

from mailwright.domain.errors import ConfigurationInvalid
from mailwright.ops.child_process import ChildProcess, own_share, runs_duties, this_child


def shares(limit: int, count: int) -> list[int]:
    return [
        ChildProcess(number, count, control=0, lifeline=0).share_of(limit, "LIMIT") for number in range(1, count + 1)
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("limit", [7, 8, 20, 41])
def test_shares_add_up_to_the_limit(limit: int, count: int) -> None:
    found = shares(limit, count)
    assert sum(found) == limit
    assert max(found) - min(found) <= 1


def test_fewer_connections_than_processes_are_refused() -> None:
    with pytest.raises(ConfigurationInvalid, match="LIMIT: 2 connections are too few for 3 processes"):
        shares(2, 3)


@pytest.mark.parametrize(("number", "sends", "share"), [(1, True, 4), (3, True, 3), (3, False, 10)])
def test_child_reads_its_place_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, number: int, sends: bool, share: int
) -> None:
    place = ChildProcess(number, 3, control=5, lifeline=6, sends=sends)
    for name, value in place.environment("/folder").items():
        monkeypatch.setenv(name, value)
    this_child.cache_clear()
    try:
        assert this_child() == place
        assert runs_duties() == (number == 1)
        assert own_share(10, "LIMIT") == share
    finally:
        this_child.cache_clear()
