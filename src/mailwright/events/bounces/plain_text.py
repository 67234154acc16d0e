"""Parse bounces in plain text, from servers that send no delivery status notifications."""

import re
from dataclasses import replace

from mailwright.domain.encoded_words import decode_words
from mailwright.events.bounces.diagnosis import (
    ADDRESS,
    RecipientFields,
    find_address,
    find_addresses,
    most_telling,
    one_line,
)
from mailwright.events.bounces.email_parts import EmailHeaders
from mailwright.events.bounces.model import DsnAction
from mailwright.events.bounces.original_message import is_reply

# Maximum number of characters that are read. Text after that is the returned message.
MAX_TEXT_LENGTH = 32_000
MAX_RECIPIENTS = 100

_SERVER_SENDERS = re.compile(
    r"\b(?:mailer-?daemon|mail-?daemon|mdaemon|post_?master|mailadm|e?mail[- ._]?delivery|delivery[- ._]?subsystem"
    r"|interscan|system administrator)\b",
    re.IGNORECASE,
)
# Both begin at the beginning of a word only, because a long word would take quadratic time.
_LOCAL_PART = re.compile(r"(?<![^\s<>,;:\"])([^\s<>,;:\"]+)@")
_ADDRESS_PART = re.compile(r"(?<![^\s<>,;:\"])[^\s<>,;:\"]*@[^\s<>,;\"]*")
# The prefixes of replies and forwarded emails in the languages of common programs, also with a number: `Re[2]:`.
_REPLY_OR_FORWARD = re.compile(
    r"\s*(?:re|aw|antw|antwort|sv|vs|vl|fwd?|wg|tr|rv|res|enc|r|i|rif|odp|pd|ynt|ilt|vá|на|отв|ответ|пер|пересл"
    r"|回复|答复|转发|回覆|轉寄|返信|転送|회신|전달)(?:\s?[\[(]\d{1,3}[\])])?\s?[:\uff1a]",
    re.IGNORECASE,
)

# Phrases in the subject or the first lines of such emails, by language.
_FAILURE = re.compile(
    r"undeliver|non-?delivery|delivery (?:status|failure|failed|report|notification|problem|error|has failed)"
    r"|(?:mail|message) delivery|deliver(?:y|ed|) to the following|failure notice|failure reasons|mail failure"
    r"|returned (?:mail|to sender|message)|returning message|could ?n[o']t be delivered|could not be delivered"
    r"|(?:wasn't|was not|not) able to deliver|unable to deliver|cannot be delivered|did not reach|was not delivered"
    r"|warning: (?:message|could not send)|delayed mail|rejected mail|mail could not be sent|failed (?:mail|recipient)"
    r"|(?:mail|message) (?:has |)failed|automatically rejected|mail system error|user unknown|no such user"
    r"|(?:could not|unable to|failed to|trouble|problems?|error) (?:deliver|sending your)|permanent (?:fatal )?errors?"
    r"|message (?:not|wasn't) delivered|not (?:been |be )?delivered|invalid user address"
    r"|unzustellbar|nicht zugestellt|nicht zustellbar|zustellung (?:ist )?fehlgeschlagen"
    r"|n'a pas (?:pu|été)|non (?:remis|distribu|délivr)|échec de (?:la )?(?:remise|distribution|livraison)"
    r"|impossible de (?:remettre|distribuer|livrer)|no se (?:ha podido|ha|pudo|puede) entregar|no (?:ha sido )?entregad"
    r"|error de entrega|no se pudo|n[ãa]o (?:foi |p[ôo]de ser )?entregue|falha n[ao] entrega|non (?:è stato |)recapitat"
    r"|mancat[ao] (?:consegna|recapito)|impossibile (?:recapitare|consegnare)|niet (?:worden )?(?:afgeleverd|bezorgd)"
    r"|onbestelbaar|nie (?:został[oa]?|może (?:zostać|być)) dostarczon|niedostarczon|kunde inte levereras"
    r"|kunne ikke leveres|ei voitu toimittaa|nedoruč|nelze doručit|kézbesíthetetlen|teslim edilemedi|iletilemedi"
    r"|не доставлен|недоставлен|не может быть доставлено|не удалось доставить|ошибка доставки|невозможно доставить"
    r"|メールエラー|配信(?:エラー|できません|不能)|送信(?:エラー|できません)|お届けできません|宛先不明|不達"
    r"|退信|投递失败|(?:无法|無法|未能)(?:投递|投遞|送达|送達|傳遞)|배달되지|배달 실패|전송 실패|반송|전달할 수 없",
    re.IGNORECASE,
)
_REPLY_LINE = re.compile(r"^[ \t]{0,20}5\d\d[ -]", re.MULTILINE)
_CODES = re.compile(r"\b[45]\d\d[ -][45]\.\d{1,3}\.\d{1,3}\b")
_STILL_TRYING = re.compile(
    r"warning only|still being retried|will be retried|delayed mail|delivery delayed|will (?:keep|continue) trying"
    r"|not yet been delivered|\(delay\)|no need to resend|will continue to (?:be made|try)|has been postponed",
    re.IGNORECASE,
)

