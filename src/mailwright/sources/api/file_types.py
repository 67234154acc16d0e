"""The media types of attached files: the same on every machine, and the same wherever email is accepted."""

import mimetypes
from typing import Final

UNKNOWN_TYPE: Final = "application/octet-stream"
# Types that programs state for every file, so that they say nothing.
_SAY_NOTHING: Final = frozenset(
    {"", UNKNOWN_TYPE, "binary/octet-stream", "application/x-download", "application/force-download"}
)
# The types of compressed files, by the names that `mimetypes` gives to compressions.
_COMPRESSED_TYPES: Final = {
    "gzip": "application/gzip",
    "bzip2": "application/x-bzip2",
    "xz": "application/x-xz",
    "compress": "application/x-compress",
    "br": "application/x-brotli",
}
# Types of common files that the standard library lacks or has under an old name.
_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
_OPEN_DOCUMENT: Final = "application/vnd.oasis.opendocument"
_MORE_TYPES: Final = {
    ".7z": "application/x-7z-compressed",
    ".aac": "audio/aac",
    ".asc": "application/pgp-keys",
    ".docx": f"{_OFFICE}.wordprocessingml.document",
    ".epub": "application/epub+zip",
    ".flac": "audio/flac",
    ".gpx": "application/gpx+xml",
    ".ics": "text/calendar",
    ".jsonl": "application/jsonl",
    ".log": "text/plain",
    ".m4a": "audio/mp4",
    ".md": "text/markdown",
    ".odp": f"{_OPEN_DOCUMENT}.presentation",
    ".ods": f"{_OPEN_DOCUMENT}.spreadsheet",
    ".odt": f"{_OPEN_DOCUMENT}.text",
    ".ogg": "audio/ogg",
    ".p7s": "application/pkcs7-signature",
    ".pkpass": "application/vnd.apple.pkpass",
    ".pptx": f"{_OFFICE}.presentationml.presentation",
    ".rar": "application/vnd.rar",
    ".rtf": "application/rtf",
    ".sig": "application/pgp-signature",
    ".vcf": "text/vcard",
    ".webp": "image/webp",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
    ".xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}


def _known_types() -> mimetypes.MimeTypes:
    """Return the types of the standard library and ours, without those that happen to be installed on the machine."""
    known = mimetypes.MimeTypes(filenames=())
    for extension, content_type in _MORE_TYPES.items():
        known.add_type(content_type, extension)
    return known


_KNOWN: Final = _known_types()


def type_of_file(filename: str, stated: str | None = None) -> str:
    """Return the stated media type of a file, or the type of its file name's extension if it states none.

    A compressed file has the type of its compression. Extensions are read in any case, except `.Z`, which differs from
    `.z`.
    """
    if stated is not None and stated.partition(";")[0].strip().lower() not in _SAY_NOTHING:
        return stated
    found, compression = _KNOWN.guess_type(filename)
    if compression is None:
        found, compression = _KNOWN.guess_type(filename.lower())
    return found or UNKNOWN_TYPE if compression is None else _COMPRESSED_TYPES.get(compression, UNKNOWN_TYPE)
