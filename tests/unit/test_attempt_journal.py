"""The journal of a process's latest attempts survives the process, and says whether it is complete."""

from pathlib import Path
from typing import Any

from mailwright.domain.ids import uuid7
from mailwright.domain.message import Claimed, Outcome
from mailwright.domain.results import SendResult
from mailwright.outbox.attempt_journal import (
    AttemptJournal,
    AttemptState,
    Journal,
    has_journals,
    open_journal,
    read_journals,
)
from tests.builders import FAULT, SENT, UNKNOWN, Attempt, a_result

CAPACITY = 4


def opened(folder: Path) -> AttemptJournal:
    journal = open_journal(folder, CAPACITY)
    assert journal is not None
    return journal


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
    return {each.message_key: each.state for journal in read_journals(folder) for each in journal.attempts}


def outcome(attempt: Attempt, result: SendResult) -> Outcome:
    return a_result(attempt.claimed, result, 1_000)


def test_killed_process_leaves_its_attempts(tmp_path: Path) -> None:
    begun = attempts(1, 2, 3, 4)
    journal = opened(tmp_path)
    journal.begin(begun, 500)
    journal.settle([outcome(begun[0], SENT), outcome(begun[1], FAULT), outcome(begun[2], UNKNOWN)])
    begun_, sent, not_sent = AttemptState.BEGUN, AttemptState.SENT, AttemptState.NOT_SENT
    assert found(tmp_path) == {1: sent, 2: not_sent, 3: begun_, 4: begun_}
    [kept] = read_journals(tmp_path)
    first = kept.attempts[0]
    claimed = begun[0].claimed
    assert (first.claim_token, first.at, first.outbox_id) == (claimed.claim_token, 500, claimed.outbox_id)
    assert (first.source, first.provider) == (claimed.source, "smtp")


def test_withdrawn_attempts_were_not_sent(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.begin(attempts(1, 2), 500)
    journal.withdraw([1])
    assert found(tmp_path) == {1: AttemptState.NOT_SENT, 2: AttemptState.BEGUN}


def test_latest_attempt_of_a_message_counts(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    [first] = attempts(1)
    journal.begin([first], 500)
    journal.settle([outcome(first, FAULT)])
    journal.begin(attempts(2), 600)
    journal.begin([first], 700)
    [kept] = read_journals(tmp_path)
    assert [(each.message_key, each.at) for each in kept.attempts] == [(2, 600), (1, 700)]


def test_full_journal_says_that_it_is_cut(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.begin(attempts(1, 2, 3, 4), 500)
    assert not read_journals(tmp_path)[0].is_cut
    journal.begin(attempts(5), 600)
    [kept] = read_journals(tmp_path)
    assert ([each.message_key for each in kept.attempts], kept.is_cut) == ([2, 3, 4, 5], True)


def test_next_process_continues_the_journal(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.begin(attempts(1), 500)
    first.close()
    opened(tmp_path).begin(attempts(2), 600)
    assert len(list(tmp_path.iterdir())) == 1
    assert set(found(tmp_path)) == {1, 2}


def test_each_running_process_has_its_own_journal(tmp_path: Path) -> None:
    assert not has_journals(tmp_path)
    first, second = opened(tmp_path), opened(tmp_path)
    first.begin(attempts(1), 500)
    second.begin(attempts(2), 500)
    assert has_journals(tmp_path)
    assert sorted([each.message_key for each in journal.attempts] for journal in read_journals(tmp_path)) == [[1], [2]]


def test_damaged_journal_has_no_attempts(tmp_path: Path) -> None:
    (tmp_path / "damaged.attempts").write_bytes(b"x")
    assert read_journals(tmp_path) == [Journal([], is_cut=False)]


def test_process_without_a_writable_folder_has_no_journal(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert open_journal(tmp_path / "file") is None
