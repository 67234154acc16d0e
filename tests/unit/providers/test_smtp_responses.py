"""The meaning of each SMTP reply by phase, over a real connection."""

import pytest

from mailwright.domain.clock import HOUR, MINUTE
from mailwright.domain.results import ErrorCategory, ResultKind
from mailwright.providers.smtp.phases import SmtpPhase
from mailwright.providers.smtp.replies import SmtpReply
from mailwright.providers.smtp.responses import RESPONSE_RULES, UNKNOWN, SmtpResponseRule, interpret_rejection
from tests.standins.smtp_sink import SmtpSink, Step
from tests.unit.providers.smtp_builders import a_mail, smtp_to

pytestmark = pytest.mark.promise("provider-phase")

FAILED, RETRYABLE = ResultKind.FAILED, ResultKind.RETRYABLE
PERMANENT, CONFIGURATION = ErrorCategory.PERMANENT, ErrorCategory.CONFIGURATION
TRANSIENT, QUOTA = ErrorCategory.TRANSIENT, ErrorCategory.QUOTA

GREETING, EHLO, MAIL, RCPT, DATA, DOT = Step.GREETING, Step.EHLO, Step.MAIL, Step.RCPT, Step.DATA, Step.DOT

ANSWERS = [
    # the session
    (GREETING, "421 4.3.2 restarting", "SMTP_SERVICE_UNAVAILABLE", TRANSIENT, RETRYABLE),
    (GREETING, "450 busy", "SMTP_SERVICE_UNAVAILABLE", TRANSIENT, RETRYABLE),
    (GREETING, "554 5.7.1 your address is listed", "SMTP_ACCESS_REFUSED", CONFIGURATION, FAILED),
    (GREETING, "250 what?", "SMTP_UNKNOWN_REPLY", TRANSIENT, RETRYABLE),
    (EHLO, "421 too busy", "SMTP_SERVICE_UNAVAILABLE", TRANSIENT, RETRYABLE),
    (EHLO, "451 later", "SMTP_SERVICE_UNAVAILABLE", TRANSIENT, RETRYABLE),
    (EHLO, "550 5.7.1 bad name", "SMTP_ACCESS_REFUSED", CONFIGURATION, FAILED),
    (GREETING, "421 too many connections from your address", "SMTP_THROTTLED", QUOTA, RETRYABLE),
    # the sender
    (MAIL, "421 Maximum rate exceeded", "SMTP_THROTTLED", QUOTA, RETRYABLE),
    (MAIL, "421 too many messages per session", "SMTP_THROTTLED", QUOTA, RETRYABLE),
    (MAIL, "451 Rate limit exceeded", "SMTP_THROTTLED", QUOTA, RETRYABLE),
    (MAIL, "452 4.3.1 throttled", "SMTP_THROTTLED", QUOTA, RETRYABLE),
    (MAIL, "451 you have reached your daily limit", "SMTP_DAILY_QUOTA_EXCEEDED", QUOTA, RETRYABLE),
    (MAIL, "421 4.4.2 closing", "SMTP_SERVICE_UNAVAILABLE", TRANSIENT, RETRYABLE),
    (MAIL, "451 4.3.0 later", "SMTP_TEMPORARY_FAILURE", TRANSIENT, RETRYABLE),
    (MAIL, "452 4.3.1 disk full", "SMTP_TEMPORARY_FAILURE", TRANSIENT, RETRYABLE),
    (MAIL, "454 Throttling failure: Maximum sending rate exceeded", "SMTP_THROTTLED", QUOTA, RETRYABLE),
    (MAIL, "503 5.5.1 nested MAIL", "SMTP_OUT_OF_SEQUENCE", TRANSIENT, RETRYABLE),
    (MAIL, "530 5.7.0 Authentication required", "SMTP_AUTH_FAILED", CONFIGURATION, FAILED),
    (MAIL, "550 5.1.8 bad sender", "SMTP_SENDER_REFUSED", CONFIGURATION, FAILED),
    (MAIL, "550 5.7.1 sender not allowed", "SMTP_SENDER_REFUSED", CONFIGURATION, FAILED),
    (MAIL, "550 no", "SMTP_SENDER_REFUSED", CONFIGURATION, FAILED),
    (MAIL, "552 5.3.4 too big", "SMTP_MESSAGE_TOO_LARGE", PERMANENT, FAILED),
    (MAIL, "552 too big", "SMTP_MESSAGE_TOO_LARGE", PERMANENT, FAILED),
    (MAIL, "554 5.6.1 media not supported", "SMTP_CONTENT_REJECTED", PERMANENT, FAILED),
    (MAIL, "399 what?", "SMTP_UNKNOWN_REPLY", TRANSIENT, RETRYABLE),
    (MAIL, "600 what?", "SMTP_UNKNOWN_REPLY", TRANSIENT, RETRYABLE),
    # the recipient
    (RCPT, "421 4.7.0 closing", "SMTP_SERVICE_UNAVAILABLE", TRANSIENT, RETRYABLE),
    (RCPT, "450 4.2.0 greylisted", "SMTP_TEMPORARY_FAILURE", TRANSIENT, RETRYABLE),
    (RCPT, "451 4.1.1 unknown for now", "SMTP_TEMPORARY_FAILURE", TRANSIENT, RETRYABLE),
    (RCPT, "452 4.2.2 over quota", "SMTP_MAILBOX_FULL", TRANSIENT, RETRYABLE),
    (RCPT, "450 4.7.1 rate limit exceeded", "SMTP_THROTTLED", QUOTA, RETRYABLE),
    (RCPT, "450 4.7.1 you separate too much", "SMTP_TEMPORARY_FAILURE", TRANSIENT, RETRYABLE),
    (RCPT, "450 4.2.1 this user gets mail at a rate that is too high", "SMTP_TEMPORARY_FAILURE", TRANSIENT, RETRYABLE),
    (RCPT, "452 mailbox is over its quota", "SMTP_MAILBOX_FULL", TRANSIENT, RETRYABLE),
    (RCPT, "452 4.5.3 too many recipients", "SMTP_TEMPORARY_FAILURE", TRANSIENT, RETRYABLE),
    (RCPT, "450 message size limit for now", "SMTP_TEMPORARY_FAILURE", TRANSIENT, RETRYABLE),
    (RCPT, "550 Hourly limit exceeded", "SMTP_THROTTLED", QUOTA, RETRYABLE),
    (RCPT, "550 5.2.1 this user has a daily limit", "SMTP_RECIPIENT_REJECTED", PERMANENT, FAILED),
    (RCPT, "554 5.7.1 <a@b.example>: Relay access denied", "SMTP_RELAY_DENIED", CONFIGURATION, FAILED),
    (RCPT, "550 5.7.54 unable to relay recipient", "SMTP_RELAY_DENIED", CONFIGURATION, FAILED),
    (RCPT, "550 relaying denied", "SMTP_RELAY_DENIED", CONFIGURATION, FAILED),
    (RCPT, "550 5.7.1 your relay is on a list", "SMTP_POLICY_REJECTED", PERMANENT, FAILED),
    (RCPT, "530 5.7.0 log in first", "SMTP_AUTH_FAILED", CONFIGURATION, FAILED),
    (RCPT, "550 5.1.1 user unknown", "SMTP_RECIPIENT_REJECTED", PERMANENT, FAILED),
    (RCPT, "550 5.1.2 bad domain", "SMTP_RECIPIENT_REJECTED", PERMANENT, FAILED),
    (RCPT, "553 5.1.3 bad syntax", "SMTP_RECIPIENT_REJECTED", PERMANENT, FAILED),
    (RCPT, "551 5.1.6 moved", "SMTP_RECIPIENT_REJECTED", PERMANENT, FAILED),
    (RCPT, "556 5.1.10 null MX", "SMTP_RECIPIENT_REJECTED", PERMANENT, FAILED),
    (RCPT, "556 takes no mail", "SMTP_RECIPIENT_REJECTED", PERMANENT, FAILED),
    (RCPT, "550 5.2.1 disabled", "SMTP_RECIPIENT_REJECTED", PERMANENT, FAILED),
    (RCPT, "550 5.4.4 host not found", "SMTP_RECIPIENT_REJECTED", PERMANENT, FAILED),
    (RCPT, "550 no such user here", "SMTP_RECIPIENT_REJECTED", PERMANENT, FAILED),
    (RCPT, "550 blocked by our spam filter", "SMTP_POLICY_REJECTED", PERMANENT, FAILED),
    (RCPT, "550 5.1.11 something new", "SMTP_MESSAGE_REJECTED", PERMANENT, FAILED),
    (RCPT, "552 5.2.2 full", "SMTP_MAILBOX_FULL", PERMANENT, FAILED),
    (RCPT, "552 full", "SMTP_MAILBOX_FULL", PERMANENT, FAILED),
    (RCPT, "552 5.2.3 too big for this mailbox", "SMTP_MESSAGE_TOO_LARGE", PERMANENT, FAILED),
    (RCPT, "550 5.7.1 not wanted", "SMTP_POLICY_REJECTED", PERMANENT, FAILED),
    (RCPT, "550 5.7.26 unauthenticated", "SMTP_POLICY_REJECTED", PERMANENT, FAILED),
    (RCPT, "354 what?", "SMTP_UNKNOWN_REPLY", TRANSIENT, RETRYABLE),
    # the content
    (DATA, "421 closing", "SMTP_SERVICE_UNAVAILABLE", TRANSIENT, RETRYABLE),
    (DATA, "451 4.3.0 later", "SMTP_TEMPORARY_FAILURE", TRANSIENT, RETRYABLE),
    (DATA, "554 5.7.1 no", "SMTP_POLICY_REJECTED", PERMANENT, FAILED),
    (DATA, "554 no", "SMTP_MESSAGE_REJECTED", PERMANENT, FAILED),
    (DATA, "250 what?", "SMTP_UNKNOWN_REPLY", TRANSIENT, RETRYABLE),
    (DOT, "421 4.3.2 closing", "SMTP_SERVICE_UNAVAILABLE", TRANSIENT, RETRYABLE),
    (DOT, "421 4.7.28 unusual rate of mail", "SMTP_THROTTLED", QUOTA, RETRYABLE),
    (DOT, "451 4.7.1 scanner is down", "SMTP_TEMPORARY_FAILURE", TRANSIENT, RETRYABLE),
    (DOT, "452 4.2.2 full", "SMTP_MAILBOX_FULL", TRANSIENT, RETRYABLE),
    (DOT, "454 Throttling failure: Maximum sending rate exceeded", "SMTP_THROTTLED", QUOTA, RETRYABLE),
    (DOT, "454 Throttling failure: Daily message quota exceeded", "SMTP_DAILY_QUOTA_EXCEEDED", QUOTA, RETRYABLE),
    (DOT, "550 5.4.5 Daily user sending quota exceeded", "SMTP_DAILY_QUOTA_EXCEEDED", QUOTA, RETRYABLE),
    (DOT, "550 daily sending limit reached", "SMTP_DAILY_QUOTA_EXCEEDED", QUOTA, RETRYABLE),
    (DOT, "554 Sending paused for this account.", "SMTP_SENDING_PAUSED", PERMANENT, FAILED),
    (DOT, "554 Message rejected: Sending suspended for this account", "SMTP_SENDING_PAUSED", PERMANENT, FAILED),
    (DOT, "554 Email address is not verified. us@example.com", "SMTP_SENDER_NOT_VERIFIED", CONFIGURATION, FAILED),
    (DOT, "554 not authorized to perform ses:SendRawEmail", "SMTP_SENDER_NOT_ALLOWED", CONFIGURATION, FAILED),
    (DOT, "550 5.2.2 full", "SMTP_MAILBOX_FULL", PERMANENT, FAILED),
    (DOT, "552 5.3.4 too big", "SMTP_MESSAGE_TOO_LARGE", PERMANENT, FAILED),
    (DOT, "552 too big", "SMTP_MESSAGE_TOO_LARGE", PERMANENT, FAILED),
    (DOT, "552 5.7.0 attachment blocked", "SMTP_POLICY_REJECTED", PERMANENT, FAILED),
    (DOT, "554 5.6.0 malformed", "SMTP_CONTENT_REJECTED", PERMANENT, FAILED),
    (DOT, "550 5.7.1 spam", "SMTP_POLICY_REJECTED", PERMANENT, FAILED),
    (DOT, "554 5.0.0 failed", "SMTP_MESSAGE_REJECTED", PERMANENT, FAILED),
    (DOT, "554 failed", "SMTP_MESSAGE_REJECTED", PERMANENT, FAILED),
]


