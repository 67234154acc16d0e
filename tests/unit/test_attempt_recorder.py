"""The attempt file of a process's latest attempts survives the process, and says whether it is complete."""

from pathlib import Path
from typing import Any

from mailwright.domain.ids import uuid7
from mailwright.domain.message import Claimed, Outcome
from mailwright.domain.results import SendResult
from mailwright.outbox.attempt_recorder import (
    AttemptRecorder,
    AttemptState,
    RecordedAttempts,
    has_records,
    open_recorder,
    read_records,
)
from tests.builders import FAULT, SENT, UNKNOWN, Attempt, a_result

CAPACITY = 4


def opened(folder: Path) -> AttemptRecorder:
    recorder = open_recorder(folder, CAPACITY)
    assert recorder is not None
    return recorder


def attempts(*keys: int) -> list[Attempt]:
    empty: dict[str, Any] = dict.fromkeys(Claimed._fields)
    claim = Claimed(
        **{
            **empty,
            "claim_token": 7,
            "attempts": 0,
            "excused_attempts": 0,
            "received_at": 0,
            "payload": {},
            "source": "api",
            "is_bulk": False,
        }
    )
    return [Attempt(claim._replace(message_key=key, outbox_id=uuid7(key)), "smtp") for key in keys]


def found(folder: Path) -> dict[int, AttemptState]:
    return {each.message_key: each.state for file in read_records(folder) for each in file.attempts}


def outcome(attempt: Attempt, result: SendResult) -> Outcome:
    return a_result(attempt.claimed, result, 1_000)


def test_killed_process_leaves_its_attempts(tmp_path: Path) -> None:
    begun = attempts(1, 2, 3, 4)
    recorder = opened(tmp_path)
    recorder.begin(begun, 500)
    recorder.settle([outcome(begun[0], SENT), outcome(begun[1], FAULT), outcome(begun[2], UNKNOWN)])
    begun_, sent, not_sent = AttemptState.BEGUN, AttemptState.SENT, AttemptState.NOT_SENT
    assert found(tmp_path) == {1: sent, 2: not_sent, 3: begun_, 4: begun_}
    [kept] = read_records(tmp_path)
    first = kept.attempts[0]
    claimed = begun[0].claimed
    assert (first.claim_token, first.at, first.outbox_id) == (claimed.claim_token, 500, claimed.outbox_id)
    assert (first.source, first.provider) == (claimed.source, "smtp")


def test_withdrawn_attempts_were_not_sent(tmp_path: Path) -> None:
    recorder = opened(tmp_path)
    recorder.begin(attempts(1, 2), 500)
    recorder.withdraw([1])
    assert found(tmp_path) == {1: AttemptState.NOT_SENT, 2: AttemptState.BEGUN}


def test_latest_attempt_of_a_message_counts(tmp_path: Path) -> None:
    recorder = opened(tmp_path)
    [first] = attempts(1)
    recorder.begin([first], 500)
    recorder.settle([outcome(first, FAULT)])
    recorder.begin(attempts(2), 600)
    recorder.begin([first], 700)
    [kept] = read_records(tmp_path)
    assert [(each.message_key, each.at) for each in kept.attempts] == [(2, 600), (1, 700)]


def test_full_records_says_that_it_is_cut(tmp_path: Path) -> None:
    recorder = opened(tmp_path)
    recorder.begin(attempts(1, 2, 3, 4), 500)
    assert not read_records(tmp_path)[0].is_cut
    recorder.begin(attempts(5), 600)
    [kept] = read_records(tmp_path)
    assert ([each.message_key for each in kept.attempts], kept.is_cut) == ([2, 3, 4, 5], True)


def test_next_process_continues_the_records(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.begin(attempts(1), 500)
    first.close()
    opened(tmp_path).begin(attempts(2), 600)
    assert len(list(tmp_path.iterdir())) == 1
    assert set(found(tmp_path)) == {1, 2}


def test_each_running_process_has_its_own_records(tmp_path: Path) -> None:
    assert not has_records(tmp_path)
    first, second = opened(tmp_path), opened(tmp_path)
    first.begin(attempts(1), 500)
    second.begin(attempts(2), 500)
    assert has_records(tmp_path)
    assert sorted([each.message_key for each in file.attempts] for file in read_records(tmp_path)) == [[1], [2]]


def test_damaged_records_has_no_attempts(tmp_path: Path) -> None:
    (tmp_path / "damaged.attempts").write_bytes(b"x")
    assert read_records(tmp_path) == [RecordedAttempts([], is_cut=False)]


def test_process_without_a_writable_folder_has_no_records(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert open_recorder(tmp_path / "file") is None
