"""DMARC reports in the shapes of real reporters are read; hostile and damaged ones are refused with a reason."""

import gzip
import io
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mailwright.domain.clock import DAY
from mailwright.domain.dmarc import (
    Disposition,
    DkimResult,
    DmarcReport,
    NotCompared,
    PolicyEvidence,
    RefusedReport,
    ReporterComparison,
    receivers_of,
    suggest_policy,
)
from mailwright.events.bounces import parse_bounce_mail
from mailwright.events.bounces.model import OrdinaryEmail
from mailwright.events.dmarc.parse import MAX_ROWS, parse_file
from mailwright.events.dmarc.report_email import parse_report_email
from mailwright.events.dmarc.unpack import MAX_FILE_BYTES, MAX_MEMBERS, MAX_XML_BYTES, looks_like_report
from tests.dmarc import DOMAIN, a_report, a_row, an_email, gzipped, zipped
from tests.examples import examples

BEGINS = 1_700_006_400
NOW = (BEGINS + 2 * 86_400) * 1000
RFC_9990 = '<feedback xmlns="urn:ietf:params:xml:ns:dmarc-2.0"><version>1.0</version>'
RFC_7489 = '<?xml version="1.0"?>\n<dmarc:feedback xmlns:dmarc="http://dmarc.org/dmarc-xml/0.1"><version>1.0</version>'
NEW_POLICY = (
    "<p>quarantine</p><sp>none</sp><np>none</np><testing>{}</testing><discovery_method>treewalk</discovery_method>"
)

pytestmark = pytest.mark.promise("dmarc-reports")


def named(value: object) -> str:
    """Name a case without its content, which may be megabytes."""
    return value if isinstance(value, str) and len(value) < 40 else type(value).__name__


def report_of(content: bytes) -> DmarcReport:
    [found] = parse_file(content, NOW, "file")
    assert isinstance(found, DmarcReport), found
    return found


def reason_of(content: bytes) -> str:
    [found] = parse_file(content, NOW, "file")
    assert isinstance(found, RefusedReport), found
    return found.reason


def test_report_of_google_is_read() -> None:
    forwarded = a_row("2001:DB8::1", 2, spf="fail", reasons="<reason><type>forwarded</type><comment/></reason>")
    found = report_of(a_report(a_row(count=7), forwarded, begins=BEGINS))
    assert (found.reporter, found.report_id, found.domain) == ("google.com", "9391651994964116463", DOMAIN)
    assert (found.begins_at, found.ends_at) == (BEGINS * 1000, (BEGINS + 86_399) * 1000)
    assert (found.policy, found.is_partial, found.skipped_rows) == ("none", False, 0)
    first, second = found.rows
    assert (first.source_ip, first.messages, first.dkim, first.spf) == ("198.51.100.7", 7, True, True)
    assert first.dkim_results == (DkimResult(DOMAIN, "s1", "pass"),)
    assert (second.source_ip, second.spf, second.is_aligned, second.reasons) == (
        "2001:db8::1",
        False,
        True,
        ("forwarded",),
    )


@pytest.mark.parametrize(
    ("content", "policy", "is_partial"),
    [
        (a_report(begins=BEGINS, head=RFC_9990, policy=NEW_POLICY.format("n")), "quarantine", False),
        (a_report(begins=BEGINS, head=RFC_9990, policy=NEW_POLICY.format("y")), "quarantine", True),
        (a_report(begins=BEGINS, policy="<p>reject</p><pct>25</pct>"), "reject", True),
        (a_report(begins=BEGINS, policy="<p>Reject</p>"), "reject", False),
        (a_report(begins=BEGINS, policy=""), "none", False),
        (b"\xef\xbb\xbf\n  " + a_report(begins=BEGINS), "none", False),
        (a_report(begins=BEGINS).decode().replace("UTF-8", "UTF-16").encode("utf-16"), "none", False),
        (a_report(begins=BEGINS, reporter="Почта").decode().replace("UTF-8", "cp1251").encode("cp1251"), "none", False),
        (a_report(begins=BEGINS).replace(b"answer/2466580", b"answer/\xff\xfe"), "none", False),
    ],
    ids=named,
)  # fmt: skip
def test_standards_and_charsets_are_read(content: bytes, policy: str, *, is_partial: bool) -> None:
    found = report_of(content)
    assert (found.policy, found.is_partial, found.rows[0].messages) == (policy, is_partial, 10)


