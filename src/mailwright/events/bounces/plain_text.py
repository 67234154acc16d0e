"""Parse bounces in plain text, from servers that send no delivery status notifications."""

import re

from mailwright.events.bounces.diagnosis import ADDRESS, RecipientFields, find_address, find_addresses
from mailwright.events.bounces.email_parts import EmailHeaders
from mailwright.events.bounces.model import DsnAction

# Text beyond this is the returned message.
MAX_TEXT_LENGTH = 32_000
MAX_RECIPIENTS = 100

_SERVER_SENDERS = re.compile(
    r"\b(?:mailer-?daemon|mail-?daemon|mdaemon|post_?master|mailadm|e?mail[- ._]?delivery|delivery[- ._]?subsystem"
    r"|interscan|system administrator)\b",
    re.IGNORECASE,
)
_REPLY_OR_FORWARD = re.compile(r"\s*(?:re|aw|sv|fwd?|wg|tr)\s?:", re.IGNORECASE)

# Phrases in the subject or the first lines of such emails.
_FAILURE = re.compile(
    r"undeliver|non-?delivery|delivery (?:status|failure|failed|report|notification|problem|error|has failed)"
    r"|(?:mail|message) delivery|deliver(?:y|ed|) to the following|failure notice|failure reasons|mail failure"
    r"|returned (?:mail|to sender|message)|returning message|could ?n[o']t be delivered|could not be delivered"
    r"|(?:wasn't|was not|not) able to deliver|unable to deliver|cannot be delivered|did not reach|was not delivered"
    r"|warning: (?:message|could not send)|delayed mail|rejected mail|mail could not be sent|failed (?:mail|recipient)"
    r"|(?:mail|message) (?:has |)failed|automatically rejected|mail system error|user unknown|no such user"
    r"|(?:could not|unable to) deliver|n'a pas pu etre delivre|n'a pas pu être|konnte nicht zugestellt"
    r"|не доставлен|не может быть доставлено|退信|投递失败|無法投遞",
    re.IGNORECASE,
)
_STILL_TRYING = re.compile(
    r"warning only|still being retried|will be retried|delayed mail|delivery delayed|will (?:keep|continue) trying"
    r"|not yet been delivered|\(delay\)|no need to resend|will continue to (?:be made|try)|has been postponed",
    re.IGNORECASE,
)

# Where the server's text ends and the returned message begins.
_RETURNED = re.compile(
    r"^[ \t]*-{2,}[ ]?(?:Below this line is|This is a copy|Original message|Returned (?:message|mail)|Unsent message"
    r"|The (?:header|body) of the (?:original|message)|Forwarded message|Undelivered message"
    r"|START OF RETURNED|The header and top)"
    r"|^(?:Old message|The original message follows|Original message headers|Message headers follow"
    r"|Original message (?:follows|attached|as received|details)|A copy of the original message|Your message reads)"
    r"[ \t]{0,5}:?|^\|?[ \t]*-{3,}[ ]*Message text follows"
    r"|^Return-Path[ \t]{0,3}:|^Received[ \t]{0,3}: ",
    re.IGNORECASE | re.MULTILINE,
)

# Lines that name a failed recipient; the reason is the rest of the line and the lines below.
_NAMED = re.compile(
    rf"^<({ADDRESS})>(?:[ \t]*\([^()]{{0,300}}\))?[ \t]*:"  # qmail, Postfix
    rf"|^[ \t]*<?({ADDRESS})>?[ \t]*\r?$"  # Exim, Gmail, Notes: a line of its own
    rf"|^[ \t]*\"[^\"<>\n]{{0,200}}\"[ \t]*<({ADDRESS})>[ \t]*\r?$"
    rf"|^[^\n]{{0,200}}?\bSMTP=({ADDRESS});"  # Exchange, in X.400 style
    rf"|^[ \t]*(?![\w-]+:)[^\n:<>]{{0,200}}: <({ADDRESS})>[ \t]*\r?$",  # a reason first; no header field
    re.MULTILINE,
)

