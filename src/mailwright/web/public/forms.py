"""Forms, as browsers send them."""

from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.requests import Request

from mailwright.web.errors import BodyTooLarge

# A form of a thousand lists is far smaller.
LARGEST_FORM = 256 * 1024
MOST_FIELDS = 4_000


async def read_form(request: Request) -> Mapping[str, list[str]]:
    """Any other body has no fields, and so changes nothing."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > LARGEST_FORM:
            raise BodyTooLarge("The form is larger than any of ours.")
    try:
        return parse_qs(content.decode("utf-8", "replace"), max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise BodyTooLarge("The form has more fields than any of ours.") from error
