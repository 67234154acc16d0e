"""Why a message or a campaign is not sent yet, as sentences and as data."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from mailwright.actions.context import Context
from mailwright.actions.suggestions import action_requests, commands
from mailwright.domain.actions import ActionKind
from mailwright.domain.explanation import CampaignExplanation, MessageExplanation
from mailwright.schemas.base import ResponseModel, Time, combine
from mailwright.texts.explanations import campaign_text, message_text


class ActionResponse(ResponseModel):
    """Something that this caller can do now, and the request that does it."""

    do: ActionKind
    method: str
    path: Annotated[str, Field(description="Path, with the query string, if any.")]
    body: Annotated[dict[str, Any] | None, Field(description="Null if the request has no body.")]


class ExplanationResponse(ResponseModel):
    """Why something is not sent yet, as sentences and as data."""

    sentence: str
    state: str
    reason: str | None
    detail: str | None
    until: Time | None
    held_since: Time | None
    what_would_change: str | None
    actions: list[ActionResponse]
    commands: Annotated[
        list[str],
        Field(
            default_factory=list,
            description="The commands of `mailwright` that help, in the order in which to run them.",
        ),
    ]


class MessageExplanationResponse(ExplanationResponse):
    """Why a message is not sent yet, as sentences and as data."""

    outbox_id: str


class CampaignExplanationResponse(ExplanationResponse):
    """Why a campaign is not sent yet, as sentences and as data. `then`: the forecast."""

    campaign_id: str
    then: str | None


def message_explanation(at: Context, found: MessageExplanation) -> MessageExplanationResponse:
    return combine(MessageExplanationResponse, message_text(found, at.zone), found, **_next_steps(at, found))


def campaign_explanation(at: Context, found: CampaignExplanation) -> CampaignExplanationResponse:
    return combine(CampaignExplanationResponse, campaign_text(found, at.zone), found, **_next_steps(at, found))


def explanation_lines(found: Any, _given: Mapping[str, Any]) -> Iterator[str]:
    yield found.sentence
    if found.what_would_change:
        yield f"What you can do: {found.what_would_change}"
    yield from (f"  {command}" for command in found.commands)
    if then := getattr(found, "then", None):
        yield f"Forecast: {then}"


def _next_steps(at: Context, found: MessageExplanation | CampaignExplanation) -> dict[str, Any]:
    return {"actions": action_requests(found.actions, at.caller), "commands": commands(found)}
