"""Every parser of foreign bytes returns a value or raises an error of the domain, whatever it reads.

Each parser gets real input with random changes, so that most of it is still parsed.
"""

import gzip
import io
import json
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openpyxl import Workbook

from mailwright.audience.importing.file_format import FileUnreadable
from mailwright.audience.importing.plan import ImportOptions, make_plan, make_preview
from mailwright.audience.importing.spreadsheets import as_csv
from mailwright.audience.switching.archives import unpacked
from mailwright.audience.switching.exports import ExportFile
from mailwright.content.blocks.feed import read_feed
from mailwright.content.raw import parse_raw, with_crlf
from mailwright.domain.encoded_words import decode_words
from mailwright.domain.errors import MailwrightError
from mailwright.events.bounces import parse_bounce_mail
from mailwright.events.bounces.author import find_author
from mailwright.events.bounces.email_parts import parse_headers
from mailwright.events.dmarc.parse import parse_file
from mailwright.events.dmarc.report_email import parse_report_email
from mailwright.providers.ses.sns import parse_envelope
from tests.dmarc import a_report, a_row, an_email, gzipped, zipped
from tests.examples import examples
from tests.unit.events.bounce_emails import ORIGINAL

PIECES: Final = (
    *(b"\x00", b"\xff\xfe", b"=?UTF-8?B?SGVsb?=", b"=?x-none?Q?=ff?=", b'"', b"<", b"(", b"\r\n\r\n", b"\n,;\t"),
    *("\u202e\ud7ff\U0010ffff".encode(), b"{" * 40, b"[1e999]", b"99999999999999999999", b"PK\x03\x04", b": "),
)


def _csv(content: bytes) -> object:
    return _import(content, "contacts.csv")


def _spreadsheet(content: bytes) -> object:
    return _import(content, "contacts.xlsx")


def _import(content: bytes, name: str) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        with as_csv(path, largest=1_000_000) as readable:
            return make_preview(readable.path, make_plan(readable.path, ImportOptions()))


