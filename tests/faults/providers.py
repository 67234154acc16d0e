"""HTTP providers for fault runs: worker settings, and which message a request is about."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

from tests.standins import sendgrid, ses
from tests.standins.http import HttpStandIn, Request


@dataclass(frozen=True, slots=True)
class FaultProvider:
    name: str
    stand_in: type[HttpStandIn]
    send_path: str
    settings: Callable[[HttpStandIn], dict[str, str]]
    message_of: Callable[[Any], str]  # Our ID in the request.
    taken: Callable[[Any], Iterable[tuple[str, str]]]  # Our ID and the stand-in's for each message.

    def sends(self, server: HttpStandIn) -> list[str]:
        """Return our ID of each complete request, once per request."""
        return [self.message_in(request) for request in server.requests if request.path == self.send_path]

    def ids_given(self, server: HttpStandIn) -> dict[str, str]:
        """Return the provider's IDs by ours; of a message accepted twice, the last."""
        return dict(self.taken(server))

    def message_in(self, request: Request) -> str:
        return self.message_of(request.json())


def _ses_settings(server: HttpStandIn) -> dict[str, str]:
    return {
        "MAILWRIGHT_PROVIDER": "ses",
        "MAILWRIGHT_SES_URL": server.url,
        "AWS_REGION": ses.REGION,
        "AWS_ACCESS_KEY_ID": ses.ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": ses.SECRET_KEY,
        # A message in doubt then waits for a report.
        "SNS_TOPIC_ARNS": f"arn:aws:sns:{ses.REGION}:123456789012:events",
    }


def _sendgrid_settings(server: HttpStandIn) -> dict[str, str]:
    return {
        "MAILWRIGHT_PROVIDER": "sendgrid",
        "MAILWRIGHT_SENDGRID_URL": server.url,
        "SENDGRID_API_KEY": sendgrid.KEY,
        "SENDGRID_WEBHOOK_PUBLIC_KEY": cast("sendgrid.SendGridStandIn", server).public_key,
    }


def _sendgrid_message(document: Any) -> str:
    return str(document["personalizations"][0]["custom_args"]["mailwright_message"])


FAULT_PROVIDERS = {
    carrier.name: carrier
    for carrier in (
        FaultProvider(
            "ses",
            ses.SesStandIn,
            ses.SEND,
            _ses_settings,
            lambda document: str(document["EmailTags"][0]["Value"]),
            lambda server: [(message.tags["mailwright-message"], message.message_id) for message in server.messages],
        ),
        FaultProvider(
            "sendgrid",
            sendgrid.SendGridStandIn,
            sendgrid.SEND,
            _sendgrid_settings,
            _sendgrid_message,
            lambda server: zip(map(_sendgrid_message, server.messages), server.message_ids, strict=True),
        ),
    )
}
