"""The envelope of a message: the commands for its sender and recipients, and whether a server supports it."""

from mailwright.domain.results import SendResult
from mailwright.providers.smtp.job import SmtpJob
from mailwright.providers.smtp.login import ServerFeatures
from mailwright.providers.smtp.phases import SmtpPhase
from mailwright.providers.smtp.responses import EIGHT_BIT_UNSUPPORTED, TOO_LARGE, UTF8_UNSUPPORTED

WHOLE_ENVELOPE = (SmtpPhase.MAIL, SmtpPhase.RCPT, SmtpPhase.DATA)

# Commands that are written together, and the phases of the replies to expect.
CommandGroup = tuple[bytes, tuple[SmtpPhase, ...]]


def find_unsupported(job: SmtpJob, features: ServerFeatures) -> SendResult | None:
    """Return why this server cannot accept the message, judging by its announced features; None if it can."""
    size = len(job.message.content)
    if features.max_size_bytes is not None and size > features.max_size_bytes:
        return TOO_LARGE.result(f"the message is too large: {size} bytes, the server accepts {features.max_size_bytes}")
    if not job.is_seven_bit and "8BITMIME" not in features.offered:
        return EIGHT_BIT_UNSUPPORTED.result("the content has 8-bit bytes and the server accepts 7-bit only")
    if job.needs_utf8 and "SMTPUTF8" not in features.offered:
        return UTF8_UNSUPPORTED.result("an address has non-ASCII characters and the server does not support them")
    return None


def envelope_commands(job: SmtpJob, features: ServerFeatures) -> tuple[CommandGroup, list[CommandGroup]]:
    """Return the commands that can be written at once, and the later groups, the last one first."""
    message = job.message
    mail_from = f"MAIL FROM:<{message.sender}>{_mail_parameters(job, features)}\r\n"
    if features.pipelining and len(message.recipients) == 1:
        # With one recipient, DATA can be sent early, because the server cannot accept it for another recipient.
        return (f"{mail_from}RCPT TO:<{message.recipients[0]}>\r\nDATA\r\n".encode(), WHOLE_ENVELOPE), []
    recipients = [f"RCPT TO:<{address}>\r\n" for address in message.recipients]
    data: CommandGroup = (b"DATA\r\n", (SmtpPhase.DATA,))
    if features.pipelining:
        phases = (SmtpPhase.MAIL, *[SmtpPhase.RCPT] * len(recipients))
        return ("".join((mail_from, *recipients)).encode(), phases), [data]
    later = [data, *((command.encode(), (SmtpPhase.RCPT,)) for command in reversed(recipients))]
    return (mail_from.encode(), (SmtpPhase.MAIL,)), later


def _mail_parameters(job: SmtpJob, features: ServerFeatures) -> str:
    size = f" SIZE={len(job.message.content)}" if features.supports_size else ""
    body = "" if job.is_seven_bit else " BODY=8BITMIME"
    return f"{size}{body} SMTPUTF8" if job.needs_utf8 else size + body
