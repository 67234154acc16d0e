"""Change the steps of a sequence's document. Every function returns a changed copy."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import gettext
from mailwright.texts.sequence_documents import StepText, describe_steps, kind_of, nested_steps


@dataclass(frozen=True, slots=True)
class StepPlace:
    """A position in the document: the parent step, its path, and the index in it.

    Without a parent, at the top level.
    """

    parent: str = ""
    path: str = ""
    index: int = 0

    def __str__(self) -> str:
        return f"{self.parent}/{self.path}/{self.index}"


def parse_place(text: str) -> StepPlace:
    parent, _, rest = text.partition("/")
    path, _, index = rest.partition("/")
    if not index.isdecimal() or len(index) > 4:
        raise InvalidInput(gettext("Choose a place from the list."), field="place")
    return StepPlace(parent, path, int(index))


def find_step(document: Any, step_id: str) -> dict[str, Any]:
    """Return a step, or raise NotFound."""
    place = find_place(document, step_id)
    found: dict[str, Any] = _steps_at(document, place)[place.index]
    return found


def find_place(document: Any, step_id: str) -> StepPlace:
    """Return where a step is, or raise NotFound."""
    found = next((place for place, step in _walk(document["steps"]) if step["id"] == step_id), None)
    if found is None:
        raise NotFound(gettext("There is no such step. Somebody may have deleted it."))
    return found


def insert_step(document: Any, place: StepPlace, step: dict[str, Any]) -> Any:
    changed = copy.deepcopy(document)
    _steps_at(changed, place).insert(place.index, step)
    return changed


def replace_step(document: Any, step_id: str, step: dict[str, Any]) -> Any:
    changed = copy.deepcopy(document)
    place = find_place(changed, step_id)
    _steps_at(changed, place)[place.index] = step
    return changed


def delete_step(document: Any, step_id: str) -> Any:
    changed = copy.deepcopy(document)
    place = find_place(changed, step_id)
    del _steps_at(changed, place)[place.index]
    return changed


def move_step(document: Any, step_id: str, target: StepPlace) -> Any:
    """Move a step with its nested steps. The place refers to the document before the move."""
    source, step = find_place(document, step_id), find_step(document, step_id)
    inside = {nested["id"] for _, nested in _walk([step])}
    if target.parent in inside:
        raise InvalidInput(gettext("A step cannot be moved into itself."), field="place")
    if (target.parent, target.path) == (source.parent, source.path) and target.index > source.index:
        target = replace(target, index=target.index - 1)
    return insert_step(delete_step(document, step_id), target, step)


def nudge_step(document: Any, step_id: str, by: int) -> Any:
    """Move a step one place up (-1) or down (1). The first or last step of a path moves out of the path."""
    place = find_place(document, step_id)
    following = place.index + by
    if 0 <= following < len(_steps_at(document, place)):
        return move_step(document, step_id, replace(place, index=following if by < 0 else following + 1))
    if not place.parent:
        return document
    outer = find_place(document, place.parent)
    return move_step(document, step_id, outer if by < 0 else replace(outer, index=outer.index + 1))


def list_places(document: Any, moved: str) -> list[tuple[str, str]]:
    """Return the places to which a step can be moved, as values and labels of a choice."""
    return [(str(place), label) for place, label in _places(describe_steps(document["steps"]), moved)]


def unused_id(document: Any, wanted: str) -> str:
    """Return an ID that no step of the document has."""
    used = {step["id"] for _, step in _walk(document["steps"])}
    number = 1
    while (found := wanted if number == 1 else f"{wanted}-{number}") in used:
        number += 1
    return found


def step_ids(document: Any) -> list[str]:
    return [step["id"] for _, step in _walk(document["steps"])]


def _walk(steps: list[Any], parent: str = "", path: str = "") -> Iterator[tuple[StepPlace, dict[str, Any]]]:
    for index, step in enumerate(steps):
        yield StepPlace(parent, path, index), step
        for key, nested in nested_steps(step).items():
            yield from _walk(nested, step["id"], key)


def _steps_at(document: Any, place: StepPlace) -> list[Any]:
    """Return the list of steps of a place, to change it."""
    found: list[Any] = document["steps"]
    if not place.parent:
        return found
    step = find_step(document, place.parent)
    if place.path not in nested_steps(step):
        raise NotFound(gettext("There is no such path. Somebody may have deleted it."))
    kind, _, number = place.path.partition(".")
    found = step[kind_of(step)][int(number)]["steps"] if number else step.setdefault(kind, [])
    return found  # noqa: RET504 - typed


def _places(
    steps: tuple[StepText, ...], moved: str, parent: str = "", path: str = "", within: str = ""
) -> Iterator[tuple[StepPlace, str]]:
    yield StepPlace(parent, path, 0), gettext("{within}At the start", within=within)
    for index, step in enumerate(steps):
        if step.id == moved:
            continue
        for each in step.paths:
            yield from _places(each.steps, moved, step.id, each.key, f"{within}{step.id}, {each.label}: ")
        yield StepPlace(parent, path, index + 1), gettext("{within}After {id}", within=within, id=step.id)
