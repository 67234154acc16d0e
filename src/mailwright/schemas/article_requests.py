"""What is asked of articles over HTTP. Fields are called as in the files that slices are kept in."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from mailwright.sources.api.requests import Address, FieldError, RequestInvalid
from mailwright.sources.articles import slice_input
from mailwright.sources.articles.assembly import PublishStatus, Slice
from mailwright.sources.articles.divisions import MAX_DIVISION_LENGTH
from mailwright.sources.articles.runs import RunRequest
from mailwright.sources.articles.slice_input import SliceRefused

MOST_CONDITIONS = 20
MOST_DIVISIONS = 200
_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_NUMBERS = Field(ge=-slice_input.MAX_NUMBER, le=slice_input.MAX_NUMBER)


def _spelt(pattern: str, words: str) -> AfterValidator:
    """The description of the API has the pattern; whoever breaks it is told in words."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise PydanticCustomError("string_pattern_mismatch", "{words}", {"words": words})
        return text

    return AfterValidator(check)


_NAMED = _spelt(slice_input.KEY_PATTERN, "has a-z, 0-9 and - only, as in spring-2027")
_NAMES: JsonDict = {"pattern": f"^{slice_input.KEY_PATTERN}$"}
_BATCH = _spelt(_UUID, "must be a UUID, as 7f9c24e8-3b12-4c5d-9e6f-0a1b2c3d4e5f")
_BATCHES: JsonDict = {"pattern": f"^{_UUID}$", "format": "uuid"}

Key = Annotated[str, _NAMED, Field(max_length=slice_input.MAX_KEY_LENGTH, json_schema_extra=_NAMES)]
Tag = Annotated[str, _NAMED, Field(max_length=100, json_schema_extra=_NAMES)]
Filter = Annotated[dict[str, str], Field(max_length=MOST_CONDITIONS)]
Batch = Annotated[str, _BATCH, AfterValidator(str.lower), Field(json_schema_extra=_BATCHES)]
Time = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]


class Named(BaseModel):
    """A field that we do not know is refused, never silently dropped."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class ArticleSendRequest(Named):
    """The tag and the batch id name the sending: both again change nothing."""

    campaign_tag: Tag
    article_key: Key
    audience_filter: Annotated[
        Filter | None, Field(description='As `{"state": "OH"}`: by division, attribute, `list` or `ocd_id`.')
    ] = None
    send_batch_id: Batch

    def order(self) -> RunRequest:
        return RunRequest(self.campaign_tag, self.article_key, self.send_batch_id, self.audience_filter or {})


class SliceRequest(Named):
    """A slice is found by its place: the article, `section_order`, `scope_ocd_id` and `sort_index`."""

    article_key: Key
    section_order: Annotated[int, _NUMBERS] = 1
    sort_index: Annotated[int, _NUMBERS] = 0
    is_headline: bool = False
    title: Annotated[str | None, Field(max_length=slice_input.MAX_TITLE_LENGTH)] = None
    dek: Annotated[str | None, Field(max_length=slice_input.MAX_DEK_LENGTH)] = None
    body_md: Annotated[str | None, Field(max_length=slice_input.MAX_BODY_BYTES)] = None
    link_url: Annotated[str | None, Field(max_length=slice_input.MAX_URL_LENGTH)] = None
    scope_ocd_id: Annotated[str | None, Field(max_length=MAX_DIVISION_LENGTH)] = None
    tags: Annotated[list[str], Field(max_length=slice_input.MAX_TAGS)] = []
    publish_status: PublishStatus = PublishStatus.DRAFT
    publish_at: Time | None = None
    expires_at: Time | None = None

    def slice(self) -> Slice:
        try:
            return slice_input.parse_slice(self.model_dump())
        except SliceRefused as error:
            raise told(error) from error


class ArticlePreviewRequest(Named):
    """As whom: a contact by the address, or anybody in these divisions."""

    email: Address | None = None
    ocd_ids: Annotated[
        list[Annotated[str, Field(max_length=MAX_DIVISION_LENGTH)]], Field(max_length=MOST_DIVISIONS)
    ] = []


class ArticleCoverageRequest(Named):
    audience_filter: Filter | None = None


class SliceInvalid(RequestInvalid):
    """The slice cannot be kept."""

    code = SliceRefused.code


def told(error: SliceRefused) -> SliceInvalid:
    """A refusal names each field that is wrong, as a request that breaks its schema does."""
    return SliceInvalid([FieldError(each.field, each.code, each.message) for each in error.problems])
