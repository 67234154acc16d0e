"""Parse bounce emails: formats, recipients and the original message."""

import json
from base64 import b64encode

import pytest

from mailwright.content.headers import message_id
from mailwright.domain.bounce import BounceKind
from mailwright.domain.feedback import FeedbackType
from mailwright.domain.ids import uuid7
from mailwright.events.bounces import (
    BouncedRecipient,
    BounceMail,
    BounceReport,
    DsnAction,
    FeedbackReport,
    OrdinaryEmail,
    UnreadableReport,
    parse_bounce_mail,
)
from tests.unit.events.bounce_emails import ORIGINAL, OURS, READER, a_feedback, a_group, a_report, a_text

HARD, SOFT = BounceKind.HARD, BounceKind.SOFT


def bounce_report(message: bytes) -> BounceReport:
    parsed = parse_bounce_mail(message)
    assert isinstance(parsed, BounceReport), parsed
    return parsed


def feedback_report(message: bytes) -> FeedbackReport:
    parsed = parse_bounce_mail(message)
    assert isinstance(parsed, FeedbackReport), parsed
    return parsed


def only_recipient(message: bytes) -> BouncedRecipient:
    [recipient] = bounce_report(message).recipients
    return recipient


# Delivery status notifications.


def test_standard_report_is_parsed_completely() -> None:
    parsed = bounce_report(a_report(a_group(diagnostic="550 5.1.1 nobody of that name")))
    assert parsed.reporting_mta == "mx.reader.example"
    assert (parsed.original.outbox_id, parsed.original.message_id) == (OURS, f"<{OURS}@sender.example>")
    assert parsed.original.recipients == (READER,)
    [reader] = parsed.recipients
    assert (reader.address, reader.action, reader.kind) == (READER, DsnAction.FAILED, HARD)
    assert (reader.status, reader.reply_code) == ("5.1.1", 550)
    assert reader.diagnostic == "550 5.1.1 nobody of that name"


@pytest.mark.parametrize(
    "content_type",
    [
        "MULTIPART/REPORT; REPORT-TYPE=DELIVERY-STATUS; BOUNDARY=edge",
        "multipart/report; boundary=edge",
        "multipart/mixed; boundary=edge",
        'multipart/report; report-type="delivery-status";\n boundary="edge"',
    ],
)
def test_content_type_variant_does_not_matter(content_type: str) -> None:
    assert only_recipient(a_report(content_type=content_type)).kind is HARD


@pytest.mark.parametrize(
    ("action", "status", "wanted_action", "wanted_kind"),
    [
        ("failed", "5.1.1", DsnAction.FAILED, HARD),
        ("FAILURE", "5.1.1", DsnAction.FAILED, HARD),
        ("failed (bad destination mailbox)", "5.1.1", DsnAction.FAILED, HARD),
        ("error", "5.1.1", DsnAction.FAILED, HARD),
        ("failed", "4.4.7", DsnAction.FAILED, SOFT),  # gave up after days
        ("failed", "5.2.2", DsnAction.FAILED, SOFT),
        ("failed", "5.7.1 (refused)", DsnAction.FAILED, SOFT),
        ("delayed", "4.2.2", DsnAction.DELAYED, SOFT),
        ("delayed", "5.1.1", DsnAction.DELAYED, SOFT),  # still being retried, whatever the status
        ("delivered", "2.0.0", DsnAction.DELIVERED, None),
        ("deliverable", "2.1.5", DsnAction.DELIVERED, None),
        ("relayed", "2.1.9", DsnAction.RELAYED, None),
        ("expanded", "2.1.5", DsnAction.EXPANDED, None),
        ("failed", "2.0.0", DsnAction.FAILED, SOFT),  # never delivered if the server says that it failed
        ("", "5.1.1", DsnAction.FAILED, HARD),
        ("", "4.2.2", DsnAction.DELAYED, SOFT),
        ("", "2.1.5", DsnAction.DELIVERED, None),
        ("nonsense", "5.1.1", DsnAction.FAILED, HARD),
        ("failed", "", DsnAction.FAILED, SOFT),
    ],
)
def test_action_and_status_decide_together(
    action: str, status: str, wanted_action: DsnAction, wanted_kind: BounceKind | None
) -> None:
    reader = only_recipient(a_report(a_group(action=action, status=status)))
    assert (reader.action, reader.kind) == (wanted_action, wanted_kind)


@pytest.mark.parametrize(
    ("status", "diagnostic", "wanted", "code"),
    [
        ("5.0.0", "550 5.1.1 unknown", "5.1.1", 550),
        ("5.0.0", "550-5.1.1 unknown 550 5.1.1 really", "5.1.1", 550),
        ("5.0.0", "5.1.0 - wrong 550-'5.2.2 full'", "5.2.2", 550),
        ("5.0.0", "550 #5.1.0 refused", "5.1.0", 550),
        ("5.2.2", "550 5.1.1 unknown", "5.2.2", 550),  # the field is specific, so it wins
        ("4.0.0", "554 5.1.1 unknown", "4.0.0", 554),  # the server may still succeed
        ("5.0.0", "550 refused, see 5.6.7.8", "5.0.0", 550),  # an IP address
        ("5.0.0 (permanent failure)", "no words", "5.0.0", None),
        ("553", "", None, 553),
        ("", "421 4.7.0 later", "4.7.0", 421),
    ],
)
def test_most_specific_status_wins(status: str, diagnostic: str, wanted: str | None, code: int | None) -> None:
    reader = only_recipient(a_report(a_group(action="failed", status=status, diagnostic=diagnostic), text=""))
    assert (reader.status, reader.reply_code) == (wanted, code)


