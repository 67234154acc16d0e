"""Real bounces and complaints of many servers, tested if the corpus is present."""

import json
from pathlib import Path
from typing import Any

import pytest

from mailwright.domain.address import normal
from mailwright.domain.bounce import BounceKind
from mailwright.domain.feedback import FeedbackType
from mailwright.events.bounces import (
    BounceMail,
    BounceReport,
    DsnAction,
    FeedbackReport,
    OrdinaryEmail,
    parse_bounce_mail,
)

COLLECTION = Path(__file__).resolve().parents[4] / "shared" / "fixtures"
DSN, ARF = COLLECTION / "dsn", COLLECTION / "arf"

pytestmark = pytest.mark.skipif(not DSN.is_dir(), reason="the collection of real bounces is not here")

# As the corpus says. Every difference is listed below.
LEAST_SCORE = 0.9

# Intended differences from the corpus. An improved parser shortens this list.
DISAGREEMENTS = {
    "lhost-postfix-01.eml": "5.1.1 and 'no such user' are hard for us, also when a local delivery program says it",
    "lhost-postfix-03.eml": "'unknown user' is hard for us, also when it comes after the content",
    "lhost-postfix-07.eml": "'user unknown' is hard for us, also when it comes after the content",
    "lhost-postfix-52.eml": "an account that is 'disabled or discontinued' is hard for us, as 5.2.1 is",
    "rfc3464-52.eml": "a null MX is hard for us, also with a temporary code after the last attempt",
    "rfc3464-54.eml": "a domain that does not exist (NXDOMAIN) is hard for us, also with a temporary code",
    "rfc3464-01.eml": "the email says 5.1.1 user unknown; the expectation speaks of a full mailbox",
}

HARD, SOFT = BounceKind.HARD, BounceKind.SOFT

# Emails without an expectation in the corpus.
OURS: dict[str, list[tuple[str | None, BounceKind | None, str | None]]] = {
    "lhost-courier-01.eml": [("kijitora@example.co.jp", HARD, "5.1.1")],
    "lhost-exim-01.eml": [("kijitora@example.ed.jp", SOFT, "5.7.0")],
    "lhost-exim-29.eml": [("kijitora@example.co.jp", SOFT, "5.0.0")],
    "lhost-gmail-15.eml": [("mikeneko@libsisimai.org", SOFT, None)],
    "lhost-notes-01.eml": [("kijitora@u1.example.co.jp", SOFT, None)],
    "lhost-outlook-01.eml": [("kijitora@example.jp", SOFT, "5.2.2")],
    "lhost-qmail-02.eml": [("userunknown@example.jp", HARD, "5.1.1"), ("filtered@example.jp", HARD, "5.2.1")],
    "lhost-receivingses-01.eml": [("userunknown@neko.example.jp", HARD, "5.1.1")],
    "lhost-sendgrid-02.eml": [("this-local-part-does-not-exist-on-the-server@example.jp", HARD, "5.1.1")],
    "lhost-sendmail-01.eml": [("userunknown@bouncehammer.jp", HARD, "5.1.1")],
    "lhost-yandex-01.eml": [("kijitora@example.jp", HARD, "5.1.1")],
    "rfc3464-38.eml": [("kijitora-nyaan@example.jp", SOFT, None)],
    "rhost-cloudflare-01.eml": [("kijitora-neko@example.com", SOFT, "4.3.0")],
    "rhost-google-01.eml": [("shironeko@example.ne.jp", HARD, "5.2.1")],
    "rhost-gsuite-01.eml": [("kijitora@example.de", HARD, "5.1.0")],
    "rhost-mimecast-01.eml": [("sabatora@example.com", SOFT, "5.0.0")],
    "rhost-outlook-01.eml": [("kijitora@example.jp", SOFT, "5.2.2")],
}


def expected(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "EXPECTED.json").read_text(encoding="utf-8"))
    return found


def parse_file(file: Path) -> BounceMail:
    return parse_bounce_mail(file.read_bytes())


def judges_alike(read_letter: BounceMail, wanted: list[dict[str, Any]]) -> bool:
    if not isinstance(read_letter, BounceReport) or len(read_letter.recipients) != len(wanted):
        return False
    return all(
        (each.kind is HARD) == want["hardbounce"] and each.status in (want["status"], unless_invented(want["status"]))
        for each, want in zip(read_letter.recipients, wanted, strict=True)
    )


def unless_invented(status: str) -> str | None:
    """The corpus uses numbers from 900 for emails without a status."""
    return None if int(status.split(".")[2]) >= 900 else status


