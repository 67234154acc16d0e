"""Requests that the composer sends to the dashboard."""

from typing import Annotated, Any, Literal

from pydantic import Field

from mailwright.sources.api.fields import Content, RequestModel

# A draft may be unfinished, so that its document and subject are checked only when it is published.
Document = Annotated[dict[str, Any], Field(description="A block document.")]
Subject = Annotated[str, Field(max_length=2_000)]
LocaleText = Annotated[str, Field(max_length=35)]
Number = Annotated[int, Field(ge=0, le=2**31 - 1)]


class ConvertRequest(RequestModel):
    """Content to turn into blocks: `text` of HTML or Markdown, the `url` of a feed, or a `page` of Notion."""

    source: Annotated[Literal["html", "markdown", "feed", "notion"], Field(alias="from")]
    text: Content = ""
    url: Annotated[str, Field(max_length=2_000)] = ""
    page: Annotated[str, Field(max_length=500)] = ""
    limit: Annotated[int, Field(ge=1, le=50)] = 5


class ComposedEmail(RequestModel):
    document: Document
    subject: Subject = ""


class PreviewedEmail(ComposedEmail):
    """An email to render. Without `contact`, variables get sample values."""

    contact: Annotated[str, Field(max_length=320)] = ""
    locale: LocaleText = ""
    template_id: Annotated[str, Field(max_length=100)] = ""


class TestedEmail(PreviewedEmail):
    to: Annotated[str, Field(max_length=320)]


class SavedEmail(ComposedEmail):
    """An email, with the revision of the draft and the version of the template that the browser read."""

    locale: LocaleText = ""
    base_revision: Number
    base_version: Number = 0


class CopiedEmail(ComposedEmail):
    """An email, with the version of the original that the browser read. The copy keeps the locks of that version."""

    locale: LocaleText = ""
    base_version: Number = 0


class DiscardedDraft(RequestModel):
    locale: LocaleText = ""
    base_revision: Number


class OpenEditor(RequestModel):
    """A browser tab that shows a draft; `editor` is its random name."""

    editor: Annotated[str, Field(min_length=1, max_length=40)]
    locale: LocaleText = ""
    is_leaving: bool = False