@pytest.mark.promise("bounce-hard-or-soft")
@pytest.mark.parametrize(
    "text",
    [
        "250 of your messages were refused",
        "<ann@reader.example>: after 2.0.0 attempts: 250 ok was never received",
        "Delivered 0 of 1. Version 2.1.5 of our server gave up.",
    ],
)
def test_digits_in_text_never_mean_delivered(text: str) -> None:
    assert only_recipient(a_report(a_group(action="failed", status="", diagnostic=text))).action is DsnAction.FAILED
    assert only_recipient(a_report(a_group(action="", status="5.0.0", diagnostic=text))).action is DsnAction.FAILED
    found = parse_bounce_mail(a_text(f"Your message could not be delivered to ann@reader.example.\n\n{text}"))
    assert isinstance(found, BounceReport)
    assert {each.action for each in found.recipients} == {DsnAction.FAILED}


@pytest.mark.parametrize(
    ("sender", "subject", "text"),
    [
        (
            "imss@mx.reader.example",
            "Mail could not be delivered",
            "****** Message from InterScan Messaging Security Suite ******\n\nSent <<< RCPT TO:<ann@reader.example>\n"
            "Received >>> 550 5.1.1 unknown user.\n\nUnable to deliver message to <ann@reader.example>.",
        ),
        ("MAILER-DAEMON@sina.example", "", "sina.example.\n\n<ann@reader.example>:\n"),
        (
            "post_master@vtext.example",
            "Undeliverable Message",
            "Message could not be delivered to mobile ann@reader.example.\nError: No valid recipients for this MM",
        ),
        (
            "Postmaster@ezweb.example",
            "Mail System Error - Returned Mail",
            "The following addresses had delivery errors:\n  > ann@reader.example\n  Could not be delivered",
        ),
        ('"Postmaster" <postmaster@mail.example>', "Undeliverable", "Unknown user: ann@reader.example\n\n"),
        (
            "MDaemon@mail.example",
            "Warning: ann@reader.example - User unknown!",
            "ann@reader.example - no such user here.",
        ),
        (
            "admin@mail.example",
            "Delivery failure",
            "Could not deliver message to:\nFailed Recipient: ann@reader.example",
        ),
    ],
)
def test_recipient_in_free_text_is_found(sender: str, subject: str, text: str) -> None:
    found = parse_bounce_mail(a_text(text, sender=sender, subject=subject, more="To: bounces@sender.example\n"))
    assert isinstance(found, BounceReport)
    assert [each.address for each in found.recipients] == [READER]


@pytest.mark.promise("bounce-attributed")
@pytest.mark.parametrize("identity", [OURS, "5d3c1f62-8a54-5b43-9a38-6d0b7c0b2c11"])
@pytest.mark.parametrize("field", ["To", "Delivered-To", "X-Original-To"])
def test_tagged_address_identifies_the_message(identity: str, field: str) -> None:
    """Notifications have ids of version 5, everything else of version 7. A server may change the case."""
    text = "Your message could not be delivered."
    for spelling in (identity, identity.upper()):
        found = parse_bounce_mail(a_text(text, more=f"{field}: <bounces+{spelling}@sender.example>\n"))
        assert isinstance(found, BounceReport)
        assert found.original.outbox_id == identity


@pytest.mark.promise("bounce-hard-or-soft")
@pytest.mark.parametrize(
    ("action", "status", "diagnostic"),
    [
        ("delivered", "5.1.1", ""),
        ("relayed", "5.0.0", ""),
        ("delivered", "2.0.0", "550 user unknown"),
        ("", "2.0.0", "550 user unknown"),
    ],
)
def test_failure_code_outranks_stated_delivery(action: str, status: str, diagnostic: str) -> None:
    reader = only_recipient(a_report(a_group(action=action, status=status, diagnostic=diagnostic)))
    assert reader.action is DsnAction.FAILED


def test_text_explains_an_empty_diagnostic() -> None:
    text = "<ann@reader.example>: there is no such user\n"
    assert only_recipient(a_report(a_group(status="5.0.0", diagnostic="554 failed"), text=text)).kind is HARD
    assert only_recipient(a_report(a_group(status="5.2.2", diagnostic="554 failed"), text=text)).kind is SOFT


def test_groups_without_blank_line_are_separate() -> None:
    together = a_group(status="5.2.2") + a_group("bob@reader.example")
    assert [(each.address, each.kind) for each in bounce_report(a_report(together)).recipients] == [
        (READER, SOFT),
        ("bob@reader.example", HARD),
    ]


@pytest.mark.parametrize(
    "text",
    [
        '"ann@reader.example":\nhost mx said:\n5.1.1 user unknown\n"bob@reader.example":\n5.2.2 mailbox full',
        "ann@reader.example: 550 no such user\nbob@reader.example: 552 over quota",
        "ann@reader.example on Monday\n    No such recipient\nbob@reader.example on Monday\n    Mailbox full",
        "550 <ann@reader.example>... User unknown\n421 elsewhere... busy\n552 <bob@reader.example>... Mailbox full",
        "ann@reader.example [User unknown]\nbob@reader.example [Mailbox full]",
        "Recipient: ann@reader.example\nReason: no such user\n\nRecipient: bob@reader.example\nReason: full mailbox",
    ],
)
def test_reasons_of_several_recipients_are_separate(text: str) -> None:
    parsed = bounce_report(a_text(f"Your message could not be delivered.\n\n{text}\n"))
    assert [(each.address, each.kind) for each in parsed.recipients] == [(READER, HARD), ("bob@reader.example", SOFT)]


@pytest.mark.parametrize(
    "text",
    [
        "Delivery failed:\n\n  ann@reader.example\n\nDetails: the server refused it.\n\nIt said:\n550 No such user",
        "It was not delivered to:\n\n  ann@reader.example\n\nbecause:\n\n  User ann not listed in the directory",
        "It was not delivered because of\n\n550 User unknown\n\nAffected:\n  ann@reader.example\n\nLast attempt: today",
    ],
)
def test_reason_apart_from_the_recipient_is_found(text: str) -> None:
    assert only_recipient(a_text(text)).kind is HARD


