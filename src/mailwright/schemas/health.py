"""Models of health checks."""

from typing import Literal

from mailwright.schemas.base import ResponseModel


class LivenessResponse(ResponseModel):
    status: Literal["ok"]


class ReadinessResponse(ResponseModel):
    """The overall status, the version of the server, and the status of each component and provider."""

    status: Literal["ready", "not_ready"]
    version: str
    parts: dict[str, str]
    providers: dict[str, Literal["ok", "left_alone"]]
    sending_held: str | None = None  # why all sending is on hold, if it is
