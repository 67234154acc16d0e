"""Read the forms of the public pages."""

from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.requests import Request

from mailwright.web.errors import BodyTooLarge

# The maximum size of a form. One with a thousand lists is far smaller.
MAX_FORM_BYTES = 256 * 1024
MAX_FIELDS = 4_000


async def read_form(request: Request) -> Mapping[str, list[str]]:
    """Parse a URL-encoded form. Any other body yields no fields."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_FORM_BYTES:
            raise BodyTooLarge("The form is too large.")
    try:
        return parse_qs(content.decode("utf-8", "replace"), max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise BodyTooLarge("The form has too many fields.") from error
