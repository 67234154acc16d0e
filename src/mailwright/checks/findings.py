"""Findings: what a check found out about one part, in a line for people, and what to do about it."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"  # it may be meant so, or cannot be told from here
    PROBLEM = "problem"  # mail waits, is refused or is not trusted


@dataclass(frozen=True, slots=True)
class TxtRecord:
    """What to publish in DNS, and under which name."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    verdict: Verdict
    summary: str
    advice: str | None = None
    publish: TxtRecord | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def ok(name: str, summary: str) -> Finding:
    return Finding(name, Verdict.OK, summary)


def warning(name: str, summary: str, advice: str) -> Finding:
    return Finding(name, Verdict.WARNING, summary, advice)


def problem(name: str, summary: str, advice: str, publish: TxtRecord | None = None) -> Finding:
    return Finding(name, Verdict.PROBLEM, summary, advice, publish)
