"""Shadow mode: email that comes over SMTP is passed on to another server."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from mailwright.actions.context import Context
from mailwright.actions.declaration import Line, Moment, Noun, Table, time_of
from mailwright.domain.shadow import ShadowFinding, SmtpMode
from mailwright.outbox.shadow import load_report
from mailwright.schemas.base import ResponseModel, Time, combine
from mailwright.sources.api.fields import RequestModel

noun = Noun("shadow", "Shadow mode: email that comes over SMTP is passed on to your relay.", "/v1/shadow")


class ShadowReportQuery(RequestModel):
    days: Annotated[int, Field(ge=1, le=366, description="How many days the report covers.")] = 7


class ShadowEmailResponse(ResponseModel):
    """A recipient of an email that was passed on, with a masked address."""

    at: Time
    recipient: str
    from_domain: str | None
    findings: list[ShadowFinding]
    detail: str
    relay_reply: str


class ShadowReportResponse(ResponseModel):
    """The emails that shadow mode passed on, counted by recipient, and what Mailwright would have done with them.

    `mode` is the current mode of SMTP. `rejected`: the relay did not accept the email. `findings` counts recipients by
    finding. `examples` are the latest recipients with findings.
    """

    mode: SmtpMode
    since: Time
    passed: int
    accepted: int
    rejected: int
    bytes: int
    last_at: Time | None
    findings: dict[ShadowFinding, int]
    examples: list[ShadowEmailResponse]

    @property
    def counts(self) -> list[tuple[str, str]]:
        return [(finding, f"{count:,}") for finding, count in self.findings.items()]

    @property
    def latest(self) -> list[ShadowEmailResponse]:
        return self.examples[:20]


def _lines(found: ShadowReportResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield (
        f"Mode: {found.mode}. Since ",
        Moment(found.since),
        f", emails to {found.passed:,} recipients were passed on;",
    )
    yield f"the relay accepted {found.accepted:,} and rejected {found.rejected:,}. Mailwright would have found:"
    yield Table("counts", {"Finding": lambda row: row[0], "Recipients#": lambda row: row[1]}, nothing="")
    yield Table(
        "latest",
        {
            "At ({zone})!": time_of("at"),
            "Recipient": "recipient",
            "Findings": lambda each: ", ".join(each.findings),
            "Detail": "detail",
        },
        nothing="No findings.",
    )


@noun.get(
    command="report",
    help="Report the emails passed on, and what Mailwright would have suppressed, deduplicated, deferred or refused.",
    shown=_lines,
)
async def report(at: Context, query: ShadowReportQuery) -> ShadowReportResponse:
    """Report the emails that shadow mode passed on, and what Mailwright would have done with them."""
    found = await load_report(at.database.reader, at.tenant_id, at.clock.now(), query.days)
    examples = [
        combine(ShadowEmailResponse, row, at=row.created_at, findings=row.findings.split()) for row in found.examples
    ]
    return combine(ShadowReportResponse, found, mode=at.settings.smtp_mode, examples=examples)