# Lines that separate the server's text from the returned message.
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
    # At the beginning of a line: <a@example.com>: (qmail, Postfix), "a@example.com": (GMX), alone (Exim, Gmail, Notes),
    # a@example.com on Thursday (Exchange), a@example.com [User unknown], a@example.com... (sendmail).
    rf"^[ \t>*]{{0,20}}[<\"']?({ADDRESS})[>\"']?(?:[ \t]*\([^()\n]{{0,300}}\))?"
    r"(?:[ \t]*:|\.\.\.|[ \t]+(?:\[|on[ \t]|-)|[ \t]*\r?$)"
    rf"|^[ \t]*\"[^\"<>\n]{{0,200}}\"[ \t]*<({ADDRESS})>[ \t]*\r?$"
    rf"|^[45]\d\d[ -][ \d.]{{0,12}}<({ADDRESS})>\.\.\."  # sendmail: 550 <a@example.com>... User unknown
    rf"|^[^\n]{{0,200}}?\bSMTP=({ADDRESS});"  # Exchange, in X.400 style
    rf"|^[ \t]*(?![\w-]+:)[^\n:<>]{{0,200}}: <({ADDRESS})>[ \t]*\r?$"  # a reason first; no header field
    r"|^[ \t>*]{0,20}(?:failed |final |original |intended )?(?:recipient|addressee|rcpt to)(?: address)?:[ \t]{0,20}"
    rf"<?({ADDRESS})>?",
    re.MULTILINE | re.IGNORECASE,
)

MAX_CONTINUED = 20  # lines of one reason
_ENDS_WITH_CODE = re.compile(r"(?:\bsaid:?|\b[45]\d\d[ -]?|\b[45]\.\d{1,3}\.\d{1,3})\s*$")
# A list of failed recipients without reasons.
_LISTED = re.compile(rf"^<{ADDRESS}>:", re.MULTILINE)
_NOT_RECIPIENT = re.compile(
    r"^(?:post_?master|mailer-?daemon|abuse|hostmaster|admin(?:istrator)?|support|help)@", re.IGNORECASE
)
# Exchange repeats the headers of the message above this line.
_HEADING = re.compile(r"did not reach the following recipient(?:\(s\)|s|):", re.IGNORECASE)
# Lines about other addresses: the sender, a contact person or another address of the same person.
_OTHER_LINE = re.compile(
    r"^[ \t*>]*(?:from|sender|reply-to|return-path|cc|system contact|received|date|subject|\w*-?id)[ \t]*:",
    re.IGNORECASE,
)


def is_bounce(headers: EmailHeaders, body: str) -> bool:
    """Return whether both the sender and the wording indicate a bounce.

    Wording alone is not enough: people also write that something was not delivered, for example a parcel. An email that
    a person may have written must also contain details: from an unknown sender, or an answer.
    """
    subject, beginning = decode_words(headers.first("subject")), body[:2_000]
    mentions_failure = _FAILURE.search(subject), _FAILURE.search(beginning)
    is_program, is_server = _has_no_return_path(headers), is_from_server(headers)
    is_answer = any(headers.first(field) for field in ("in-reply-to", "references"))
    if _REPLY_OR_FORWARD.match(subject):  # only some gateways of mobile networks reply, with the code of the server
        return is_server and all((_FAILURE.search(beginning), _REPLY_LINE.search(beginning)))
    if is_server and (is_program or not is_answer):
        return any(mentions_failure) or _LISTED.search(beginning) is not None
    # The name of a sender is a weaker sign: a courier's "Mail Delivery Team" are people. So is any domain.
    if is_server or any(_SERVER_SENDERS.search(_ADDRESS_PART.sub(" ", each)) for each in _senders(headers)):
        return any(mentions_failure) and _has_details(headers, body)
    return all(mentions_failure) and not is_reply(headers) and _has_details(headers, body)


