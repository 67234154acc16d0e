"""Results of a fault run and the values they must reach."""

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
        """Record a figure without a required value."""
        self.all.append(Figure(name, found, "", True))

    def expect(self, name: str, found: object, bar: str, *, when: bool) -> None:
        self.all.append(Figure(name, found, bar, when))

    def none(self, name: str, found: list[str] | int) -> None:
        """Require that there are none, and name the first few otherwise."""
        count = found if isinstance(found, int) else len(found)
        shown = count if isinstance(found, int) or not found else f"{count}: {', '.join(found[:3])}"
        self.all.append(Figure(name, shown, "0", count == 0))

    def at_most(self, name: str, found: float, most: float) -> None:
        self.all.append(Figure(name, found, f"≤ {most:g}", found <= most))

    @property
    def misses(self) -> list[str]:
        return [f"{each.name}: {each.found}, not {each.bar}" for each in self.all if not each.is_reached]