def _archive(content: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export.zip"
        path.write_bytes(content)
        with unpacked([ExportFile(path)], largest=1_000_000) as found:
            return [each.path.read_bytes() for each in found]


def _zip() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("subscribed.csv", "email\n" + "".join(f"{n}@example.com\n" for n in range(99)))
    return content.getvalue()


def _workbook() -> bytes:
    workbook, content = Workbook(), io.BytesIO()
    workbook.active.append(["email", "name", "since"])
    workbook.active.append(["ada@example.com", "Ada", 45_000.5])
    workbook.save(content)
    return content.getvalue()


@dataclass(frozen=True, slots=True)
class Parser:
    read: Callable[[bytes], object]
    sample: bytes


ENVELOPE = {
    "Type": "Notification",
    "MessageId": "m",
    "TopicArn": "arn:aws:sns:eu-west-1:123456789012:events",
    "Message": "{}",
    "Timestamp": "2026-11-01T10:00:00.000Z",
    "SignatureVersion": "2",
    "Signature": "AAAA",
    "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem",
}
HEADERS = (
    b'From: "Ada, L." <ada@example.com> (Ada), bob@example.com\r\nSubject: =?UTF-8?Q?H=C3=AA?=\r\nReply-To: x:;\r\n'
)
REPORT = a_report(a_row(), begins=1_700_006_400)
RSS = (
    b'<?xml version="1.0"?><rss version="2.0" xml:base="https://blog.example/"><channel><item>'
    b"<title>Post &amp; more</title><link>/1</link><guid>urn:1</guid>"
    b"<description><![CDATA[<p>Hi</p>]]></description></item></channel></rss>"
)
ATOM = (
    b'<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://blog.example/b/"><entry><id>urn:2</id>'
    b'<title type="html">&lt;i&gt;Two&lt;/i&gt;</title><link href="2"/><content>Text</content></entry></feed>'
)
JSON_FEED = json.dumps(
    {
        "version": "https://jsonfeed.org/version/1.1",
        "items": [{"id": 3, "url": "/3", "title": "Three", "content_html": "<p>Hi</p>", "image": "i.png"}],
    }
).encode()
UNSUBSCRIBE = b"From: ada@example.com\r\nTo: leave+018cc251@example.com\r\nSubject: unsubscribe\r\n\r\nunsubscribe\r\n"
# A winmail.dat, a calendar, an email inside an email, and names in the formats of RFC 2231 and RFC 2047.
ODD_ATTACHMENTS = (
    b"From: ada@example.com\r\nTo: bob@example.com\r\nSubject: Hello\r\nMIME-Version: 1.0\r\n"
    b'Content-Type: multipart/mixed; boundary="edge"\r\n\r\n'
    b"--edge\r\nContent-Type: application/ms-tnef; name=winmail.dat\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    b"eJ8+IgEQAQaQCAAEAAAAAAABAAEAAQeQBgAIAAAA5AQ=\r\n"
    b"--edge\r\nContent-Type: text/calendar; charset=utf-7; method=REPLY\r\n"
    b"Content-Disposition: attachment; filename*0*=utf-8''%E2%82; filename*1*=%AC%20rates\r\n\r\nBEGIN:VCALENDAR\r\n"
    b"--edge\r\nContent-Type: message/rfc822; name==?utf-8?q?=E2=82?=\r\n\r\nSubject: Inner\r\n\r\nHi\r\n--edge--\r\n"
)
PARSERS: Final = {
    "raw email": Parser(lambda content: parse_raw(with_crlf(content)), ORIGINAL.encode()),
    "headers": Parser(lambda content: find_author(parse_headers(content)), HEADERS),
    "encoded words": Parser(lambda content: decode_words(content.decode("utf-8", "replace")), HEADERS),
    "SNS envelope": Parser(parse_envelope, json.dumps(ENVELOPE).encode()),
    "CSV import": Parser(_csv, b'email;name;since\nada@example.com;Ada;2026-01-01\nbob@example.com;"B";1.2.26\n'),
    "zipped export": Parser(_archive, _zip()),
    "spreadsheet import": Parser(_spreadsheet, _workbook()),
    "RSS feed": Parser(lambda content: read_feed(content, "https://blog.example/"), RSS),
    "Atom feed": Parser(lambda content: read_feed(content, "https://blog.example/"), ATOM),
    "JSON feed": Parser(lambda content: read_feed(content, "https://blog.example/"), JSON_FEED),
    "packed feed": Parser(read_feed, gzip.compress(RSS, mtime=0)),
    "DMARC report": Parser(lambda content: parse_file(content, 0, "report.xml"), REPORT),
    "DMARC report, gzip": Parser(lambda content: parse_file(content, 0, "report.xml.gz"), gzipped(REPORT)),
    "DMARC report, zip": Parser(lambda content: parse_file(content, 0, "report.zip"), zipped(REPORT)),
    "DMARC email": Parser(
        lambda content: parse_report_email(content, 0), an_email([("report.zip", zipped(REPORT), "application/zip")])
    ),
    "unsubscribe request": Parser(parse_bounce_mail, UNSUBSCRIBE),
    "odd attachments": Parser(lambda content: (parse_raw(content), parse_bounce_mail(content)), ODD_ATTACHMENTS),
}


@pytest.mark.parametrize("name", PARSERS)
@settings(deadline=None, max_examples=examples(50), suppress_health_check=list(HealthCheck))
@given(
    changes=st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from(PIECES) | st.binary(max_size=6), st.integers(0, 30)), max_size=6
    ),
    length=st.floats(0, 1),
)
def test_changed_input_is_read_or_refused(name: str, changes: list[tuple[float, bytes, int]], length: float) -> None:
    parser, content = PARSERS[name], PARSERS[name].sample
    for share, piece, dropped in changes:
        place = int(len(content) * share)
        content = content[:place] + piece + content[place + dropped :]
    content = content if length > 0.3 else content[: int(len(content) * length * 3)]
    with suppress(MailwrightError):
        parser.read(content)


@pytest.mark.parametrize("name", PARSERS)
@settings(deadline=None, max_examples=examples(50), suppress_health_check=list(HealthCheck))
@given(content=st.binary(max_size=300))
def test_random_bytes_are_read_or_refused(name: str, content: bytes) -> None:
    with suppress(MailwrightError):
        PARSERS[name].read(content)


@pytest.mark.parametrize("place", range(40, 140, 5))
def test_damaged_archive_is_refused(place: int) -> None:
    content = _zip()
    with pytest.raises(FileUnreadable):
        _archive(content[:place] + b"\xff\x00\xff" + content[place + 3 :])