def is_from_server(headers: EmailHeaders) -> bool:
    return _has_no_return_path(headers) or any(
        _SERVER_SENDERS.search(name) for each in _senders(headers) for name in _LOCAL_PART.findall(each)
    )


def _has_no_return_path(headers: EmailHeaders) -> bool:
    """Return whether the return path is empty, or the email has a header of Exim that replaces it."""
    return headers.first("return-path").replace(" ", "") == "<>" or bool(headers.first("x-failed-recipients"))


def _senders(headers: EmailHeaders) -> list[str]:
    return [headers.first(field) for field in ("from", "return-path")]


def _has_details(headers: EmailHeaders, body: str) -> bool:
    """Return whether a text contains a server's status code, or a failed recipient who did not write the email."""
    text, author = strip_returned_message(body), find_address(headers.first("from"))
    return _CODES.search(text) is not None or any(each != author for each in Reasons(text).addresses)


def find_recipients(headers: EmailHeaders, body: str) -> list[RecipientFields]:
    text = strip_returned_message(body)
    subject = decode_words(headers.first("subject"))
    action = DsnAction.DELAYED if _STILL_TRYING.search(f"{subject}\n{text}") else DsnAction.FAILED
    reasons = Reasons(text)
    stated = find_addresses(headers.first("x-failed-recipients"))
    listed = find_addresses(headers.first("x-original-recipientlist"))
    named = stated or reasons.addresses or listed or _mentioned(headers, text)
    return [
        reasons.explain(RecipientFields(address, action), is_only=len(named) < 2)
        for address in named[:MAX_RECIPIENTS] or (None,)
    ]


def _mentioned(headers: EmailHeaders, text: str) -> tuple[str, ...]:
    """Return the addresses in the text, without those of servers and of the sender.

    A report counts only for recipients of the message itself, so an unrelated address has no effect.
    """
    text = _HEADING.split(text)[-1]
    lines = [line for line in text.splitlines() if not _OTHER_LINE.match(line)]
    ours = {*find_addresses(headers.first("to")), *find_addresses(headers.first("from"))}
    found = find_addresses("\n".join((headers.first("subject"), *lines)))
    return tuple(each for each in found if each not in ours and not _NOT_RECIPIENT.match(each))[:MAX_RECIPIENTS]


class Reasons:
    """The parts of a text that are about each recipient. Text about one recipient is not attributed to another."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._near: dict[str, list[str]] = {}  # the rest of the line and the paragraph
        self._far: dict[str, list[str]] = {}  # everything up to the next recipient
        self._explained: dict[tuple[str, bool], tuple[str, str]] = {}
        named = list(_NAMED.finditer(text))[:MAX_RECIPIENTS]
        ends = [each.start() for each in named[1:]] + [len(text)]
        for each, end in zip(named, ends, strict=False):
            if address := find_address(each[each.lastindex or 0]):
                following = text[each.end() : end]
                self._near.setdefault(address, []).extend(_near(each, following))
                self._far.setdefault(address, []).append(following)

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(self._near)

    def explain(self, fields: RecipientFields, *, is_only: bool) -> RecipientFields:
        """Add the texts about the recipient. If it is the only recipient, also add the whole text."""
        key = (fields.address or "", is_only)
        if key not in self._explained:
            far = [*self._far.get(key[0], ()), self._text if is_only else ""]
            context = most_telling(far) or next(filter(None, reversed(far)), "")
            self._explained[key] = most_telling(self._near.get(key[0], ())), one_line(context)
        explanation, context = self._explained[key]
        return replace(fields, explanation=explanation, context=context)


def strip_returned_message(body: str) -> str:
    """Remove the returned message below the server's text."""
    text = body[:MAX_TEXT_LENGTH]
    end = _RETURNED.search(text)
    return text[: end.start()] if end else text


def _near(named: re.Match[str], following: str) -> tuple[str, ...]:
    # In "The mailbox is full: <a@example.com>", the reason comes before the address.
    before = (named[0].partition("<")[0],) if named.lastindex == 5 else ()
    return (*before, _unfolded_line(following), following.partition("\n\n")[0])


def _unfolded_line(text: str) -> str:
    """Return the rest of the line with the lines that continue it.

    These are indented, as Postfix writes them, or come after a line that ends with a code: `said: 550`.
    """
    first, *others = text.split("\n", MAX_CONTINUED)
    lines = [first]
    for line in others[:MAX_CONTINUED]:
        if not line.strip() or not (line[0] in " \t" or _ENDS_WITH_CODE.search(lines[-1])):
            break
        lines.append(line)
    return "\n".join(lines)