SCHEMA = b'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="http://dmarc.org/dmarc-xml/0.1">\n'


@pytest.mark.parametrize("end", [b"", b"</xs:schema>\n", b"\n-- \nSent by the gateway", b"<!-- end -->"])
@pytest.mark.parametrize("begin", [b"", SCHEMA, SCHEMA.replace(b"xs:schema", b"schema"), b"Warning: x in y.php\n"])
@pytest.mark.parametrize("is_declared", [True, False])
def test_schema_and_text_around_the_report_are_ignored(begin: bytes, end: bytes, *, is_declared: bool) -> None:
    declaration, _, report = a_report(begins=BEGINS).partition(b"<feedback")
    content = b"<feedback" + report.strip() + end
    if begin.startswith(b"<"):
        content = (declaration if is_declared else b"") + begin + content
    else:
        content = begin + (declaration if is_declared else b"") + content
    assert report_of(content).rows[0].messages == 10


def test_report_with_undeclared_prefix_is_read() -> None:
    content = a_report(begins=BEGINS).replace(b"<feedback", b"<d:feedback").replace(b"</feedback", b"</d:feedback")
    assert looks_like_report(content)
    assert report_of(content).rows[0].messages == 10


def test_report_that_ends_when_it_begins_is_read() -> None:
    content = a_report(begins=BEGINS).replace(str(BEGINS + 86_399).encode(), str(BEGINS).encode())
    found = report_of(content)
    assert found.begins_at == found.ends_at == BEGINS * 1000


def test_namespace_prefix_is_ignored() -> None:
    content = a_report(begins=BEGINS, head=RFC_7489).replace(b"</feedback>", b"</dmarc:feedback>")
    assert report_of(content).rows[0].is_aligned


def test_peculiar_rows_are_read() -> None:
    bare = "<record><row><source_ip>192.0.2.9</source_ip><count>3</count></row></record>"
    evaluated = (
        "<record><row><source_ip>192.0.2.8</source_ip><count>4</count></row><identifiers>"
        f"<header_from>News@{DOMAIN.upper()}</header_from></identifiers><auth_results>"
        f"<dkim><domain>other.example</domain><result>pass</result></dkim><dkim><domain>news.{DOMAIN}</domain>"
        "<selector>S1</selector><result>Pass</result></dkim><spf><domain/><result>none</result></spf></auth_results></record>"
    )
    rows = report_of(a_report(bare, evaluated, a_row(dkim="Pass", disposition="pass"), begins=BEGINS)).rows
    assert [(row.messages, row.dkim, row.spf, row.header_from) for row in rows] == [
        (3, False, False, DOMAIN),
        (4, True, False, DOMAIN),
        (10, True, True, DOMAIN),
    ]
    assert [each.selector for each in rows[1].dkim_results] == ["", "s1"]
    assert (rows[0].disposition, rows[2].disposition) == (Disposition.UNKNOWN, Disposition.NONE)


