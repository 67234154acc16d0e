"""`mailwright bounce`: a mail server hands a mail that came back over, and hears whether it may forget it."""

import sys
from typing import Any, BinaryIO, Final

import typer

from mailwright.app.inbound import make_reports
from mailwright.cli.exit_codes import ending
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, command
from mailwright.cli.output import out, print_json
from mailwright.events.bounce_mail import Answered, Letters
from mailwright.events.bounces import AutoReplied, Bounced, Complained, Letter, Unreadable, Unrelated
from mailwright.events.bounces.parts import MAX_BYTES
from mailwright.ops.logs import logger

# sysexits.h, which every mail server knows: keep the mail and try again later.
TRY_AGAIN: Final = 75

KINDS: Final[dict[type[Letter], str]] = {
    Bounced: "bounce",
    Complained: "complaint",
    AutoReplied: "auto_reply",
    Unrelated: "unrelated",
    Unreadable: "unreadable",
}

app = command()

log = logger(__name__)


@app.command()
def bounce(as_json: Json = False) -> None:
    """Read one mail from standard input, record what it says about our mails, and act on it.

    For `/etc/aliases` or `.forward`: `bounces: "|mailwright bounce"`. A hard bounce or a complaint ends all mail to
    that address. A mail that is neither is let go with a line in the log.

    Exit codes: 0 done, the mail server may forget the mail; 75 not possible now (database, settings), it tries again.
    """
    mail = _beginning(sys.stdin.buffer)

    async def work(at: Installation) -> Answered:
        reports = make_reports(at.settings, at.database, at.clock)
        return await Letters(reports, at.clock).answer(mail)

    try:
        answered = run(work)
    except Exception as error:  # whatever it was, a mail that is not recorded must not be lost
        ending(error)
        raise typer.Exit(TRY_AGAIN) from error
    kind = KINDS[type(answered.letter)]
    if not answered.reports:
        log.warning("bounce_mail_ignored", kind=kind)
    if as_json:
        print_json(_described(kind, answered))
    else:
        out.print(_sentence(kind, answered), markup=False)


def _beginning(stream: BinaryIO) -> bytes:
    """As much as is ever looked at. The rest is read as well: a mail server minds if nobody does."""
    mail = stream.read(MAX_BYTES)
    while stream.read(MAX_BYTES):
        pass
    return mail


def _sentence(kind: str, answered: Answered) -> str:
    if not answered.reports:
        return f"Nothing about a mail of ours: {kind.replace('_', ' ')}."
    received = answered.received
    return f"{kind}: {received.new} new, {received.repeated} known already, {received.unknown} about no mail of ours."


def _described(kind: str, answered: Answered) -> dict[str, Any]:
    return {
        "kind": kind,
        "new": answered.received.new,
        "repeated": answered.received.repeated,
        "unknown": answered.received.unknown,
        "reports": [
            {
                "type": report.type,
                "recipient": report.recipient,
                "verdict": report.verdict,
                "outboxId": report.outbox_id,
                **report.metadata,
            }
            for report in answered.reports
        ],
    }