def test_notice_about_viruses_does_not_outrank_the_status() -> None:
    text = "Delivery failed.\n\n  ann@reader.example\n\nThis text was checked for spam, malware and every virus."
    assert only_recipient(a_report(a_group(status="5.1.1"), text=text)).kind is HARD


def test_code_apart_from_the_recipient_is_found() -> None:
    text = "Delivery failed:\n\n  ann@reader.example\n\nRefused.\n\nThe answer was:\n550 5.1.0 Recipient rejected"
    reader = only_recipient(a_text(text))
    assert (reader.status, reader.reply_code, reader.kind) == ("5.1.0", 550, HARD)


def test_single_recipient_of_original_is_used() -> None:
    reader = only_recipient(
        a_text(f"It could not be delivered: host unknown\n\nReturn-Path: <a@b.example>\n{ORIGINAL}")
    )
    assert (reader.address, reader.kind) == (READER, HARD)


@pytest.mark.parametrize("charset", ["iso-2022-jp", "euc-jp", "shift_jis", "utf-8"])
def test_text_is_decoded_in_its_charset(charset: str) -> None:
    head = f"From: MAILER-DAEMON@mx.example\nSubject: failure notice\nContent-Type: text/plain; charset={charset}\n\n"
    body = "<ann@reader.example>: このユーザーは存在しません\n".encode(charset)
    assert only_recipient(head.encode() + body).kind is HARD


@pytest.mark.parametrize(
    "subject",
    [
        "Unzustellbar: Hello",
        "=?utf-8?B?0J3QtSDRg9C00LDQu9C+0YHRjCDQtNC+0YHRgtCw0LLQuNGC0Yw=?=",
        "Mancata consegna",
        "=?iso-2022-jp?B?GyRCJWEhPCVrJSglaSE8GyhC?=",
        "Falha na entrega",
    ],
)
def test_foreign_subject_marks_a_bounce(subject: str) -> None:
    found = parse_bounce_mail(a_text("ann@reader.example\n", subject=subject))
    assert isinstance(found, BounceReport)
    assert [each.address for each in found.recipients] == [READER]


def test_reply_of_mobile_gateway_is_a_bounce() -> None:
    """The gateway also breaks the header with the boundary."""
    more = "Content-Type: multipart/mixed;\nboundary=edge\n"
    text = "Error: invalid user address\n550 no such user\nRCPT TO: ann@reader.example\n"
    body = f"--edge\nContent-Type: text/plain\n\n{text}"
    reader = only_recipient(a_text(body, sender="post_master@mobile.example", subject="Re:Hello", more=more))
    assert (reader.address, reader.kind) == (READER, HARD)


def test_multipart_without_parts_is_text() -> None:
    more = "Content-Type: multipart/report; report-type=delivery-status; boundary=edge\n"
    text = f"It failed.\n\nReporting-MTA: dns; mx.example\n\n{a_group()}"
    assert only_recipient(a_text(text, more=more)).kind is HARD


def test_each_recipient_has_its_own_outcome() -> None:
    parsed = bounce_report(
        a_report(
            a_group("dead@reader.example", status="5.1.1"),
            a_group("full@reader.example", status="5.2.2"),
            a_group("late@reader.example", "delayed", "4.4.1"),
            a_group("well@reader.example", "delivered", "2.0.0"),
        )
    )
    assert [(each.address, each.action, each.kind) for each in parsed.recipients] == [
        ("dead@reader.example", DsnAction.FAILED, HARD),
        ("full@reader.example", DsnAction.FAILED, SOFT),
        ("late@reader.example", DsnAction.DELAYED, SOFT),
        ("well@reader.example", DsnAction.DELIVERED, None),
    ]
    assert len({each.identity for each in parsed.recipients}) == 4


def test_text_about_one_recipient_does_not_affect_others() -> None:
    text = "<dead@reader.example>: user unknown\n\n<other@reader.example>: something went wrong\n"
    groups = [a_group(f"{name}@reader.example", status="5.0.0") for name in ("dead", "other", "unnamed")]
    parsed = bounce_report(a_report(*groups, text=text))
    assert [each.kind for each in parsed.recipients] == [HARD, SOFT, SOFT]


def test_cisco_field_is_parsed() -> None:
    group = a_group(status="5.0.0") + 'X-Supplementary-Info: <192.0.2.1 #5.0.0 smtp; 550 "Unknown User">\n'
    reader = only_recipient(a_report(group, text=""))
    assert (reader.kind, reader.reply_code) == (HARD, 550)


def test_repeated_group_counts_once() -> None:
    assert len(bounce_report(a_report(a_group(), a_group())).recipients) == 1


def test_original_recipient_wins_over_forwarding_target() -> None:
    group = f"Original-Recipient: rfc822;{READER}\n" + a_group("forwarded@elsewhere.example")
    assert only_recipient(a_report(group)).address == READER


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (f"<{READER}>", READER),
        ("Ann@Reader.EXAMPLE", "Ann@reader.example"),
        ("jürgen@bücher.example", "jürgen@xn--bcher-kva.example"),
        ("/S=ann/OU=reader/", None),
        ("ann", None),
        ("", None),
    ],
)
def test_invalid_recipient_address_is_none(written: str, wanted: str | None) -> None:
    assert only_recipient(a_report(a_group(written))).address == wanted


def test_status_fields_in_body_are_parsed() -> None:
    fields = f"Reporting-MTA: dns; mx.example\n\n{a_group(status='5.2.1')}"
    parsed = bounce_report(a_text(f"The mail system\n\n{fields}\n\nReturn-Path: <a@b.example>\n"))
    assert ([each.status for each in parsed.recipients], parsed.reporting_mta) == (["5.2.1"], "mx.example")


