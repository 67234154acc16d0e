"""Build the SES request: our own MIME, the recipients, and the message id that SES repeats in its events."""

import re
from binascii import b2a_base64
from typing import Any

import orjson

from mailwright.domain.outgoing import OutgoingMessage
from mailwright.providers.dedupe_tag import DEDUPE_TAG, dedupe_tag

# SES includes this tag in every event of the message.
TAG = "mailwright-message"
MAX_RECIPIENTS = 50
_TAG_VALUE = re.compile(r"[A-Za-z0-9_.@-]{1,255}")


def build_body(message: OutgoingMessage, configuration_set: str | None) -> bytes:
    """Build the body. The base64 message is inserted unchanged, because a JSON encoder would scan every byte.

    `FromEmailAddress` is omitted, because it would replace the From header, including the sender's name.
    """
    envelope: dict[str, Any] = {
        "Destination": {"ToAddresses": message.recipients},
        "EmailTags": [{"Name": TAG, "Value": message.outbox_id}],
    }
    if message.dedupe_key:
        envelope["EmailTags"].append({"Name": DEDUPE_TAG, "Value": dedupe_tag(message.dedupe_key, _TAG_VALUE)})
    if message.sender:
        # SES uses its own envelope sender and forwards bounces to this address.
        envelope["FeedbackForwardingEmailAddress"] = message.sender
    if configuration_set is not None:
        envelope["ConfigurationSetName"] = configuration_set
    content = b2a_base64(message.content, newline=False)
    return b"".join((orjson.dumps(envelope)[:-1], b',"Content":{"Raw":{"Data":"', content, b'"}}}'))
