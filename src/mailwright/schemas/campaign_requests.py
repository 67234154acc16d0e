"""What is asked of campaigns over HTTP, field by field. A definition is what people write down, with times as texts."""

from typing import Annotated, Any, TypeVar

import orjson
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from mailwright.sources.api.requests import (
    Address,
    FieldError,
    Identifier,
    Moment,
    RequestInvalid,
    RequestModel,
    Variables,
    field_errors,
)
from mailwright.sources.campaigns.definition import CampaignDefinition, ContentDefinition, ListKey, SingleLine
from mailwright.sources.campaigns.snapshot import CampaignNotStartable
from mailwright.sources.campaigns.test_send import MAX_ADDRESSES

MOST_LISTS = 100


def _storable(text: str) -> str:
    """PostgreSQL keeps every character but this one, and no reader can see it."""
    if "\x00" in text:
        raise ValueError("contains a NUL character")
    return text


Body = Annotated[str, Field(min_length=1, max_length=512 * 1024), AfterValidator(_storable)]


class CampaignContent(ContentDefinition):
    """Written here (`subject`, `body`), or a template by its id, whose subject may be replaced."""

    body: Body | None = None
    text: Body | None = None
    template_id: Identifier | None = None


class CampaignRequest(CampaignDefinition):
    """What a campaign says, to whom, and when."""

    content: CampaignContent
    lists: Annotated[tuple[ListKey, ...], Field(max_length=MOST_LISTS)] = ()
    filter: Variables | None = None
    variables: Annotated[Variables, Field(default_factory=dict)]
    scheduled_at: Moment | None = None


class CampaignDuplicateRequest(RequestModel):
    name: SingleLine | None = None


class CampaignTestRequest(RequestModel):
    """Where the mails go, and whose name and attributes fill them."""

    addresses: Annotated[list[Address], Field(min_length=1, max_length=MAX_ADDRESSES)]
    as_contact: Address | None = None


class CampaignExtendRequest(RequestModel):
    segment: ListKey | None = None


class CampaignWinnerRequest(RequestModel):
    version: SingleLine


class CampaignRefused(RequestInvalid):
    """The campaign cannot start."""

    code = CampaignNotStartable.code

    def __init__(self, refused: CampaignNotStartable) -> None:
        super().__init__([FieldError(each.field, each.code, each.message) for each in refused.problems])


Model = TypeVar("Model", bound=BaseModel)


def parse(model: type[Model], body: Any) -> Model:
    """Reads a request out of parsed JSON, or tells everything that is wrong with it. A text is no number here."""
    try:
        return model.model_validate_json(orjson.dumps(body), strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        raise RequestInvalid(field_errors([_in_our_words(each) for each in found])) from error


def _in_our_words(error: Any) -> dict[str, Any]:
    if error["type"] != "value_error":
        return dict(error)
    return {**error, "type": "invalid", "msg": error["msg"].removeprefix("Value error, ")}
