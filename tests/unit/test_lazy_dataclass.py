"""Dataclasses whose methods are written when they are first used."""

import dataclasses
import inspect
import pickle
from copy import deepcopy
from dataclasses import field
from typing import Any

import pytest

from mailwright.domain.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0
    names: list[str] = field(default_factory=list, compare=False)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is negative")


@dataclass(frozen=True, slots=True)
class Labelled(Point):
    label: str = ""


@dataclass(slots=True)
class Counter:
    count: int = 0


@dataclass(slots=True, eq=False)
class Plain:
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"


def test_methods_are_those_of_the_standard_library() -> None:
    assert Point(1, 2) == Point(1, 2, ["other"]) != Point(2, 1)
    assert {Point(1): "one"}[Point(1)] == "one"
    assert repr(Labelled(1, label="a")) == "Labelled(x=1, y=0, names=[], label='a')"
    assert dataclasses.replace(Labelled(1, label="a"), y=3) == Labelled(1, 3, label="a") != Point(1, 3)
    assert dataclasses.asdict(Point(1)) == {"x": 1, "y": 0, "names": []}
    assert list(inspect.signature(Named).parameters) == ["name"]
    assert repr(Named(name="a")) == "<a>"
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


@pytest.mark.parametrize("value", [Point(1), Labelled(1, label="a")])
def test_frozen_values_cannot_be_changed(value: Any) -> None:
    for name in ("x", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign"):
            setattr(value, name, 2)
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete"):
            delattr(value, name)


@pytest.mark.parametrize("value", [Point(1), Labelled(1, label="a"), Named(name="a")])
def test_frozen_values_can_be_copied(value: Any) -> None:
    assert pickle.loads(pickle.dumps(value)) == deepcopy(value) == value


def test_changeable_values_have_no_hash() -> None:
    assert Counter(1) == Counter(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter(1))
    assert Plain(1) != Plain(1)
    assert hash(Plain(1)) != hash(Plain(2))


def test_wrong_arguments_are_refused_as_usual() -> None:
    with pytest.raises(TypeError, match=r"Point.__init__\(\) missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="x is negative"):
        Point(-1)
