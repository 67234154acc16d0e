"""Models of templates and their versions."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

import orjson
from pydantic import Field

from mailwright.content.formats import TemplateFormat
from mailwright.content.presend_checks import PresendIssue
from mailwright.content.template import RenderedEmail
from mailwright.content.template_store import StoredTemplate, TemplateDraft
from mailwright.content.variables import Variable
from mailwright.domain.locales import DEFAULT_LOCALE
from mailwright.schemas.base import ResponseModel, Time, combine
from mailwright.sources.api.fields import Content, Line, Locale, Matching, RequestModel, Value
from mailwright.sources.api.validation import FieldError, RequestInvalid, parse

VersionNumber = Annotated[int, Field(ge=1, le=2**31 - 1)]
VariableName = Annotated[
    str,
    Matching(
        r"[A-Za-z_][A-Za-z0-9_]{0,99}", "must have 1 to 100 letters, digits and _, and must not begin with a digit"
    ),
]
_TEMPLATE_ID = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)


class TemplateVariableRequest(RequestModel):
    """A variable that the template uses. Previews show the sample if no value is given."""

    name: VariableName
    required: bool = True
    sample: Value = None


class TemplateRequest(RequestModel):
    """A new version in one of four formats: `html`, `mjml`, `markdown` or `blocks`.

    Without `text`, it is derived from the HTML. Without a `locale`, this is the default version, which must exist
    before a version for a locale. If `variables` are declared, the template can use no others.
    """

    subject: Line
    html: Content | None = None
    mjml: Content | None = None
    markdown: Content | None = None
    blocks: Annotated[dict[str, Any] | None, Field(description="A block document, as the composer edits it.")] = None
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
            variables=tuple(
                Variable(variable.name, variable.required, variable.sample) for variable in self.variables or ()
            ),
        )

    def bodies(self) -> list[tuple[TemplateFormat, str]]:
        """Return the sources that are given, with their formats."""
        given = [(format_, getattr(self, format_.value)) for format_ in TemplateFormat]
        return [
            (format_, body if isinstance(body, str) else orjson.dumps(body).decode())
            for format_, body in given
            if body is not None
        ]


class TemplateVariableResponse(ResponseModel):
    name: str
    required: bool
    sample: Any


class TemplateVersionResponse(ResponseModel):
    """One version. `locale` is empty for the default version; all locales share one sequence of numbers."""

    template_id: str
    version: int
    locale: str
    format: TemplateFormat
    subject: str
    created_at: Time


class TemplateResponse(TemplateVersionResponse):
    """`body` is the source as written; `html` is what is sent."""

    body: str
    html: str
    text: str | None
    variables: list[TemplateVariableResponse]


class TemplatePreviewResponse(ResponseModel):
    template_id: str
    version: int
    locale: str
    subject: str
    html: str
    text: str


class TemplateIssueResponse(ResponseModel):
    level: str
    code: str
    sentence: str
    where: str
    advice: Annotated[str, Field(description="How to fix it. Empty if the sentence says it.")]
    blocks: Annotated[list[str], Field(description="The IDs of the blocks of a design that have the issue.")]


class TemplateCheckResponse(ResponseModel):
    """Result of the pre-send check, errors first. An email that has only warnings can be sent."""

    may_go: bool
    findings: list[TemplateIssueResponse]


def parse_template(body: Any) -> TemplateRequest:
    return require_one_body(parse(TemplateRequest, body))


def require_one_body(request: TemplateRequest) -> TemplateRequest:
    if len(request.bodies()) != 1:
        raise RequestInvalid([FieldError("html", "REQUIRED", "give exactly one of html, mjml, markdown and blocks")])
    return request


def check_template_id(template_id: str) -> None:
    if not _TEMPLATE_ID.fullmatch(template_id):
        message = "must have 1 to 100 letters, digits, dots, hyphens and underscores"
        raise RequestInvalid([FieldError("templateId", "INVALID", message)])


def template_response(stored: StoredTemplate) -> TemplateResponse:
    return combine(
        TemplateResponse, stored, variables=[variable_response(each) for each in stored.expected_variables()]
    )


def variable_response(variable: Variable) -> TemplateVariableResponse:
    return combine(TemplateVariableResponse, variable, required=variable.is_required)


def template_preview_response(stored: StoredTemplate, rendered: RenderedEmail) -> TemplatePreviewResponse:
    return combine(TemplatePreviewResponse, rendered, stored, html=rendered.html or "", text=rendered.text or "")


def template_check_response(issues: Sequence[PresendIssue]) -> TemplateCheckResponse:
    return TemplateCheckResponse(may_go=not any(issue.level == "blocks" for issue in issues), findings=issues)
