"""Read an uploaded file: as the body of the request, or as a file of a form."""

from urllib.parse import unquote

from fastapi import Request
from starlette.datastructures import UploadFile

from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.web.bodies import read_bytes, too_large


@dataclass(frozen=True, slots=True)
class UploadedFile:
    name: str
    content: bytes
    alt: str = ""


async def read_upload(request: Request, max_bytes: int) -> UploadedFile:
    """Read one file. The field `file` of a form contains it; without a form, it is the body itself.

    The name of the file in the body is in the header `X-File-Name`, percent-encoded.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "multipart/form-data":
        return UploadedFile(name_of_body(request), await read_bytes(request, max_bytes))
    form = await request.form()
    try:
        file, alt = form.get("file"), form.get("alt")
        if not isinstance(file, UploadFile):
            raise InvalidInput("Choose a file.", field="file")
        content = await file.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise too_large(max_bytes, lazy_gettext("upload"))
        return UploadedFile(file.filename or "", content, alt if isinstance(alt, str) else "")
    finally:
        await form.close()


def name_of_body(request: Request) -> str:
    """Return the name of the file that is the body of the request."""
    return unquote(request.headers.get("x-file-name", ""))