@pytest.mark.parametrize("pipelining", [True, False], ids=["pipelined", "step by step"])
@pytest.mark.parametrize(
    ("step", "reply", "code", "category", "kind"), ANSWERS, ids=[f"{row[0].name} {row[1][:24]}" for row in ANSWERS]
)
async def test_reply_has_the_meaning_of_its_rule(
    step: Step, reply: str, code: str, category: ErrorCategory, kind: ResultKind, pipelining: bool
) -> None:
    async with SmtpSink(pipelining=pipelining) as sink, smtp_to(sink) as smtp:
        sink.answer(step, reply, nth=1)
        result = await smtp.send(a_mail())
        assert (result.code, result.category, result.kind) == (code, category, kind)
        assert result.provider == "smtp"
        assert result.message
        assert result.message.endswith(reply.split(" ", 1)[1])
        assert result.original_code
        assert reply.startswith(result.original_code)
        assert not sink.messages
        assert result.definitely_not_sent

        assert (await smtp.send(a_mail())).kind is ResultKind.SENT, "the next message is not blocked"
        assert not sink.violations


PHASES = {
    GREETING: SmtpPhase.GREETING,
    EHLO: SmtpPhase.HELLO,
    MAIL: SmtpPhase.MAIL,
    RCPT: SmtpPhase.RCPT,
    DATA: SmtpPhase.DATA,
    DOT: SmtpPhase.DOT,
}


