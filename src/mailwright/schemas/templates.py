"""Answers about templates and images: how they look to an author."""

from collections.abc import Mapping
from typing import Any

from mailwright.content.formats import TemplateFormat
from mailwright.content.images import Image
from mailwright.content.presend_checks import PresendIssue
from mailwright.content.template import RenderedEmail
from mailwright.content.template_store import StoredTemplate
from mailwright.domain.clock import isoformat
from mailwright.schemas.answers import ResponseModel, Time


class TemplateVariableResponse(ResponseModel):
    name: str
    required: bool
    sample: Any


class TemplateVersionResponse(ResponseModel):
    """One version. `locale` is empty for the one that is for everyone; numbers count over all locales."""

    template_id: str
    version: int
    locale: str
    format: TemplateFormat
    subject: str
    created_at: Time


class TemplateResponse(TemplateVersionResponse):
    """`body` is what its author wrote, `html` what is sent."""

    body: str
    html: str
    text: str | None
    variables: list[TemplateVariableResponse]


class TemplateVersionListResponse(ResponseModel):
    versions: list[TemplateVersionResponse]


class TemplateSummaryResponse(ResponseModel):
    """A template with the newest version of each locale, the one for everyone first."""

    template_id: str
    newest: list[TemplateVersionResponse]


class TemplateListResponse(ResponseModel):
    templates: list[TemplateSummaryResponse]
    next_after: str | None


class TemplateDiffResponse(ResponseModel):
    """In the form of `diff -u`; empty where nothing differs."""

    difference: str


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


class TemplateCheckResponse(ResponseModel):
    """What blocks comes first; a mail with nothing but warnings may go."""

    may_go: bool
    findings: list[TemplateIssueResponse]


class ImageResponse(ResponseModel):
    """`name` is what templates call it, `url` what readers load."""

    name: str
    url: str
    size_bytes: int
    created_at: Time


class ImageListResponse(ResponseModel):
    images: list[ImageResponse]
    next_cursor: str | None


def version_line(stored: StoredTemplate) -> dict[str, Any]:
    return {
        "templateId": stored.template_id,
        "version": stored.version,
        "locale": stored.locale,
        "format": stored.format,
        "subject": stored.subject,
        "createdAt": isoformat(stored.created_at),
    }


def template(stored: StoredTemplate) -> dict[str, Any]:
    return {
        **version_line(stored),
        "body": stored.body,
        "html": stored.html,
        "text": stored.text,
        "variables": [
            {"name": each.name, "required": each.is_required, "sample": each.sample}
            for each in stored.expected_variables()
        ],
    }


def template_line(newest: Mapping[str, StoredTemplate]) -> dict[str, Any]:
    lines = [version_line(stored) for _, stored in sorted(newest.items())]
    return {"templateId": lines[0]["templateId"], "newest": lines}


def preview(stored: StoredTemplate, rendered: RenderedEmail) -> dict[str, Any]:
    return {
        "templateId": stored.template_id,
        "version": stored.version,
        "locale": stored.locale,
        "subject": rendered.subject,
        "html": rendered.html or "",
        "text": rendered.text or "",
    }


def preflight(findings: list[PresendIssue]) -> dict[str, Any]:
    return {
        "mayGo": not any(each.level == "blocks" for each in findings),
        "findings": [
            {"level": each.level, "code": each.code, "sentence": each.sentence, "where": each.where}
            for each in findings
        ],
    }


def image(found: Image, public_url: str) -> dict[str, Any]:
    return {
        "name": found.name,
        "url": found.url(public_url),
        "sizeBytes": found.size_bytes,
        "createdAt": isoformat(found.created_at),
    }