# Rows and metadata as reporters have written them, with an address that is no XML, missing and empty elements, and
# results that contradict the verdict.
VENDORS: dict[str, tuple[bytes, tuple[bool, bool], str]] = {
    "Google": (a_report(begins=BEGINS), (True, True), ""),
    "Microsoft": (
        a_report(
            a_row(envelope_to="hotmail.com", selector=""),
            begins=BEGINS,
            ends=BEGINS + 86_400,
            reporter="Outlook.com",
            head='<?xml version="1.0"?>\n<feedback xmlns:xsd="http://www.w3.org/2001/XMLSchema" '
            'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">\n<version>1.0</version>',
        ),
        (True, True),
        "hotmail.com",
    ),
    "Yahoo": (
        a_report(a_row(reasons="<reason><type/><comment></comment></reason>"), begins=BEGINS, reporter="Yahoo! Inc."),
        (True, True),
        "",
    ),
    "Mail.ru": (
        a_report(a_row(disposition=""), begins=BEGINS, reporter="Mail.Ru").replace(b"<pct>100</pct>", b"<pct/>"),
        (True, True),
        "",
    ),
    "Fastmail": (
        a_report(a_row(spf="fail"), begins=BEGINS, reporter="FastMail Pty Ltd", policy="<p>none</p><fo>0</fo>"),
        (True, False),
        "",
    ),
    "Zoho": (  # Its verdict differs from the results.
        a_report(begins=BEGINS, reporter="zoho.com").replace(
            b"<dkim>pass</dkim><spf>pass</spf>", b"<dkim>fail</dkim><spf>fail</spf>"
        ),
        (False, False),
        "",
    ),
    "empty SPF": (
        a_report(a_row(dkim="fail", spf="none"), begins=BEGINS).replace(
            b"<spf><domain>acme.example</domain>", b"<spf><domain></domain>"
        ),
        (False, False),
        "",
    ),
    "bracketed address": (
        a_report(begins=BEGINS).replace(b"noreply-dmarc-support@google.com", b"<noreply@google.com>"),
        (True, True),
        "",
    ),
    "stray text": (a_report(begins=BEGINS).replace(b"</sp>", b"</sp>11"), (True, True), ""),
    "latin-1 comment": (
        a_report(begins=BEGINS).replace(b"https://support", b"Gr\xfc\xdfe https://support"),
        (True, True),
        "",
    ),
}


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("pack", [bytes, gzipped, zipped], ids=["xml", "gzip", "zip"])
@pytest.mark.parametrize("kind", ["application/zip", "application/gzip", "text/plain", "application/octet-stream"])
def test_shapes_of_reporters_are_read(vendor: str, pack: Callable[[bytes], bytes], kind: str) -> None:
    content, verdict, envelope_to = VENDORS[vendor]
    found = parse_report_email(an_email([("report", pack(content), kind)], text="See the file."), NOW)
    assert found is not None
    [report] = found.results
    assert isinstance(report, DmarcReport), report
    [row] = report.rows
    assert ((row.dkim, row.spf), row.envelope_to or "", row.messages) == (verdict, envelope_to, 10)


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (a_row(count=-1), "has the number of messages '-1'"),
        (a_row(count="many"), "has the number of messages 'many'"),
        (a_row(count=10**12), "has the number of messages '1000000000000'"),
        (a_row("nowhere"), "has no IP address but 'nowhere'"),
        (a_row(""), "has no IP address but ''"),
        (a_row("fe80::1%x"), "has an IP address with a scope, 'fe80::1%x'"),
    ],
)
def test_bad_row_does_not_stop_the_others(bad: str, problem: str) -> None:
    found = report_of(a_report(a_row(count=5), bad, begins=BEGINS))
    assert ([row.messages for row in found.rows], found.skipped_rows) == ([5], 1)
    assert str(found.skipped_text).startswith(f"1 row was skipped, because row 2 {problem}")


def test_report_without_id_is_identified_by_its_content() -> None:
    one, same, other = (
        report_of(a_report(a_row(count=count), begins=BEGINS, report_id="")).report_id for count in (1, 1, 2)
    )
    assert one == same != other


@pytest.mark.parametrize("pack", [lambda each: each, gzipped, zipped, lambda each: gzipped(each) + b"\r\n"])
def test_packed_reports_are_read(pack: object) -> None:
    assert report_of(pack(a_report(begins=BEGINS))).reporter == "google.com"  # type: ignore[operator]


def test_archive_with_several_reports_and_paths_is_read() -> None:
    documents = [a_report(begins=BEGINS, report_id=str(number)) for number in range(3)]
    found = parse_file(zipped(*documents, name="../../etc/passwd"), NOW)
    assert [each.report_id for each in found if isinstance(each, DmarcReport)] == ["0", "1", "2"]