def deciding(phase: SmtpPhase, code: str, text: str) -> SmtpResponseRule | None:
    reply = SmtpReply(int(code), [text.encode()])
    subject = f"{reply.code} {reply.enhanced or '-'}"
    fitting = (row for row in RESPONSE_RULES if phase in row.phases and row.replies.match(subject))
    return next((row for row in fitting if row.text.search(reply.text)), None)


@pytest.mark.parametrize("blanks", ["  ", "\t"])
@pytest.mark.parametrize(
    ("reply", "code"), [(reply, code) for step, reply, code, *_ in ANSWERS if step is DOT and reply.count(" ") > 2]
)
def test_blanks_do_not_change_the_meaning(reply: str, code: str, blanks: str) -> None:
    number, words = reply.split(" ", 1)
    spaced = words.replace(" ", blanks).encode()
    assert interpret_rejection(SmtpPhase.DOT, SmtpReply(int(number), [spaced])).code == code


def test_every_rule_of_the_table_is_tested() -> None:
    elsewhere = [
        row for row in RESPONSE_RULES if row.phases in ((SmtpPhase.STARTTLS,), (SmtpPhase.AUTH,))
    ]  # In the replies to the login.
    decided = [deciding(PHASES[step], *reply.split(" ", 1)) for step, reply, *_ in ANSWERS]
    assert not [row for row in RESPONSE_RULES if row not in decided and row not in elsewhere]
    assert {code for _, _, code, _, _ in ANSWERS} >= {UNKNOWN.code}