def test_base64_report_is_parsed() -> None:
    fields = b64encode(f"Reporting-MTA: dns; mx.example\n\n{a_group()}".encode()).decode()
    email = (
        "Subject: Undelivered\nContent-Type: multipart/report; boundary=edge\n\n--edge\n"
        f"Content-Type: message/delivery-status\nContent-Transfer-Encoding: base64\n\n{fields}\n--edge--\n"
    )
    assert only_recipient(email.encode()).address == READER


def test_truncated_report_is_parsed_as_far_as_possible() -> None:
    whole = a_report(a_group("first@reader.example"), a_group("second@reader.example"))
    cut = whole[: whole.index(b"second@")]
    assert [each.address for each in bounce_report(cut).recipients] == ["first@reader.example"]


def test_report_without_report_part_is_unreadable() -> None:
    message = b"Content-Type: multipart/report; report-type=delivery-status; boundary=edge\n\nnothing"
    assert isinstance(parse_bounce_mail(message), UnreadableReport)


def test_outer_report_wins_over_returned_report() -> None:
    """Our message was itself a report; only the outer one is about it."""
    inner = a_report(a_group("inner@reader.example")).decode().replace("edge", "inner")
    assert [each.address for each in bounce_report(a_report(original=inner)).recipients] == [READER]


# Plain text bounces.

QMAIL = """Hi. This is a mail program. I wasn't able to deliver your message to the following addresses.

<dead@reader.example>:
192.0.2.1 said: 550 5.1.1 no such user
Giving up.

<busy@reader.example>:
Connected, but it said: 452 4.2.2 over quota

--- Below this line is a copy of the message.

Return-Path: <news@sender.example>
Message-ID: <{ours}@sender.example>
To: somebody@else.example
"""

EXIM = """A message that you sent could not be delivered to one or more of its recipients:

  ann@reader.example
    host mx.reader.example [192.0.2.1]: 550 Unknown user

------ This is a copy of the message ------
"""


def test_plain_text_with_several_recipients() -> None:
    parsed = bounce_report(a_text(QMAIL.format(ours=OURS)))
    assert [(each.address, each.kind, each.status, each.reply_code) for each in parsed.recipients] == [
        ("dead@reader.example", HARD, "5.1.1", 550),
        ("busy@reader.example", SOFT, "4.2.2", 452),
    ]
    assert parsed.original.outbox_id == OURS


def test_plain_text_bounce_marked_as_auto_reply() -> None:
    more = "Auto-Submitted: auto-replied\nX-Failed-Recipients: ann@reader.example\n"
    reader = only_recipient(a_text(EXIM, subject="Mail delivery failed", more=more))
    assert (reader.address, reader.kind, reader.reply_code) == (READER, HARD, 550)


def test_plain_text_delay_warning() -> None:
    text = "THIS IS A WARNING ONLY. It will be retried.\n\n<ann@reader.example>: user unknown\n"
    reader = only_recipient(a_text(text, subject="Delayed Mail"))
    assert (reader.action, reader.kind) == (DsnAction.DELAYED, SOFT)


def test_reason_before_the_recipient_is_found() -> None:
    reader = only_recipient(
        a_text("The mailbox is full: <ann@reader.example>\nUnable to deliver mail.\n", subject="Returned mail")
    )
    assert (reader.address, reader.kind) == (READER, SOFT)
    assert "mailbox is full" in reader.diagnostic


def test_first_reason_counts() -> None:
    text = "It could not be delivered.\n\n<ann@reader.example>: user unknown\n\n<ann@reader.example>: see our page\n"
    assert only_recipient(a_text(text)).kind is HARD


def test_html_only_bounce_is_parsed() -> None:
    text = (
        "<html><body><p>Your message could not be delivered to:</p><p>ann@reader.example</p><b>User unknown</b></body>"
    )
    assert only_recipient(a_text(text, more="Content-Type: text/html\n")).kind is HARD


def test_bounce_without_recipient_is_matched_by_id() -> None:
    text = f"Your message could not be delivered.\n\nMessage-ID: <{OURS}@sender.example>\n"
    parsed = bounce_report(a_text(text))
    assert (parsed.original.outbox_id, parsed.recipients[0].address) == (OURS, None)


def test_bounce_without_recipient_and_id_is_unreadable() -> None:
    assert isinstance(parse_bounce_mail(a_text("Your message could not be delivered.")), UnreadableReport)


ANSWER = f"In-Reply-To: <{OURS}@sender.example>\n"


@pytest.mark.parametrize(
    ("sender", "subject", "text", "more"),
    [
        ("Ann <ann@mail-delivery.example>", "Parcel", "It was not delivered.", ANSWER),
        ("Ann <ann@maildelivery.example>", "Paket nicht zugestellt", "Es wurde nicht zugestellt.", ""),
        ('"Northwind Mail Delivery" <ops@northwind.example>', "Parcel was not delivered", "Call 555-1234.", ""),
        ("Postmaster <postmaster@school.example>", "Newsletter", "It was not delivered to my staff.", ANSWER),
        ("Ann <postmaster@school.example>", "It was not delivered", "Please send it again.", ANSWER),
        ("Ann <ann@reader.example>", "Antwort: Delivery failed", "Thank you.", ANSWER),
        ("postmaster@school.example", "Antwort: failure notice", "What is this?", ""),
        ("Ann <ann@reader.example>", "Your failure notice", "A failure notice?\n> <b@x.example>:\n> 550 5.1.1", ANSWER),
        ("Ann <ann@reader.example>", "Re: Hello", "Thank you.", "X-Autoreply: no\n"),
        ("Ann <ann@reader.example>", "Re: Hello", "Thank you.", "X-Autoresponder: False\nX-Vacation: 0\n"),
    ],
)
def test_personal_email_about_deliveries_is_no_bounce(sender: str, subject: str, text: str, more: str) -> None:
    parsed = parse_bounce_mail(a_text(text, sender=sender, subject=subject, more=more))
    assert isinstance(parsed, OrdinaryEmail)
    assert not parsed.is_automatic