def encrypted(content: bytes) -> bytes:
    """Set the flag of encryption in both headers of the archive."""
    changed = bytearray(zipped(content))
    changed[6] |= 1
    changed[changed.index(b"PK\x01\x02") + 8] |= 1
    return bytes(changed)


def compressed_with(method: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("report.xml", a_report(begins=BEGINS))
    return file.getvalue()


LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE feedback [<!ENTITY a "lol">'
    + "".join(f'<!ENTITY {new} "{f"&{old};" * 10}">' for old, new in zip("abcdefgh", "bcdefghi", strict=True))
    + "]><feedback><report_metadata><org_name>&i;</org_name></report_metadata></feedback>"
).encode()
EXTERNAL = b'<?xml version="1.0"?><!DOCTYPE feedback [<!ENTITY x SYSTEM "file:///etc/passwd">]><feedback>&x;</feedback>'


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (LAUGHS, "document type"),
        (EXTERNAL, "document type"),
        (gzipped(LAUGHS), "document type"),
        (b"<feedback>&undefined;</feedback>", "not valid XML"),
        (b"<feedback>" * 10_000, "nested"),
        (b"<feedback>" + b"<a/>" * 600_000 + b"</feedback>", "elements"),
        (a_report(begins=BEGINS)[:-20], "not valid XML"),
        (b"<feedback>\0</feedback>", "not valid XML"),
        (b"", "not valid XML"),
        (b"<html><body>Report</body></html>", "does not begin with"),
        (gzipped(b" " * (MAX_XML_BYTES + 1)), "-fold"),
        (gzipped(a_report(begins=BEGINS))[:-30], "gzip data is"),
        (b"\x1f\x8b" + b"\0" * 100, "gzip data is damaged"),
        (zipped(b"<a>" + b" " * 30_000_000), "-fold"),
        (zipped(*[b"<a/>"] * (MAX_MEMBERS + 1)), "more than"),
        (zipped(), "archive is empty"),
        (zipped(a_report(begins=BEGINS))[:200], "damaged"),
        (encrypted(a_report(begins=BEGINS)), "encrypted"),
        (compressed_with(zipfile.ZIP_LZMA), "unknown compression"),
        (b"x" * (MAX_FILE_BYTES + 1), "larger than 10 MB"),
        (zipped(zipped(a_report(begins=BEGINS))), "not valid XML"),
        (a_report(begins=BEGINS, reporter="").replace(b"noreply-dmarc-support@google.com", b""), "name its reporter"),
        (a_report(begins=BEGINS, domain="not a domain"), "not about a domain"),
        (a_report(begins=BEGINS, domain=""), "not about a domain"),
        (a_report(begins="soon", ends="later"), "no dates"),
        (a_report(begins="9" * 400, ends="9" * 400), "no dates"),
        (a_report(begins=BEGINS, ends=BEGINS - 1), "ends before"),
        (a_report(begins=BEGINS, ends=BEGINS + 5 * 86_400), "in the future"),
        (a_report(begins=302_832_000, ends=302_918_399), "before DMARC"),
        (a_report(begins=BEGINS - 60 * 86_400, ends=BEGINS), "more than 32 days"),
        (a_report(*["<record/>"] * (MAX_ROWS + 1), begins=BEGINS), "more than 20,000 rows"),
    ],
    ids=named,
)  # fmt: skip
def test_unusable_file_is_refused_with_its_reason(content: bytes, reason: str) -> None:
    assert reason in reason_of(content)


def test_bomb_is_not_decompressed_into_memory() -> None:
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(b" " * 1_000_000) for _ in range(400)) + packer.flush()
    tracemalloc.start()
    try:
        assert "larger than 20 MB when decompressed" in reason_of(bomb)
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


# Emails.


FILE = "google.com!acme.example!1700006400!1700092799.zip"