# A list of failed recipients without a word about them.
_LISTED = re.compile(rf"^<{ADDRESS}>:", re.MULTILINE)
_NOT_RECIPIENT = re.compile(
    r"^(?:post_?master|mailer-?daemon|abuse|hostmaster|admin(?:istrator)?|support|help)@", re.IGNORECASE
)
# Exchange repeats the headers of the message above this line.
_HEADING = re.compile(r"did not reach the following recipient(?:\(s\)|s|):", re.IGNORECASE)
# Lines about someone else: the sender, a contact person or another address of the same person.
_OTHER_LINE = re.compile(
    r"^[ \t*>]*(?:from|sender|reply-to|return-path|cc|system contact|received|date|subject|\w*-?id)[ \t]*:",
    re.IGNORECASE,
)


def is_bounce(headers: EmailHeaders, body: str) -> bool:
    """Return whether sender and wording are those of a bounce. People also write about failures."""
    subject = headers.first("subject")
    if _REPLY_OR_FORWARD.match(subject):
        return False
    mentions_failure = _FAILURE.search(subject), _FAILURE.search(body[:2_000])
    is_server = (
        headers.first("return-path").replace(" ", "") == "<>"
        or bool(headers.first("x-failed-recipients"))
        or _SERVER_SENDERS.search(headers.first("from")) is not None
        or _SERVER_SENDERS.search(headers.first("return-path")) is not None
    )
    if is_server and _LISTED.search(body[:2_000]):
        return True
    return any(mentions_failure) if is_server else all(mentions_failure)


def find_recipients(headers: EmailHeaders, body: str) -> list[RecipientFields]:
    text = strip_returned_message(body)
    action = DsnAction.DELAYED if _STILL_TRYING.search(headers.first("subject") + "\n" + text) else DsnAction.FAILED
    reasons = find_reasons(text)
    stated = find_addresses(headers.first("x-failed-recipients"))
    listed = find_addresses(headers.first("x-original-recipientlist"))
    named = stated or tuple(reasons) or listed or _mentioned(headers, text)
    return [
        RecipientFields(
            address, action, explanation=(address and reasons.get(address)) or (text if len(named) < 2 else "")
        )
        for address in named[:MAX_RECIPIENTS] or (None,)
    ]


def _mentioned(headers: EmailHeaders, text: str) -> tuple[str, ...]:
    """Return the addresses in the text other than those of servers and of the sender.

    Reports count only for recipients of the message itself, so an address of a third person has no effect.
    """
    text = _HEADING.split(text)[-1]
    lines = [line for line in text.splitlines() if not _OTHER_LINE.match(line)]
    ours = {*find_addresses(headers.first("to")), *find_addresses(headers.first("from"))}
    found = find_addresses("\n".join((headers.first("subject"), *lines)))
    return tuple(each for each in found if each not in ours and not _NOT_RECIPIENT.match(each))[:MAX_RECIPIENTS]


def find_reasons(text: str) -> dict[str, str]:
    """Return the text after each recipient's address, up to the next recipient."""
    reasons: dict[str, str] = {}
    named = list(_NAMED.finditer(text))[:MAX_RECIPIENTS]
    ends = [each.start() for each in named[1:]] + [len(text)]
    for each, end in zip(named, ends, strict=False):
        if address := find_address(each[each.lastindex or 0]):
            reasons.setdefault(address, _reason(each, text[each.end() : end]))
    return reasons


def strip_returned_message(body: str) -> str:
    """Remove the returned message below the server's text."""
    text = body[:MAX_TEXT_LENGTH]
    end = _RETURNED.search(text)
    return text[: end.start()] if end else text


def _reason(named: re.Match[str], following: str) -> str:
    paragraph = following.strip("\r\n").partition("\n\n")[0]
    # "The mailbox is full: <a@example.com>" gives the reason before the address.
    return f"{named[0].partition('<')[0]} {paragraph}" if named.lastindex == 5 else paragraph
