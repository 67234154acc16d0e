"""One mail as a request of SES: our own bytes, who gets them, and our id where its events will show it."""

from binascii import b2a_base64
from typing import Any

import orjson

from mailwright.domain.outgoing import OutgoingMessage

# Comes back with every event of the mail.
TAG = "mailwright-message"
MOST_RECIPIENTS = 50


def body(message: OutgoingMessage, configuration_set: str | None) -> bytes:
    """The envelope is JSON; the mail is put between its end and ours as it is, because a JSON writer would look at
    every byte of it.

    `FromEmailAddress` is left out: it would replace the From of the mail, and with it the sender's name.
    """
    envelope: dict[str, Any] = {
        "Destination": {"ToAddresses": message.recipients},
        "EmailTags": [{"Name": TAG, "Value": message.outbox_id}],
    }
    if message.sender:
        # SES has an envelope sender of its own, and forwards there what comes back to it.
        envelope["FeedbackForwardingEmailAddress"] = message.sender
    if configuration_set is not None:
        envelope["ConfigurationSetName"] = configuration_set
    mail = b2a_base64(message.content, newline=False)
    return b"".join((orjson.dumps(envelope)[:-1], b',"Content":{"Raw":{"Data":"', mail, b'"}}}'))