def names_and_times_alike(read_letter: BounceMail, wanted: dict[str, Any]) -> bool:
    if not isinstance(read_letter, BounceReport):
        return False
    addresses = {each.address and normal(each.address) for each in read_letter.recipients}
    is_delayed = {each.action is DsnAction.DELAYED for each in read_letter.recipients}
    return addresses == {normal(address) for address in wanted["addresses"]} and is_delayed == {wanted["is_temporary"]}


def complains_alike(read_letter: BounceMail, wanted: list[str]) -> bool:
    return isinstance(read_letter, FeedbackReport) and {read_letter.feedback_type} == set(wanted)


def test_real_bounces_are_classified_as_expected() -> None:
    verdicts = {
        **{
            name: judges_alike(parse_file(DSN / "sisimai" / name), want)
            for name, want in expected(DSN / "sisimai").items()
        },
        **{
            name: names_and_times_alike(parse_file(DSN / "flufl" / name), want)
            for name, want in expected(DSN / "flufl").items()
        },
        **{name: complains_alike(parse_file(ARF / name), want) for name, want in expected(ARF).items()},
    }
    score = sum(verdicts.values()) / len(verdicts)
    print(f"{sum(verdicts.values())} of {len(verdicts)} as expected: {score:.1%}")
    assert {name for name, is_alike in verdicts.items() if not is_alike} == set(DISAGREEMENTS)
    assert score >= LEAST_SCORE


@pytest.mark.parametrize("name", OURS)
def test_bounces_of_well_known_servers(name: str) -> None:
    found = parse_file(DSN / "sisimai" / name)
    assert isinstance(found, BounceReport)
    assert [(each.address, each.kind, each.status) for each in found.recipients] == OURS[name]


def test_every_email_of_the_corpus_is_parsed() -> None:
    elsewhere = {"NOT_A_BOUNCE__is-not-bounce-02.eml", "rfc3834-02.eml", "lhost-sendmail-14.eml"}
    looked_at = set(expected(DSN / "sisimai")) | set(OURS) | elsewhere
    assert {file.name for file in (DSN / "sisimai").glob("*.eml")} == looked_at


def test_other_emails_are_no_bounces() -> None:
    assert isinstance(parse_file(DSN / "sisimai" / "NOT_A_BOUNCE__is-not-bounce-02.eml"), OrdinaryEmail)
    assert isinstance(parse_file(DSN / "sisimai" / "rfc3834-02.eml"), OrdinaryEmail)
    assert isinstance(parse_file(DSN / "sisimai" / "lhost-sendmail-14.eml"), OrdinaryEmail)  # forwarded by a person


def test_complaining_recipient_is_parsed_if_present() -> None:
    named = parse_file(ARF / "arf-17.eml")
    hidden = parse_file(ARF / "arf-15.eml")
    assert isinstance(named, FeedbackReport)
    assert isinstance(hidden, FeedbackReport)
    assert named.recipients == ("kijitora@example.com", "sabatora@example.net")
    assert hidden.recipients == ()
    assert hidden.feedback_type is FeedbackType.ABUSE


def test_original_of_nearly_every_report_is_found() -> None:
    found = [parse_file(file) for file in sorted((DSN / "sisimai").glob("*-*.eml"))]
    bounces = [each for each in found if isinstance(each, BounceReport)]
    assert sum(each.original.message_id is not None for each in bounces) / len(bounces) > 0.85


def test_our_id_is_found_in_real_reports() -> None:
    """Parse each email with our Message-ID in place of the original one."""
    ours = "0192f0c1-7a3b-7cde-8f01-23456789abcd"
    for file in sorted(COLLECTION.glob("[da][sr][nf]/**/*.[et][mx][lt]")):
        found = parse_file(file)
        if isinstance(found, BounceReport | FeedbackReport) and found.original.message_id:
            of_theirs = found.original.message_id.strip("<>").encode()
            again = parse_bounce_mail(file.read_bytes().replace(of_theirs, f"{ours}@sender.example".encode()))
            assert isinstance(again, type(found))
            assert again.original.outbox_id == ours, file.name


def test_line_endings_do_not_matter() -> None:
    for file in sorted(COLLECTION.glob("[da][sr][nf]/**/*.[et][mx][lt]")):
        message = file.read_bytes().replace(b"\r\n", b"\n")
        assert without_identity(parse_bounce_mail(message)) == without_identity(
            parse_bounce_mail(message.replace(b"\n", b"\r\n"))
        ), file.name


def without_identity(found: BounceMail) -> object:
    match found:
        case BounceReport():
            what = [(r.address, r.action, r.kind, r.status, r.reply_code, r.diagnostic) for r in found.recipients]
            return found.original, found.reporting_mta, what
        case FeedbackReport():
            return found.original, found.feedback_type, found.recipients, found.reporter
        case _:
            return type(found)
