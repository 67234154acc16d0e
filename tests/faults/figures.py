"""Figures: what a fault run found beside the bar that it has to reach."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    found: object
    bar: str
    is_reached: bool


@dataclass(slots=True)
class Figures:
    all: list[Figure] = field(default_factory=list)

    def note(self, name: str, found: object) -> None:
        """Worth knowing, and without a bar."""
        self.all.append(Figure(name, found, "", True))

    def expect(self, name: str, found: object, bar: str, *, when: bool) -> None:
        self.all.append(Figure(name, found, bar, when))

    def none(self, name: str, found: list[str] | int) -> None:
        """There must be none; the first few that are there are named."""
        count = found if isinstance(found, int) else len(found)
        shown = count if isinstance(found, int) or not found else f"{count}: {', '.join(found[:3])}"
        self.all.append(Figure(name, shown, "0", count == 0))

    def at_most(self, name: str, found: float, most: float) -> None:
        self.all.append(Figure(name, found, f"≤ {most:g}", found <= most))

    @property
    def misses(self) -> list[str]:
        return [f"{each.name}: {each.found}, not {each.bar}" for each in self.all if not each.is_reached]
