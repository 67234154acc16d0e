"""Decode the encoded words (RFC 2047) of headers that others wrote. Any text is accepted."""

import re
from binascii import Error, a2b_base64, a2b_qp
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

# Longer values are cut, because some of the standard library's decoders take quadratic time.
MAX_LENGTH: Final = 4 * 1024

# A charset may have a language after it (RFC 2231). Many programs write blanks and question marks inside a word.
_WORD: Final = re.compile(r"=\?([^?*\s]{1,60})(?:\*[^?\s]{0,60})?\?([bq])\?([^\r\n]*?)\?=", re.IGNORECASE)
# Codecs of the standard library that are not charsets of email. Some of them decode in quadratic time.
_NOT_CHARSETS: Final = frozenset({"idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape"})
# Charsets under whose names programs write characters of their larger successors.
_SUCCESSORS: Final = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso-2022-jp": "iso-2022-jp-3",
    "ks_c_5601-1987": "cp949",
    "euc-kr": "cp949",
    "shift_jis": "cp932",
}


def decode_words(value: str) -> str:
    """Decode the encoded words of a header; keep words that cannot be decoded as they are. A very long text is cut."""
    if "=?" not in value:
        return value
    if len(value) > MAX_LENGTH:
        value = value[:MAX_LENGTH].rsplit(None, 1)[0]
    # A lone surrogate, which UTF-7 can produce, cannot be stored or sent.
    return "".join(_pieces(value)).encode("utf-8", "replace").decode()


def decode_charset(content: bytes, charset: str, errors: str = "strict") -> str | None:
    """Decode bytes in a declared charset. Return None if it is no charset of email, or they do not fit it."""
    name = charset.lower()
    if name in _NOT_CHARSETS:
        return None
    for each in (name, _SUCCESSORS.get(name, "")):
        with suppress(LookupError, ValueError):  # The charset is unknown or its name invalid, or the bytes are.
            return content.decode(each, errors)
    return None


def decode_text(content: bytes, charset: str) -> str:
    """Decode the text of a part of an email. Bytes that do not fit are replaced, and other charsets read as UTF-8."""
    text = decode_charset(content, charset, "replace") or content.decode("utf-8", "replace")
    return text.encode("utf-8", "replace").decode()  # UTF-7 can produce lone surrogates.


def _pieces(value: str) -> Iterator[str]:
    """Yield the text between the words and the decoded words.

    White space between two words is dropped. The bytes of neighbouring words of the same charset are decoded together,
    because some programs split a character between them.
    """
    end = 0  # of the last word that was decoded
    charset, content = "", b""
    for word in _WORD.finditer(value):
        decoded = _bytes(word[2], word[3])
        if decoded is None or _text(decoded, word[1]) is None:
            continue
        between, stated = value[end : word.start()], word[1].lower()
        is_next = bool(charset) and not between.strip()
        if is_next and stated == charset:
            content += decoded
        else:
            yield _text(content, charset) or ""
            yield "" if is_next else between
            charset, content = stated, decoded
        end = word.end()
    yield _text(content, charset) or ""
    yield value[end:]


def _bytes(encoding: str, text: str) -> bytes | None:
    """Return the bytes of a word; None if its base64 is damaged."""
    written = text.encode("utf-8", "replace")
    if encoding in "qQ":
        return a2b_qp(written, header=True)
    with suppress(Error):
        # Padding is often missing, and ignored if there is too much of it.
        return a2b_base64(written.rstrip(b"=") + b"==")
    return None


def _text(content: bytes, charset: str) -> str | None:
    """Decode with the stated charset, otherwise as UTF-8. Return None if the charset is unknown and it is not UTF-8."""
    attempts = (charset, "strict"), ("utf-8", "strict"), (charset, "replace")
    found = (decode_charset(content, name, errors) for name, errors in attempts)
    return next((text for text in found if text is not None), None)
