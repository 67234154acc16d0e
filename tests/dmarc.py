"""Builders of DMARC aggregate reports in the shapes of real reporters."""

import gzip
import io
import zipfile
from collections.abc import Sequence
from email.message import EmailMessage

DOMAIN = "acme.example"
DAY_SECONDS = 86_400


def a_row(
    source: str = "198.51.100.7",
    count: object = 10,
    *,
    dkim: str = "pass",
    spf: str = "pass",
    disposition: str = "none",
    header_from: str = DOMAIN,
    selector: str = "s1",
    envelope_to: str | None = None,
    reasons: str = "",
) -> str:
    """A record as Google writes it; with `envelope_to`, as Microsoft does."""
    to = f"<envelope_to>{envelope_to}</envelope_to>" if envelope_to else ""
    named = f"<selector>{selector}</selector>" if selector else ""
    return f"""  <record>
    <row>
      <source_ip>{source}</source_ip>
      <count>{count}</count>
      <policy_evaluated><disposition>{disposition}</disposition><dkim>{dkim}</dkim><spf>{spf}</spf>{reasons}</policy_evaluated>
    </row>
    <identifiers>{to}<header_from>{header_from}</header_from></identifiers>
    <auth_results>
      <dkim><domain>{header_from}</domain><result>{dkim}</result>{named}</dkim>
      <spf><domain>{header_from}</domain><result>{spf}</result></spf>
    </auth_results>
  </record>
"""


def a_report(
    *rows: str,
    begins: object,
    ends: object = None,
    reporter: str = "google.com",
    report_id: str = "9391651994964116463",
    domain: str = DOMAIN,
    policy: str = "<adkim>r</adkim><aspf>r</aspf><p>none</p><sp>none</sp><pct>100</pct>",
    head: str = '<?xml version="1.0" encoding="UTF-8" ?>\n<feedback>',
) -> bytes:
    ends = ends if ends is not None else int(str(begins)) + DAY_SECONDS - 1
    return f"""{head}
  <report_metadata>
    <org_name>{reporter}</org_name>
    <email>noreply-dmarc-support@google.com</email>
    <extra_contact_info>https://support.google.com/a/answer/2466580</extra_contact_info>
    <report_id>{report_id}</report_id>
    <date_range><begin>{begins}</begin><end>{ends}</end></date_range>
  </report_metadata>
  <policy_published><domain>{domain}</domain>{policy}</policy_published>
{"".join(rows or [a_row()])}</feedback>
""".encode()


def zipped(*documents: bytes, name: str = "google.com!acme.example!1700000000!1700086399.xml") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, document in enumerate(documents):
            archive.writestr(f"{number}-{name}" if number else name, document)
    return file.getvalue()


def gzipped(document: bytes) -> bytes:
    return gzip.compress(document, mtime=0)


def an_email(
    files: Sequence[tuple[str, bytes, str]],
    *,
    subject: str = f"Report domain: {DOMAIN} Submitter: google.com Report-ID: 9391651994964116463",
    text: str | None = None,
) -> bytes:
    """An email with files: their names, contents and content types."""
    email = EmailMessage()
    email["From"] = "noreply-dmarc-support@google.com"
    email["To"] = "bounces@host.example"
    email["Subject"] = subject
    email["Message-ID"] = "<dmarc-1@google.com>"
    if text is None and len(files) == 1:
        # Google sends the file as the whole body.
        [(name, content, kind)] = files
        main, _, sub = kind.partition("/")
        email.set_content(content, maintype=main, subtype=sub, filename=name)
        return email.as_bytes()
    email.set_content(text or "This is an aggregate report.")
    for name, content, kind in files:
        main, _, sub = kind.partition("/")
        email.add_attachment(content, maintype=main, subtype=sub, filename=name)
    return email.as_bytes()