@pytest.mark.parametrize("sender", ["Mail Delivery Subsystem <mailer-daemon@mx.example>", "postmaster@mx.example"])
def test_bounce_that_answers_our_message_needs_details(sender: str) -> None:
    text = "Your message could not be delivered to the following recipient:\n\nann@reader.example\n550 5.1.1 unknown\n"
    assert (
        bounce_report(a_text(text, sender=sender, subject="Delivery failure", more=ANSWER)).original.outbox_id == OURS
    )


@pytest.mark.parametrize("subject", ["Automaattinen vastaus", "Automatická odpověď", "Răspuns automat", "رد تلقائي"])
def test_subject_of_auto_responder_is_recognised(subject: str) -> None:
    parsed = parse_bounce_mail(a_text("I am away.", sender="ann@reader.example", subject=f"{subject}: Hello"))
    assert isinstance(parsed, OrdinaryEmail)
    assert parsed.is_automatic


@pytest.mark.parametrize(
    "sender", ["noreply-orders@shop.example", "orders.no-reply@shop.example", "do_not_reply@shop.example"]
)
def test_address_of_a_robot_is_automatic(sender: str) -> None:
    parsed = parse_bounce_mail(a_text("Thank you.", sender=sender, subject="Re: Hello"))
    assert isinstance(parsed, OrdinaryEmail)
    assert parsed.is_automatic


# Other emails.

RECEIPT = (
    b"Return-Path: <>\nFrom: ann@reader.example\nSubject: Read: Hello\n"
    b"Content-Type: multipart/report; report-type=disposition-notification; boundary=edge\n\n"
    b"--edge\n\nYour message was displayed.\n--edge\nContent-Type: message/disposition-notification\n\n"
    b"Final-Recipient: rfc822; ann@reader.example\nDisposition: manual-action/MDN-sent-manually; displayed\n--edge--\n"
)


@pytest.mark.parametrize(
    "headers",
    [
        "Auto-Submitted: auto-replied\nSubject: Re: Hello",
        "Subject: Automatic reply: Hello",
        "Subject: Out of Office: could not be delivered",
        "X-Autoreply: yes\nSubject: Hello",
        "Precedence: auto_reply\nSubject: Hello",
    ],
)
def test_auto_reply_is_no_bounce(headers: str) -> None:
    message = (
        f"Return-Path: <>\nFrom: ann@reader.example\nIn-Reply-To: <{OURS}@sender.example>\n{headers}\n\nI am away.\n"
    )
    parsed = parse_bounce_mail(message.encode())
    assert isinstance(parsed, OrdinaryEmail)
    assert parsed.is_automatic
    assert parsed.original.outbox_id == OURS


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\r\n\r\n",
        RECEIPT,
        b"From: ann@reader.example\nSubject: Hello\n\nThe parcel could not be delivered. ann@reader.example\n",
        b"From: ann@reader.example\nSubject: Re: Undelivered\n\nIt could not be delivered to:\n\nann@reader.example\n",
        b"From: ann@reader.example\nSubject: Parcel not delivered\n\nIt was not delivered.\n\nann@reader.example\n",
        b"From: ann@reader.example\nSubject: Res: Delivery status\n\nN\xc3\xa3o foi entregue.\n\nbob@reader.example\n",
        b"From: ann@reader.example\nSubject: RE[2]: Delivery report\n\nIt was not delivered to <bob@reader.example>:\n",
        b"From: postmaster@reader.example\nSubject: New rules\n\nPlease read them.\n\nann@reader.example\n",
    ],
)
def test_ordinary_email_is_unrelated(message: bytes) -> None:
    parsed = parse_bounce_mail(message)
    assert isinstance(parsed, OrdinaryEmail)
    assert parsed.original.outbox_id is None


# Complaints.


def test_complaint_has_message_and_recipient() -> None:
    parsed = feedback_report(a_feedback(f"Feedback-Type: abuse\nUser-Agent: Loop/1\nOriginal-Rcpt-To: <{READER}>\n"))
    assert parsed.feedback_type.is_complaint
    assert (parsed.recipients, parsed.reporter, parsed.original.outbox_id) == ((READER,), "Loop/1", OURS)


def test_complaint_with_hidden_recipient_is_matched_by_id() -> None:
    parsed = feedback_report(a_feedback(original=ORIGINAL.replace(READER, "undisclosed")))
    assert (parsed.recipients, parsed.original.outbox_id) == ((), OURS)


@pytest.mark.parametrize(
    ("stated", "wanted", "is_complaint"),
    [
        ("abuse", FeedbackType.ABUSE, True),
        ("Fraud", FeedbackType.FRAUD, True),
        ("virus", FeedbackType.VIRUS, True),
        ("something new", FeedbackType.OTHER, True),
        ("opt-out", FeedbackType.OPT_OUT, False),
        ("abuse (junk)", FeedbackType.ABUSE, True),
        *((each, FeedbackType.NOT_SPAM, False) for each in ("not-spam", "not_spam", "NotSpam", '"not-spam"')),
        ("not-spam (moved (from junk))", FeedbackType.NOT_SPAM, False),
        ("opt_out", FeedbackType.OPT_OUT, False),
        ("auth-failure", FeedbackType.AUTH_FAILURE, False),
    ],
)
def test_not_every_feedback_is_a_complaint(stated: str, wanted: FeedbackType, *, is_complaint: bool) -> None:
    parsed = feedback_report(a_feedback(f"Feedback-Type: {stated}\n"))
    assert (parsed.feedback_type, parsed.feedback_type.is_complaint) == (wanted, is_complaint)


HOTMAIL = "From: {sender}\nSubject: complaint about message from 192.0.2.1\nMessage-ID: <c@hotmail.example>\n{more}\n"
RETURNED = f"X-Message-Info: abc\n{ORIGINAL}"


