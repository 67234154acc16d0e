"""Models of the set-up on the command line."""

from mailwright.schemas.base import ResponseModel
from mailwright.schemas.findings import FindingResponse


class ConnectionCheckResponse(ResponseModel):
    ok: bool
    summary: str
    code: str | None


class SetupEmailResponse(ResponseModel):
    outbox_id: str
    status: str


class InvitedColleagueResponse(ResponseModel):
    email: str | None
    link: str


class SetupResponse(ResponseModel):
    """What the set-up found and did. `key`: the new API key."""

    ready: bool
    sender: str
    provider: str
    connection: list[ConnectionCheckResponse]
    dns: list[FindingResponse]
    key: str | None
    test_email: SetupEmailResponse | None
    colleague: InvitedColleagueResponse | None
