"""Read the forms of the public pages."""

from collections.abc import Mapping
from email.parser import BytesParser
from urllib.parse import parse_qs

from starlette.requests import Request

from mailwright.web.errors import BodyTooLarge

# The maximum size of a form. Even a form with a thousand lists is far smaller.
MAX_FORM_BYTES = 256 * 1024
MAX_FIELDS = 4_000


async def read_form(request: Request) -> Mapping[str, list[str]]:
    """Parse a URL-encoded or multipart form. Any other body yields no fields."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_FORM_BYTES:
            raise BodyTooLarge("The form is too large.")
    media_type = request.headers.get("content-type", "")
    if media_type.lower().startswith("multipart/form-data"):
        return _multipart(media_type, bytes(content))
    try:
        return parse_qs(content.decode("utf-8", "replace"), max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise BodyTooLarge("The form has too many fields.") from error


def _multipart(media_type: str, content: bytes) -> Mapping[str, list[str]]:
    """Parse a multipart form. It has the structure of an email."""
    header = b"Content-Type: " + media_type.encode("latin-1", "replace") + b"\r\n\r\n"
    try:
        parsed = BytesParser().parsebytes(header + content)
    except ValueError:  # a boundary in an invalid charset
        return {}
    fields: dict[str, list[str]] = {}
    for part in parsed.walk():
        name = part.get_param("name", header="content-disposition")
        value = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(value, bytes):
            fields.setdefault(name, []).append(value.decode("utf-8", "replace"))
    return fields