@pytest.mark.parametrize(
    ("files", "subject", "text"),
    [
        ([(FILE, zipped(a_report(begins=BEGINS)), "application/zip")], None, None),
        ([(FILE, gzipped(a_report(begins=BEGINS)), "application/octet-stream")], None, "Attached."),
        ([("report.pdf", a_report(begins=BEGINS), "application/pdf")], "Weekly numbers", "See the file."),
        ([("r.xml", a_report(begins=BEGINS), "text/xml")], "FW: something", "Hello"),
        ([("logo.png", b"\x89PNG", "image/png"), ("r.gz", gzipped(a_report(begins=BEGINS)), "text/plain")], None, "Hi"),
    ],
)
def test_report_is_found_in_an_email(
    files: list[tuple[str, bytes, str]], subject: str | None, text: str | None
) -> None:
    options = {"subject": subject} if subject else {}
    found = parse_report_email(an_email(files, text=text, **options), NOW)
    assert found is not None
    assert [type(each) for each in found.results] == [DmarcReport]


def test_all_attachments_of_an_email_are_read() -> None:
    files = [(f"{n}.xml.gz", gzipped(a_report(begins=BEGINS, report_id=str(n))), "application/gzip") for n in range(3)]
    found = parse_report_email(an_email([*files, ("bad.gz", b"\x1f\x8bbad", "application/gzip")]), NOW)
    assert found is not None
    assert [type(each) for each in found.results] == [DmarcReport] * 3 + [RefusedReport]


@pytest.mark.parametrize(
    "email",
    [
        an_email(
            [("photos.zip", zipped(b"photo", name="photo.jpg"), "application/zip")], subject="Re: Hello", text="Hi"
        ),
        an_email([("notes.xml", b"<notes/>", "text/xml")], subject="Notes", text="Hi"),
        an_email([], subject="Re: Report domain: acme.example", text="Which report?"),
        b"",
        b"Subject: hello\n\nworld",
    ],
    ids=named,
)
def test_other_email_is_not_a_report(email: bytes) -> None:
    assert parse_report_email(email, NOW) is None
    assert isinstance(parse_bounce_mail(email), OrdinaryEmail)


def test_returned_report_stays_a_bounce() -> None:
    head = b'Content-Type: multipart/report; report-type=delivery-status; boundary="b"\n\n--b\n'
    status = b"Content-Type: message/delivery-status\n\nReporting-MTA: dns; x\n\nFinal-Recipient: rfc822;a@b.example\n"
    file = b"--b\nContent-Type: text/xml\n\n" + a_report(begins=BEGINS)
    assert parse_report_email(head + status + b"Action: failed\nStatus: 5.1.1\n" + file + b"--b--\n", NOW) is None


def test_declared_report_without_file_is_refused() -> None:
    found = parse_report_email(an_email([], text="The file is too large."), NOW)
    assert found is not None
    [refused] = found.results
    assert isinstance(refused, RefusedReport)
    assert "no XML, gzip or zip file" in refused.reason


SAMPLES = [
    a_report(begins=BEGINS),
    zipped(a_report(begins=BEGINS)),
    gzipped(a_report(begins=BEGINS, head=RFC_9990)),
    an_email([(FILE, zipped(a_report(begins=BEGINS)), "application/zip")]),
    LAUGHS,
]
PIECES = [
    b"<",
    b"</record>",
    b"<record>",
    b"&#0;",
    b"<![CDATA[",
    b"\0",
    b"\xff",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"-1",
    b"!",
]


@settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(SAMPLES),
    st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 40), st.sampled_from(PIECES) | st.binary(max_size=8))),
)
@example(SAMPLES[0], [(0, 0, b"")])
def test_damaged_reports_are_read_or_refused(sample: bytes, changes: list[tuple[int, int, bytes]]) -> None:
    content = sample
    for at, length, piece in changes:
        content = content[:at] + piece + content[at + length :]
    results = [*parse_file(content, NOW), *(getattr(parse_report_email(content, NOW), "results", ()))]
    for each in results:
        if isinstance(each, RefusedReport):
            assert each.reason.endswith(".")
        else:
            assert each.begins_at < each.ends_at <= NOW + DAY
            assert all(0 < row.messages <= 10**9 for row in each.rows)


