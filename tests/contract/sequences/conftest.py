"""Fixtures of sequences."""

import pytest

from tests.builders import Bench
from tests.sequences import SequenceBench


@pytest.fixture
def sequences(bench: Bench) -> SequenceBench:
    return SequenceBench(bench)
