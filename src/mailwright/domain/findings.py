"""The result of one self-check, with a summary and advice."""

from enum import StrEnum

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"  # Possibly intended, or impossible to determine from this machine.
    PROBLEM = "problem"  # Messages wait, are rejected or are not trusted by receivers.


@dataclass(frozen=True, slots=True)
class TxtRecord:
    """A TXT record to publish in DNS."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    verdict: Verdict
    summary: str
    advice: str | None = None
    publish: TxtRecord | None = None
    since: Instant | None = None  # When it began, if that is known.


def ok(name: str, summary: str) -> Finding:
    return Finding(name, Verdict.OK, summary)


def warning(name: str, summary: str, advice: str, *, since: Instant | None = None) -> Finding:
    return Finding(name, Verdict.WARNING, summary, advice, since=since)


def problem(
    name: str, summary: str, advice: str, publish: TxtRecord | None = None, *, since: Instant | None = None
) -> Finding:
    return Finding(name, Verdict.PROBLEM, summary, advice, publish, since)
