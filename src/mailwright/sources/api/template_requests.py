"""Requests about templates: what an author may write over HTTP."""

import re
from typing import Annotated, Any

from pydantic import Field

from mailwright.content.formats import TemplateFormat
from mailwright.content.template_store import TemplateDraft
from mailwright.content.variables import Variable
from mailwright.domain.locales import DEFAULT_LOCALE
from mailwright.sources.api.requests import (
    Content,
    FieldError,
    Line,
    Locale,
    RequestInvalid,
    RequestModel,
    Value,
    Variables,
    parse,
)

NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]{0,99}$"
VersionNumber = Annotated[int, Field(ge=1, le=2**31 - 1)]


class TemplateVariableRequest(RequestModel):
    """A variable that the template uses. The sample is shown in previews where nothing is given."""

    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    required: bool = True
    sample: Value = None


class TemplateRequest(RequestModel):
    """A new version, in one of three forms: `html`, `mjml` or `markdown`. Without `text`, one is made from the HTML.

    Without a `locale` it is for everyone; with one, for readers of that locale, who must have been left to the version
    for everyone before. Where `variables` are declared, the template may use no others.
    """

    subject: Line
    html: Content | None = None
    mjml: Content | None = None
    markdown: Content | None = None
    text: Content | None = None
    locale: Locale | None = None
    variables: Annotated[list[TemplateVariableRequest], Field(max_length=200)] | None = None

    def draft(self) -> TemplateDraft:
        [(format_, body)] = self.bodies()
        return TemplateDraft(
            subject=self.subject,
            body=body,
            format=format_,
            text=self.text,
            locale=self.locale or DEFAULT_LOCALE,
            variables=tuple(Variable(each.name, each.required, each.sample) for each in self.variables or ()),
        )

    def bodies(self) -> list[tuple[TemplateFormat, str]]:
        return [(format_, body) for format_ in TemplateFormat if (body := getattr(self, format_.value)) is not None]


class TemplatePreviewRequest(RequestModel):
    """Values to render with, and for whom: the newest version for a locale, or a version by its number."""

    variables: Variables | None = None
    locale: Locale | None = None
    version: VersionNumber | None = None


def parse_template(body: Any) -> TemplateRequest:
    request = parse(TemplateRequest, body)
    if len(request.bodies()) != 1:
        raise RequestInvalid([FieldError("html", "REQUIRED", "give one of html, mjml and markdown")])
    return request


def check_template_id(template_id: str) -> None:
    if not _TEMPLATE_ID.fullmatch(template_id):
        message = "has 1 to 100 letters, digits, dots, hyphens and underscores"
        raise RequestInvalid([FieldError("templateId", "INVALID", message)])


_TEMPLATE_ID = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