@settings(deadline=None, max_examples=examples(50))
@given(st.binary(max_size=3_000))
def test_random_bytes_are_refused(content: bytes) -> None:
    packed = [content, gzip.compress(content), zipped(content)]
    assert all(isinstance(each, RefusedReport) for one in packed for each in parse_file(one, NOW))


# What the reports mean.


def evidence(**changes: object) -> PolicyEvidence:
    values = {"policy": "none", "is_partial": False, "days": 20, "reporters": 3, "messages": 5_000, "failing": 50}
    values |= changes
    return PolicyEvidence(policies=frozenset([str(values["policy"])]), **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "policy", "text"),
    [
        ({}, "quarantine", "p=quarantine is justified"),
        ({"policy": "quarantine"}, "reject", "p=reject is justified"),
        ({"policy": "reject"}, None, "already reject"),
        ({"policy": None}, None, "No reports yet"),
        ({"failing": 101}, None, "Keep p=none: 2.0 % of the messages fail"),
        ({"policy": "quarantine", "failing": 60}, None, "Keep p=quarantine"),
        ({"days": 5, "messages": 20}, None, "5 of 14 days with reports, 20 of 100 messages"),
        ({"reporters": 1}, None, "1 of 2 reporters"),
        ({"is_partial": True}, None, "did not apply to all messages"),
    ],
)
def test_stricter_policy_needs_evidence(changes: dict[str, object], policy: str | None, text: str) -> None:
    advice = suggest_policy(evidence(**changes))
    assert advice.policy == policy
    assert text in advice.sentence


def compared(aligned: int, sent: int | None, reporter: str = "Outlook.com", unsigned: int = 0) -> str:
    reason = NotCompared.RECEIVERS_UNKNOWN if sent is None else None
    return ReporterComparison(reporter, 1, aligned, aligned, 0, sent, aligned, unsigned, reason).sentence


def test_comparison_counts_messages_of_others() -> None:
    assert "saw 10,212 aligned messages, Mailwright sent 10,200: 12 are not from Mailwright." in compared(
        10_212, 10_200
    )
    assert "domains that google.com hosts. 12 were not signed" in compared(10_212, 10_200, "google.com", 12)
    assert "the numbers agree" in compared(5, 5)
    failing = ReporterComparison("Outlook.com", 1, 1_000_000, 0, 0, 0, 0, 0, None).sentence
    assert failing.endswith("the numbers agree. 1,000,000 other messages with your domain in From failed DMARC.")
    fewer = ReporterComparison("Outlook.com", 1, 10, 3, 0, 5, 3, 0, None).sentence
    assert "2 failed DMARC, or are not in its reports. 7 other messages" in fewer
    assert "2 are not in its reports" in compared(3, 5)
    assert "saw 3 aligned messages, which cannot be compared" in compared(3, None)


def test_comparison_of_one_message_is_singular() -> None:
    one = ReporterComparison("Outlook.com", 1, 2, 1, 0, 0, 1, 1, None).sentence
    assert one.startswith("Outlook.com saw 1 aligned message, Mailwright sent 0: 1 is not from Mailwright.")
    assert one.endswith(
        "1 was not signed with a key in Mailwright. 1 other message with your domain in From failed DMARC."
    )
    assert "1 is not in its reports" in compared(3, 4)


def test_receivers_are_named_by_the_report_or_its_reporter() -> None:
    named = report_of(a_report(a_row(envelope_to="Contoso.example"), begins=BEGINS, reporter="Enterprise Outlook"))
    assert receivers_of(named) == ("contoso.example",)
    assert "gmail.com" in receivers_of(report_of(a_report(begins=BEGINS)))
    assert receivers_of(report_of(a_report(begins=BEGINS, reporter="small.example"))) == ()