@pytest.mark.parametrize(
    ("sender", "more", "body", "recipients"),
    [
        (
            "staff@hotmail.com",
            "Content-Type: multipart/mixed; boundary=edge\n",
            f"--edge\nContent-Type: message/rfc822\n\nX-HmXmrOriginalRecipient: {READER}\n{RETURNED}\n--edge--\n",
            (READER,),
        ),
        (
            "staff@hotmail.com",
            f"Content-Type: multipart/mixed; boundary=edge\nX-HmXmrOriginalRecipient: <{READER}>\n",
            f"--edge\nContent-Type: message/rfc822\n\n{RETURNED}\n--edge--\n",
            (READER,),
        ),
        ("jmrp@relay.example", "", f"X-HmXmrOriginalRecipient: {READER}\n{RETURNED}", (READER,)),
        (
            "staff@hotmail.com",
            "Content-Type: multipart/mixed; boundary=edge\n",
            f"--edge\nContent-Type: message/rfc822\n\n{RETURNED}\n--edge\n",
            (),
        ),
        ("Staff <staff@hotmail.com>", "", RETURNED, ()),
    ],
)
def test_complaint_of_hotmail_without_report_is_parsed(
    sender: str, more: str, body: str, recipients: tuple[str, ...]
) -> None:
    parsed = feedback_report((HOTMAIL.format(sender=sender, more=more) + body).encode())
    assert (parsed.feedback_type, parsed.recipients) == (FeedbackType.ABUSE, recipients)
    assert parsed.original.outbox_id == OURS


def test_forwarded_complaint_of_hotmail_is_parsed() -> None:
    email = HOTMAIL.format(sender='"Hotmail Staff" <staff@hotmail.com>', more=ANSWER) + RETURNED
    parsed = feedback_report(email.replace("complaint about", "FW: complaint about").encode())
    assert (parsed.feedback_type, parsed.original.outbox_id) == (FeedbackType.ABUSE, OURS)


@pytest.mark.parametrize("sender", ["ann@reader.example", "ann.staff@hotmail.com"])
@pytest.mark.parametrize("prefix", ["", "FW: ", "Re: "])
@pytest.mark.parametrize("text", ["I am cross.", f"X-HmXmrOriginalRecipient: {READER}"])
def test_person_who_complains_is_no_feedback_report(sender: str, prefix: str, text: str) -> None:
    email = HOTMAIL.format(sender=sender, more=ANSWER).replace("complaint about", f"{prefix}complaint about") + text
    assert isinstance(parse_bounce_mail(email.encode()), OrdinaryEmail)


def test_feedback_fields_in_a_text_part_are_parsed() -> None:
    parsed = feedback_report(a_feedback().replace(b"message/feedback-report", b"text/plain"))
    assert (parsed.feedback_type, parsed.reporter, parsed.original.outbox_id) == (FeedbackType.ABUSE, "Loop/1", OURS)


@pytest.mark.parametrize(
    ("said", "kind", "status", "code"),
    [
        ("550\n    5.1.1 x1234 (in reply to RCPT TO command)", "hard", "5.1.1", 550),
        ("550\n5.1.1 x1234 (in reply to RCPT TO command)", "hard", "5.1.1", 550),
        ("550\n    5.7.1 Unauthorized sender (in reply to RCPT TO\n    command)", "soft", "5.7.1", 550),
        ("550 5.1.1\n    unauthorized sender (in reply to RCPT TO command)", "soft", "5.1.1", 550),
        ("\n    550 5.2.1 x1234", "hard", "5.2.1", 550),
        ("500\n    err.nosuchuser", "hard", None, 500),
        ("552\n    5.2.2 x1234\n\n<bob@reader.example>: 550 5.1.1 x", "soft", "5.2.2", 552),
    ],
)
def test_code_on_the_next_line_is_read(said: str, kind: str, status: str | None, code: int) -> None:
    text = f"Your message could not be delivered.\n\n<{READER}>: host mx.reader.example[192.0.2.1] said: {said}\n"
    parsed = parse_bounce_mail(a_text(text, more="Return-Path: <>\n"))
    assert isinstance(parsed, BounceReport)
    first = parsed.recipients[0]
    assert (first.address, first.kind, first.status, first.reply_code) == (READER, kind, status, code)


def test_feedback_without_type_is_unreadable() -> None:
    assert isinstance(parse_bounce_mail(a_feedback("User-Agent: Loop/1\n")), UnreadableReport)


# SES notices by email.


def a_notice(**parts: object) -> str:
    headers = [{"name": "X-Mailwright-Message", "value": OURS}]
    return json.dumps({"mail": {"messageId": "1", "headers": headers}, **parts})


def test_ses_bounce_notice_is_parsed() -> None:
    named = {"emailAddress": READER, "action": "failed", "status": "5.1.1", "diagnosticCode": "smtp; 550 5.1.1 unknown"}
    notice = a_notice(notificationType="Bounce", bounce={"bounceType": "Permanent", "bouncedRecipients": [named]})
    enveloped = json.dumps({"Type": "Notification", "Message": notice})
    for text in (notice, enveloped, notice.replace("bouncedRecipients", "bounced!\n Recipients")):
        parsed = bounce_report(a_text(text, sender="no-reply@sns.amazonaws.com", subject="Notification"))
        assert [(each.address, each.kind) for each in parsed.recipients] == [(READER, HARD)]
        assert parsed.original.outbox_id == OURS


def test_ses_complaint_and_delivery_notices_are_parsed() -> None:
    complaint = {"complainedRecipients": [{"emailAddress": READER}], "complaintFeedbackType": "not-spam"}
    parsed = feedback_report(a_text(a_notice(eventType="Complaint", complaint=complaint), sender="a@sns.example"))
    assert (parsed.feedback_type, parsed.recipients) == (FeedbackType.NOT_SPAM, (READER,))
    delivery = {"recipients": [READER], "smtpResponse": "250 2.6.0 taken"}
    reader = only_recipient(a_text(a_notice(eventType="Delivery", delivery=delivery), sender="a@sns.example"))
    assert (reader.action, reader.kind, reader.status) == (DsnAction.DELIVERED, None, "2.6.0")


