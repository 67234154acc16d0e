"""The job of every contender: a message of about 10 KB, HTML and text, eight variables, a personal unsubscribe link.

This is the only definition. Mailwright imports it; peers read `job.json` and `recipients.jsonl`, generated from it.
"""

import base64
import hashlib
import json
import re
from email import message_from_bytes, policy
from html import unescape
from pathlib import Path

SENDER = "Harbour Lane <news@harbour.example>"
SENDER_ADDRESS = "news@harbour.example"
SUBJECT = "{{ first_name }}, your order {{ order_number }} and what is new in {{ city }}"
# Short enough for a header line of 78 characters: beyond, Python's EmailMessage encodes the address and spoils it.
UNSUBSCRIBE_BASE = "https://harbour.example/u/"
VARIABLES = ("first_name", "city", "order_number", "amount", "plan", "due_date", "points", "link")

UNSUBSCRIBE_HEADER = re.compile(rb"^List-Unsubscribe:\s+<http", re.M | re.I)  # A plain address, not an encoded word.

# The size on the wire, with headers and transfer encoding, in the form that each contender writes.
SIZE_BYTES = range(8_500, 13_000)

_FACTS = (
    "The boats come in before six, and by seven the market hall in {{ city }} smells of salt, coffee and oranges.",
    "Members on the {{ plan }} plan collect twice the points until {{ due_date }}; you have {{ points }} of them now.",
    "Our bakers start the sourdough the evening before, which is why the first loaves are still warm at eight o’clock.",
    "Every crate is packed by hand and sealed with paper tape, so all of it can go into the same bin afterwards.",
)
_STYLE = "margin:0 0 16px 0;font-family:Georgia,serif;font-size:16px;line-height:24px;color:#222222"


def _html_block(number: int, fact: str) -> str:
    return (
        f'<tr>\n<td style="padding:16px 24px;border-bottom:1px solid #dddddd">\n'
        f'<h2 style="margin:0 0 8px 0;font-family:Georgia,serif;font-size:20px;color:#114455">Note {number}</h2>\n'
        f'<p style="{_STYLE}">{fact}</p>\n'
        f'<p style="{_STYLE}"><a href="{{{{ link }}}}" style="color:#0a6c74">Read on, {{{{ first_name }}}}</a></p>\n'
        f"</td>\n</tr>\n"
    )


HTML = (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Harbour Lane</title>\n</head>\n'
    '<body style="margin:0;padding:0;background:#f4f2ee">\n'
    '<table role="presentation" width="600" align="center" cellpadding="0" cellspacing="0">\n'
    f'<tr>\n<td style="padding:24px">\n<p style="{_STYLE}">Dear {{{{ first_name }}}},</p>\n'
    f'<p style="{_STYLE}">order {{{{ order_number }}}} over {{{{ amount }}}} is on its way to {{{{ city }}}}.</p>\n'
    "</td>\n</tr>\n"
    + "".join(_html_block(number, _FACTS[number % len(_FACTS)]) for number in range(1, 12))
    + f'<tr>\n<td style="padding:24px">\n<p style="{_STYLE}">You get this mail as a member of Harbour Lane.\n'
    '<a href="{{ unsubscribe_url }}">Unsubscribe</a></p>\n</td>\n</tr>\n</table>\n</body>\n</html>\n'
)

TEXT = (
    "Dear {{ first_name }},\n\norder {{ order_number }} over {{ amount }} is on its way to {{ city }}.\n\n"
    + "".join(f"{number}. {_FACTS[number % len(_FACTS)]}\n{{{{ link }}}}\n\n" for number in range(1, 12))
    + "You get this mail as a member of Harbour Lane.\nUnsubscribe: {{ unsubscribe_url }}\n"
)


# The other job: a receipt as an application sends it, with HTML of its own in every message and no text.
RECEIPT_SUBJECT = "Your order @@"
RECEIPT = (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Receipt</title>\n'
    "<style>body{margin:0} td{font-family:Arial}</style>\n</head>\n"
    '<body style="margin:0;padding:0">\n<div style="display:none">Your order is on its way</div>\n'
    '<table role="presentation" width="600">\n<tr>\n<td>\n<h1>Thank you, customer @@</h1>\n'
    '<p>Your order <b>HL-@@</b> is on its way.</p>\n<table width="100%">\n<tr><th>Item</th><th>Price</th></tr>\n'
    + "".join(
        '<tr><td style="padding:8px;border-bottom:1px solid #eee">'
        f'<a href="https://harbour.example/item/@@/{number}?source=receipt&amp;row={number}">Item number {number}</a>'
        f'</td><td align="right">{number}.50 €</td></tr>\n'
        for number in range(40)
    )
    + '</table>\n<p>Questions? <a href="https://harbour.example/help">Write to us</a>.</p>\n'
    "</td>\n</tr>\n</table>\n</body>\n</html>\n"
)
RECEIPT_TEXT = "Thank you, customer @@\n\n" + "".join(
    f"Item number {number} (https://harbour.example/item/@@/{number}) {number}.50 €\n" for number in range(40)
)


def recipient(number: int) -> dict[str, str]:
    """Return the same recipient for the same number, in every contender and run."""
    digest = hashlib.sha256(number.to_bytes(8, "big")).digest()
    return {
        "email": f"reader{number}@readers.example",
        "token": base64.urlsafe_b64encode(digest[:16]).decode().rstrip("="),
        "first_name": ("Ana", "Bram", "Chloé", "Dmitri", "Elif", "Farah", "Goran", "Hanne")[number % 8],
        "city": ("Porto", "Bergen", "Gdańsk", "Trieste", "Cork")[number % 5],
        "order_number": f"HL-{number:08d}",
        "amount": f"{digest[0]}.{digest[1] % 100:02d} €",
        "plan": ("quay", "harbour", "open sea")[number % 3],
        "due_date": f"{1 + digest[2] % 28} November",
        "points": str(digest[3] * 10),
        "link": f"https://harbour.example/r/{digest[:9].hex()}",
    }


def write(folder: Path, count: int) -> None:
    """Write the job to files for contenders in other languages."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "sender": SENDER,
        "subject": SUBJECT,
        "html": HTML,
        "text": TEXT,
        "unsubscribe_base": UNSUBSCRIBE_BASE,
        "receipt_subject": RECEIPT_SUBJECT,
        "receipt": RECEIPT,
    }
    (folder / "job.json").write_text(json.dumps(content))
    with (folder / "recipients.jsonl").open("w") as lines:
        lines.writelines(json.dumps(recipient(number)) + "\n" for number in range(count))


def objections(email: bytes, number: int) -> list[str]:
    """Return why a delivered message (LF line ends) is not this job's message to recipient `number`, or None."""
    found = []
    size = len(email) + email.count(b"\n")
    if size not in SIZE_BYTES:
        found.append(f"{size} bytes are not about 10 KB")
    message = message_from_bytes(email, policy=policy.default)
    if not UNSUBSCRIBE_HEADER.search(email) or "List-Unsubscribe-Post" not in message:
        found.append("List-Unsubscribe headers are missing")
    person = recipient(number)
    for kind in ("plain", "html"):
        part = message.get_body((kind,))
        text = unescape(part.get_content()) if part else ""  # an engine may write the slash of a link as an entity
        missing = [name for name in VARIABLES if person[name] not in text]
        if "unsubscribe" not in text.lower() or missing:
            found.append(f"the {kind} part lacks {', '.join(missing) or 'the unsubscribe link'}")
    return found
