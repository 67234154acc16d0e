"""`mailwright bounce`: process a bounce email or a reply that a mail server pipes in."""

import sys
from typing import BinaryIO, Final

import typer

from mailwright.app.inbound import make_recorder, make_reports
from mailwright.cli.exit_codes import report_error
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, command
from mailwright.cli.output import out, print_json
from mailwright.events.bounce_mail import RecordedBounceMail
from mailwright.events.bounces.mailbox import MAX_READ_BYTES
from mailwright.ops.logs import logger
from mailwright.outbox.accept import Acceptor
from mailwright.schemas.inbound_events import bounce_mail_response

# EX_TEMPFAIL from sysexits.h, which makes the mail server keep the email and try again.
TRY_AGAIN: Final = 75

app = command()

log = logger(__name__)


@app.command()
def bounce(as_json: Json = False) -> None:
    """Read one email from standard input, and record its bounces and complaints, or the reply.

    To set it up, add `bounces: "|mailwright bounce"` to `/etc/aliases`, or the command to `.forward`. A hard bounce or
    a complaint suppresses the address. A reply is recorded and forwarded. DMARC reports are stored. Any other email is
    logged and ignored.

    Exit codes: 0 processed; 75 temporary failure (database, settings), so that the mail server tries again.
    """
    content = _read_bounded(sys.stdin.buffer)

    async def work(at: Installation) -> RecordedBounceMail:
        reports = make_reports(at.settings, at.database, at.clock)
        acceptor = Acceptor(at.database, at.clock, _announce_nothing)
        return await make_recorder(at.settings, at.database, at.clock, reports, acceptor).record(content)

    try:
        recorded = run(work)
    except Exception as error:  # The mail server must keep an email that was not recorded.
        report_error(error)
        raise typer.Exit(TRY_AGAIN) from error
    kind = recorded.kind
    if not recorded.reports and not recorded.dmarc:
        log.warning("bounce_mail_ignored", kind=kind)
    if as_json:
        print_json(bounce_mail_response(recorded).to_dict())
    else:
        out.print(_sentence(kind, recorded), markup=False)


def _read_bounded(stream: BinaryIO) -> bytes:
    """Read up to the size limit and discard the rest: a mail server fails if its pipe is closed early."""
    content = stream.read(MAX_READ_BYTES)
    while stream.read(MAX_READ_BYTES):
        pass
    return content


async def _announce_nothing() -> None:
    """Do nothing after a reply was accepted for forwarding: workers poll for it."""


def _sentence(kind: str, recorded: RecordedBounceMail) -> str:
    if recorded.dmarc:
        return " ".join(f"DMARC report of {each.reporter}: {each.reason or each.outcome}" for each in recorded.dmarc)
    if not recorded.reports:
        return f"Not a report about a message from this installation: {kind.replace('_', ' ')}."
    counts = recorded.counts
    return f"{kind}: {counts.new} new, {counts.repeated} already known, {counts.unknown} about unknown messages."