@pytest.mark.parametrize(
    "text",
    ['{"notificationType": "Bounce"}', '{"notificationType": "Bounce", "bounce": [1]}', '{"eventType": 1}', "{", "[]"],
)
def test_broken_ses_notice_is_no_bounce(text: str) -> None:
    assert isinstance(
        parse_bounce_mail(a_text(text, sender="no-reply@sns.amazonaws.com", subject="Notification")), OrdinaryEmail
    )


# The original message.


@pytest.mark.parametrize(
    "message",
    [
        a_report(original=ORIGINAL.replace(f"{OURS}@sender", "replaced@provider")),  # only our header
        a_report(original=ORIGINAL.partition("\n")[2]),  # without any Message-ID
        a_report(original=ORIGINAL.replace("X-Mailwright-Message", "X-Other")),  # only the Message-ID
        a_report(original=ORIGINAL, original_type="text/rfc822-headers"),
        a_report(original="", headers=f"In-Reply-To: <{OURS}@sender.example>\n"),
        a_report(original="", headers=f"References: <a@b.example>\n <{OURS}@sender.example>\n"),
        a_report(original="", headers=f"Delivered-To: bounces+{OURS}@sender.example\n"),
        a_report(original="", text=f"It was this one:\n\n  Message-ID: <{OURS}@sender.example>\n"),
        a_report(f"X-Original-Message-ID: <{OURS}@sender.example>\n\n{a_group()}", original=""),
        a_report(f"X-Postfix-Sender: rfc822; bounces+{OURS}@sender.example\n\n{a_group()}", original=""),
        a_report(original=f"Return-Path: <bounces+{OURS}@sender.example>\nMessage-ID: <1@relay.example>\n\n"),
        a_report(original="", text=f"Headers:\n> X-Mailwright-Message:\n  {OURS}\n"),
        a_text(f"<p>It could not be delivered: &lt;{OURS}@sender.example&gt;</p>", more="Content-Type: text/html\n"),
    ],
    ids=[
        "header",
        "no message-id",
        "message-id",
        "headers only",
        "in-reply-to",
        "references",
        "envelope",
        "text",
        "report",
        "sender in report",
        "sender of original",
        "folded text",
        "html",
    ],
)
def test_original_is_found_wherever_its_id_is(message: bytes) -> None:
    assert bounce_report(message).original.outbox_id == OURS


LINK = f"https://sender.example/unsubscribe?token=e30.c2ln&message={OURS}"


@pytest.mark.promise("bounce-attributed")
@pytest.mark.parametrize(
    "content_type",
    [
        "application/octet-stream; name=x.eml",
        'application/octet-stream\nContent-Disposition: attachment; filename="Hello.EML"',
        "application/octet-stream\nContent-Disposition: attachment; filename*=utf-8''Hello%20you.eml",
    ],
)
def test_returned_email_of_unknown_type_is_recognised_by_its_name(content_type: str) -> None:
    message = a_feedback(original=f"X-Mailwright-Message: {OURS}\nSubject: Hello\n\n").replace(
        b"Content-Type: message/rfc822", f"Content-Type: {content_type}".encode()
    )
    assert feedback_report(message).original.outbox_id == OURS


@pytest.mark.promise("bounce-attributed")
@pytest.mark.parametrize(
    ("fields", "returned"),
    [
        ("", f"Return-Path: <bounces+{OURS}@sender.example>\nTo: redacted\n\n"),
        ("", f"Reply-To: Shop <replies+{OURS}@sender.example>\nSubject: Hello\n\n"),
        ("", f"Received: from a (envelope-from <bounces+{OURS}@sender.example>) by b; today\n\n"),
        ("", f"Authentication-Results: isp.example; spf=pass smtp.mailfrom=bounces+{OURS}@sender.example\n\n"),
        ("", f"Subject: Hello\nList-Unsubscribe: <{LINK}>,\n <mailto:unsubscribe@sender.example>\n\n"),
        ("", f"Message-ID: <1@provider.example>\nList-Unsubscribe: <{LINK}>\n\n"),
        ("", f"List-Unsubscribe: <{LINK.replace('&', '%26').replace('message=', 'message%3D')}>\n\n"),
        ("", f'Subject: Hello\nContent-Type: text/html\n\n<a href="{LINK.replace("&", "&amp;")}">Unsubscribe</a>\n'),
        (f"Original-Mail-From: <bounces+{OURS}@sender.example>\n", "Subject: Hello\n\n"),
        (f"Original-Envelope-Id: {OURS.upper()}\n", "Subject: Hello\n\n"),
        (f"Reported-URI: {LINK}\n", "Subject: Hello\n\n"),
        (f"Reported-URI: {LINK.replace('=', '=3D')}\n", "Subject: Hello\n\n"),
        (f"X-Sender: bounces+{OURS}@sender.example\n", "Subject: Hello\n\n"),
    ],
)
def test_complaint_is_attributed_by_any_trace_of_our_id(fields: str, returned: str) -> None:
    message = a_feedback(f"Feedback-Type: abuse\n{fields}", returned)
    assert feedback_report(message).original.outbox_id == OURS
    assert bounce_report(a_report(f"{fields}\n{a_group()}", original=returned)).original.outbox_id == OURS


@pytest.mark.parametrize(
    ("fields", "returned"),
    [
        ("", f"Message-ID: <1@friend.example>\nSubject: Fwd: Hello\n\nSee {LINK}\n"),  # a friend quotes our email
        ("", "List-Unsubscribe: <https://other.example/leave?message=1b4e28ba-2fa1-41d2-883f-0016d3cca427>\n\n"),
        (f"Original-Envelope-Id: QQ{OURS}\n", "Subject: Hello\n\n"),
    ],
)
def test_complaint_about_another_email_is_not_attributed(fields: str, returned: str) -> None:
    assert feedback_report(a_feedback(f"Feedback-Type: abuse\n{fields}", returned)).original.outbox_id is None


