"""Whether email leaves this machine."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mailwright.actions.context import Context
from mailwright.actions.declaration import AgentTool, Badge, Line, Noun, Tone
from mailwright.app.sending_readiness import load_readiness
from mailwright.domain.sending_readiness import ReadinessState
from mailwright.schemas.sending_readiness import SendingReadinessResponse, readiness_response

noun = Noun("sending", "Whether email leaves this machine, and what is missing.", "/v1/sending")

_TONES: Final[Mapping[ReadinessState, Tone]] = {
    ReadinessState.READY: "good",
    ReadinessState.INCOMPLETE: "warning",
    ReadinessState.NOBODY_RECEIVES: "warning",
    ReadinessState.STOPPED: "bad",
}


def _lines(found: SendingReadinessResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield Badge(found.state.replace("_", " "), _TONES[found.state])
    yield found.sentence
    for each in found.remarks:
        if each.sentence not in found.sentence:
            yield each.sentence
        if each.advice:
            yield f"  {each.advice}"
    yield f"Sender: {found.sender}; provider: {found.provider}; running workers: {found.workers:,}."
    yield found.tracking_sentence


@noun.get(
    command="show",
    shown=_lines,
    is_negative=lambda found: found.state in (ReadinessState.NOBODY_RECEIVES, ReadinessState.STOPPED),
    agent=AgentTool(
        "show_sending",
        "Show whether campaigns leave this machine: provider, sender, public address, workers and tracking. Ask before "
        "you say that an email was delivered.",
    ),
)
async def show(at: Context) -> SendingReadinessResponse:
    """Show whether campaigns leave this machine now, where they go, and what is missing."""
    found = await load_readiness(at.settings, at.database, at.clock, at.tenant_id, counts_consent=True)
    return readiness_response(found)
