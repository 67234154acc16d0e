"""IDs: valid UUIDv7, sorted by time, in one spelling."""

import os
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.domain.ids import is_uuid, token, uuid7

instants = st.integers(0, 2**48 - 1)


@given(now=instants, tail=st.binary(min_size=10, max_size=10))
def test_id_is_uuid7_with_its_time(now: int, tail: bytes) -> None:
    text = uuid7(now, lambda _size: tail)
    parsed = uuid.UUID(text)
    assert (parsed.version, parsed.variant, str(parsed)) == (7, uuid.RFC_4122, text)
    assert parsed.int >> 80 == now


@given(earlier=instants, later=instants)
def test_ids_sort_by_creation_time(earlier: int, later: int) -> None:
    if earlier < later:
        assert uuid7(earlier) < uuid7(later)


def test_ids_of_the_same_time_differ() -> None:
    assert len({uuid7(1) for _ in range(10_000)}) == 10_000


def test_child_process_makes_other_ids() -> None:
    uuid7(1)
    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.write(writer, uuid7(1).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as sent:
        assert sent.read() not in {uuid7(1) for _ in range(1_000)}


@pytest.mark.parametrize(
    "text", ["", "x", "01A3185C-5000-7B6E-AA48-55DBA5A7399C", "{01a3185c-5000-7b6e-aa48-55dba5a7399c}"]
)
def test_id_has_one_spelling(text: str) -> None:
    assert is_uuid(uuid7(0))
    assert not is_uuid(text)


def test_token_fits_a_bigint() -> None:
    tokens = {token() for _ in range(1_000)}
    assert len(tokens) == 1_000
    assert all(0 < token < 2**63 for token in tokens)