@pytest.mark.promise("bounce-attributed")
@pytest.mark.parametrize(
    "message",
    [
        a_report(original=ORIGINAL.replace(OURS, OURS.upper())),
        a_report(original=ORIGINAL.replace(OURS, OURS.upper()).replace("X-Mailwright-Message", "X-Other")),
        a_report(original=ORIGINAL.replace(OURS, OURS.upper()).partition("\n")[2], original_type="text/rfc822-headers"),
        *(
            a_report(original="", headers=f"Delivered-To: {address}@sender.example\n")
            for address in (
                *(f"bounces{delimiter}{OURS.upper()}" for delimiter in ("+", "-", "=", ".", "_", "#", "%2B", "=2b")),
                OURS,
                f"bounces+{OURS}=ann=reader.example",
                f"prvs=1234567890=bounces+{OURS}",
                f"SRS0=ab12=XY=sender.example=bounces+{OURS}",
            )
        ),
        a_report(original="", headers=f"Received: by mx.sender.example for <bounces+{OURS}@sender.example>; today\n"),
    ],
)
def test_rewritten_id_is_recognised(message: bytes) -> None:
    assert bounce_report(message).original.outbox_id == OURS


def test_forwarded_report_is_about_our_message() -> None:
    report = a_report().decode().replace("report-1@", f"{uuid7(1_600_000_000_000)}@")
    outer = "Subject: Fwd\nContent-Type: multipart/mixed; boundary=out\n\n--out\n"
    email = f"{outer}Content-Type: message/rfc822\n\n{report}\n"
    original = bounce_report(email.replace("X-Mailwright-Message", "X-Other").encode()).original
    assert (original.outbox_id, original.message_id) == (OURS, f"<{OURS}@sender.example>")


@pytest.mark.parametrize(
    ("returned", "after"),
    [
        (f"Message-ID: <1@reader.example>\nTo: bob@x.example\n\n> Reply-To: replies+{OURS}@sender.example\n", ""),
        (f"Message-ID: <1@reader.example>\nContent-Type: message/rfc822\n\n{ORIGINAL}", ""),
        ("Message-ID: <1@reader.example>\n\nHello\n", f"\n--out\nContent-Type: message/rfc822\n\n{ORIGINAL}"),
    ],
    ids=["quoted", "attached to the returned message", "attached to the email"],
)
def test_forwarded_report_about_another_message_is_ordinary(returned: str, after: str) -> None:
    """The author forwarded our message to somebody else, and sends us the bounce of that."""
    outer = "From: ann@reader.example\nSubject: Help\nContent-Type: multipart/mixed; boundary=out\n\n--out\n"
    report = a_report(a_group("bob@x.example"), original=returned).decode()
    email = f"{outer}Content-Type: message/rfc822\n\n{report}{after}\n--out--\n"
    assert isinstance(parse_bounce_mail(email.encode()), OrdinaryEmail)


def test_generated_ids_are_found() -> None:
    outbox_id = uuid7(1_700_000_000_000)
    original = f"Message-ID: {message_id(outbox_id, 'bücher.example')}\nTo: {READER}\n\n"
    assert bounce_report(a_report(original=original)).original.outbox_id == outbox_id


def test_id_of_another_program_is_ignored() -> None:
    other = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
    parsed = bounce_report(a_report(original=f"Message-ID: <{other}@client.example>\nTo: {READER}\n\n"))
    assert (parsed.original.outbox_id, parsed.original.message_id) == (None, f"<{other}@client.example>")


# Identity.


def test_copy_on_another_route_has_same_identity() -> None:
    message = a_report(a_group(diagnostic="550 5.1.1 unknown"))
    copy = b"Received: from a by b; today\nDelivered-To: elsewhere@sender.example\n" + message
    assert identities(parse_bounce_mail(copy)) == identities(parse_bounce_mail(message))


def test_emails_without_id_differ_by_content() -> None:
    first, second = (a_text(f"<{name}@reader.example>:\nuser unknown\n") for name in ("ann", "bob"))
    assert identities(parse_bounce_mail(first)) == identities(parse_bounce_mail(first))
    assert identities(parse_bounce_mail(first)).isdisjoint(identities(parse_bounce_mail(second)))


def test_equal_replies_of_two_people_differ() -> None:
    first, second = (
        parse_bounce_mail(f"From: {name}@reader.example\nSubject: Re: Hello\n\nThank you!\n".encode())
        for name in ("ann", "bob")
    )
    assert first.identity != second.identity


def test_delay_and_later_failure_are_distinct() -> None:
    delayed, failed = a_report(a_group(action="delayed", status="4.4.1")), a_report(a_group(status="4.4.7"))
    [first], [second] = bounce_report(delayed).recipients, bounce_report(failed).recipients
    assert first.identity != second.identity


def identities(parsed: BounceMail) -> set[str]:
    assert isinstance(parsed, BounceReport)
    return {parsed.identity, *(each.identity for each in parsed.recipients)}


def test_diagnostic_is_one_bounded_line() -> None:
    reader = only_recipient(a_report(a_group(diagnostic="550 no\n \x00\x1b[31m" + "very " * 2_000)))
    assert len(reader.diagnostic) <= 1_000
    assert reader.diagnostic.isprintable()


def test_address_after_chinese_punctuation_is_read() -> None:
    text = f"抱歉，您的邮件被退回来了。\n收件人：{READER}\n退信原因：对方邮箱空间已满\n"
    recipient = only_recipient(a_text(text, sender="PostMaster@mail.example", subject="系统退信"))
    assert (recipient.address, recipient.kind) == (READER, BounceKind.SOFT)