async def test_unknown_reply_is_temporary() -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        sink.answer(Step.RCPT, "699 5.1.1 gone")
        result = await smtp.send(a_mail())
    assert result.message == "unknown reply to RCPT: 699 5.1.1 5.1.1 gone"
    assert result.kind is RETRYABLE


async def test_daily_quota_is_retried_after_hours() -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        sink.answer(Step.DOT, "454 Throttling failure: Daily message quota exceeded")
        assert (await smtp.send(a_mail())).retry_after == 4 * HOUR
        sink.answer(Step.DOT, "550 5.4.5 Daily user sending quota exceeded")
        assert (await smtp.send(a_mail())).retry_after == 4 * HOUR
        sink.answer(Step.RCPT, "550 Hourly limit exceeded")
        assert (await smtp.send(a_mail())).retry_after == 15 * MINUTE


@pytest.mark.parametrize(
    ("step", "reply", "is_blamed"),
    [
        (GREETING, "421 busy", True),
        (MAIL, "451 later", True),
        (MAIL, "550 no", True),
        (RCPT, "421 closing", True),
        (RCPT, "550 5.1.1 unknown", False),
        (RCPT, "450 later", False),
        (DOT, "554 5.7.1 spam", False),
        (DOT, "454 Throttling failure", False),
    ],
)
async def test_provider_is_blamed_for_general_errors(step: Step, reply: str, is_blamed: bool) -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        sink.answer(step, reply)
        assert (await smtp.send(a_mail())).blames_provider is is_blamed


@pytest.mark.parametrize("reply", ["250 ok", "251 forwarded", "200 fine", "250-two\r\n250 lines"])
async def test_any_success_reply_to_the_content_means_sent(reply: str) -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        sink.answer(Step.DOT, reply)
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT
