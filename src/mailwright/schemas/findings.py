"""Models of the results of checks."""

from collections.abc import Iterable

from mailwright.domain.findings import Finding, Verdict
from mailwright.schemas.base import ResponseModel, Time


class TxtRecordResponse(ResponseModel):
    name: str
    value: str


class FindingResponse(ResponseModel):
    """The result of one check. `since`: when it began, if that is known."""

    name: str
    verdict: Verdict
    summary: str
    advice: str | None
    publish: TxtRecordResponse | None
    since: Time | None


class CheckResponse(ResponseModel):
    ok: bool
    findings: list[FindingResponse]


def check_response(findings: Iterable[Finding], *, is_ok: bool) -> CheckResponse:
    return CheckResponse(ok=is_ok, findings=[FindingResponse.model_validate(each) for each in findings])
