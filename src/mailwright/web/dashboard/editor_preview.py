"""The preview beside an editor: the form rendered as an email in a frame, with errors and warnings below it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import Request
from starlette.responses import Response

from mailwright.content.presend_checks import PresendIssue
from mailwright.content.template import InvalidSubject, InvalidTemplate, RenderedEmail
from mailwright.domain.errors import MailwrightError
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.web.dashboard import previews
from mailwright.web.dashboard.forms import Fields
from mailwright.web.dashboard.shell import email_frame, fragment
from mailwright.web.session import Visitor


@dataclass(frozen=True, slots=True)
class EditorPreview:
    """`describe` turns an error into a sentence."""

    form: Fields
    rendering: Awaitable[RenderedEmail]
    describe: Callable[[MailwrightError], str]

    async def frame(self) -> Response:
        """Return the email for the preview frame. Nothing is stored."""
        try:
            rendered = await self.rendering
        except MailwrightError as error:
            return email_frame(previews.notice(self.describe(error)))
        return email_frame(previews.preview_html(rendered, is_dark=self.form["scheme"] == "dark"))

    async def details(
        self,
        request: Request,
        visitor: Visitor,
        check: Callable[[RenderedEmail], Awaitable[Sequence[PresendIssue]]],
        *,
        marks_lines: bool = True,
        **values: Any,
    ) -> Response:
        """Return subject, plain text, errors and warnings of the preview.

        `check` returns the issues of the pre-send check.
        `marks_lines`: whether line numbers in template errors match the lines in the editor.
        """
        values = {"rendered": None, "issues": [], "problem": None, "line": None, "has_dark": False, **values}
        try:
            rendered = await self.rendering
        except MailwrightError as error:
            line = error.line if marks_lines and isinstance(error, InvalidTemplate) else None
            is_subject = isinstance(error, InvalidSubject)
            values |= {"problem": self.describe(error), "line": line, "in_subject": is_subject}
        else:
            has_dark = previews.has_dark_style(rendered.html or "")
            values |= {"rendered": rendered, "issues": await check(rendered), "has_dark": has_dark}
        template = "campaigns/preview_details.html"
        return fragment(request, visitor, template, form=self.form, **values)
