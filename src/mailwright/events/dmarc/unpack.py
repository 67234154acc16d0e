"""Unpack untrusted report files. The content, not the name, decides whether a file is XML, gzip or zip."""

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from typing import Final

MAX_FILE_BYTES: Final = 10 * 1024 * 1024
MAX_XML_BYTES: Final = 20 * 1024 * 1024
# The maximum ratio of unpacked to packed size. Reports are repetitive, but a higher ratio indicates a zip bomb.
MAX_RATIO: Final = 300
RATIO_FROM_BYTES: Final = 1024 * 1024
MAX_MEMBERS: Final = 20
_CHUNK: Final = 64 * 1024
_GZIP: Final = b"\x1f\x8b"
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")  # the second begins an empty archive
_REPORT: Final = re.compile(rb"<(?:[A-Za-z0-9_]{1,20}:)?feedback\b", re.IGNORECASE)
_ENCRYPTED: Final = 0x1
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class UnusableFile(Exception):
    """The file cannot be used as a report. The message is the end of a sentence."""


def looks_like_report(content: bytes) -> bool:
    """Return whether the first bytes are those of an archive or of a report."""
    return content.startswith((_GZIP, *_ZIP)) or _REPORT.search(content[:4_000].replace(b"\0", b"")) is not None


def unpack(content: bytes) -> list[bytes]:
    """Return the XML documents in a file, or raise `UnusableFile`."""
    if len(content) > MAX_FILE_BYTES:
        raise UnusableFile(f"it is larger than {MAX_FILE_BYTES // 1024**2} MB")
    if content.startswith(_GZIP):
        return [_gunzip(content)]
    if content.startswith(_ZIP):
        return _unzip(content)
    return [content]


def _gunzip(content: bytes) -> bytes:
    """Decompress all members. Bytes after the last one are ignored, because some reporters append a line break."""
    limit, chunks = _Limit(len(content)), []
    rest, members = content, 0
    while rest.startswith(_GZIP):
        members += 1  # Each one copies the rest of the file.
        if members > MAX_MEMBERS:
            raise UnusableFile(f"its gzip data has more than {MAX_MEMBERS} parts")
        stream = zlib.decompressobj(wbits=31)
        try:
            while not stream.eof:
                chunk = stream.decompress(rest, _CHUNK)
                rest = stream.unconsumed_tail
                if not chunk and not rest and not stream.eof:
                    raise UnusableFile("its gzip data is incomplete")
                limit.add(len(chunk))
                chunks.append(chunk)
        except zlib.error as error:
            raise UnusableFile("its gzip data is damaged") from error
        rest = stream.unused_data
    return b"".join(chunks)


def _unzip(content: bytes) -> list[bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [each for each in archive.infolist() if _is_document(each)]
            if len(members) > MAX_MEMBERS:
                raise UnusableFile(f"its archive has more than {MAX_MEMBERS} files")
            limit = _Limit(len(content))
            documents = [b"".join(_read(archive, each, limit)) for each in members]
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, OSError) as error:
        raise UnusableFile("its zip archive is damaged") from error
    if not documents:
        raise UnusableFile("its archive is empty")
    return documents


def _is_document(member: zipfile.ZipInfo) -> bool:
    return not member.is_dir() and not member.filename.startswith("__MACOSX/")


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo, limit: "_Limit") -> Iterator[bytes]:
    if member.flag_bits & _ENCRYPTED:
        raise UnusableFile("its zip archive is encrypted")
    if member.compress_type not in _METHODS:
        raise UnusableFile("its zip archive uses an unknown compression")
    with archive.open(member) as file:
        while chunk := file.read(_CHUNK):
            limit.add(len(chunk))
            yield chunk


class _Limit:
    """Stops the decompression of a file that becomes too large, in total or compared with its size."""

    def __init__(self, packed: int) -> None:
        self._packed = packed
        self._size = 0

    def add(self, size: int) -> None:
        self._size += size
        if self._size > MAX_XML_BYTES:
            raise UnusableFile(f"it is larger than {MAX_XML_BYTES // 1024**2} MB when decompressed")
        if self._size > max(RATIO_FROM_BYTES, MAX_RATIO * self._packed):
            raise UnusableFile(f"it grows more than {MAX_RATIO}-fold when decompressed")
