"""The `brevo` provider: it sends over Brevo's SMTP server, because its API cannot carry inline images.

The header `X-Mailin-custom` carries the id of the message, and Brevo repeats it in every event.
"""

from dataclasses import replace
from typing import Final

from mailwright.domain.clock import Clock
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.providers.brevo.kind import BrevoFields
from mailwright.providers.protocol import ResultCallback, SendHandle
from mailwright.providers.reading_settings import read_smtp_url
from mailwright.providers.smtp.settings import SmtpSettings, Timeouts
from mailwright.providers.smtp_account import SmtpAccount

MESSAGE_HEADER: Final = "X-Mailin-custom"


class Brevo(SmtpAccount):
    name = "brevo"

    def __init__(
        self,
        settings: SmtpSettings,
        *,
        clock: Clock | None = None,
        reports_events: bool = True,
        timeouts: Timeouts | None = None,
        hostname: str | None = None,
    ) -> None:
        super().__init__(settings, clock=clock, timeouts=timeouts, hostname=hostname)
        self.reports_events = reports_events

    def send_with_callback(self, message: OutgoingMessage, on_result: ResultCallback) -> SendHandle:
        # A header in front of the others does not break the DKIM signature.
        content = f"{MESSAGE_HEADER}: {message.outbox_id}\r\n".encode() + message.content
        return super().send_with_callback(replace(message, content=content), on_result)


def read_settings(settings: BrevoFields) -> SmtpSettings:
    return read_smtp_url("brevo", "BREVO_SMTP_URL", settings.brevo_smtp_url, settings)


def make_provider(settings: BrevoFields, clock: Clock, _http: object, *, reports_events: bool) -> Brevo:
    return Brevo(read_settings(settings), clock=clock, reports_events=reports_events)
