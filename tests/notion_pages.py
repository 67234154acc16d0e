"""Sample pages in the JSON of Notion's API, for the stand-in, the golden files and rehearsals."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from mailwright.sources.mailouts.notion import NotionBlock

Described = dict[str, Any]  # A block in the JSON of Notion's API, with its children under `children`.

PLAIN = {"bold": False, "italic": False, "strikethrough": False, "underline": False, "code": False, "color": "default"}

# The smallest PNG there is: one pixel.
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def text(words: str, *, link: str | None = None, **looks: Any) -> Described:
    return {
        "type": "text",
        "text": {"content": words, "link": {"url": link} if link else None},
        "annotations": {**PLAIN, **looks},
        "plain_text": words,
        "href": link,
    }


def mention(words: str, kind: str, about: Mapping[str, Any], href: str | None = None, **looks: Any) -> Described:
    return {
        "type": "mention",
        "mention": {"type": kind, kind: dict(about)},
        "annotations": {**PLAIN, **looks},
        "plain_text": words,
        "href": href,
    }


def formula(expression: str) -> Described:
    return {
        "type": "equation",
        "equation": {"expression": expression},
        "annotations": dict(PLAIN),
        "plain_text": expression,
        "href": None,
    }


def block(kind: str, *inside: Described, **content: Any) -> Described:
    return {"type": kind, kind: content, "children": list(inside)}


def said(kind: str, words: str | Sequence[Described], *inside: Described, **content: Any) -> Described:
    """Return a block with text: a paragraph, a heading or a list item."""
    pieces = [text(words)] if isinstance(words, str) and words else list(words)
    return block(kind, *inside, rich_text=pieces, color=content.pop("color", "default"), **content)


def picture(url: str, caption: str = "", *, expires: bool = True) -> Described:
    kept = {"file": {"url": url, "expiry_time": "2027-01-15T09:00:00.000Z"}} if expires else {"external": {"url": url}}
    return block("image", type=next(iter(kept)), caption=[text(caption)] if caption else [], **kept)


def table(*rows: Sequence[str], head: bool = True, side: bool = False) -> Described:
    described = [block("table_row", cells=[[text(cell)] if cell else [] for cell in row]) for row in rows]
    return block("table", *described, table_width=len(rows[0]), has_column_header=head, has_row_header=side)


def as_block(described: Described, number: str = "1") -> NotionBlock:
    """Return the block as our Notion client would read it."""
    inside = [as_block(each, f"{number}.{place}") for place, each in enumerate(described.get("children", []), 1)]
    return NotionBlock(number, described["type"], described[described["type"]], tuple(inside))


def as_blocks(described: Sequence[Described]) -> tuple[NotionBlock, ...]:
    return tuple(as_block(each, str(place)) for place, each in enumerate(described, 1))


def a_newsletter(picture_url: str) -> list[Described]:
    """Return a typical monthly newsletter with most types of blocks."""
    return [
        said("heading_1", "What the harbour did in March"),
        said(
            "paragraph",
            [
                text("Dear readers, the "),
                text("new crane", bold=True),
                text(" arrived, the "),
                text("old one", strikethrough=True),
                text(" left, and the "),
                text("timetable", link="https://example.com/timetable"),
                text(" is "),
                text("finally", italic=True),
                text(" right.\nThank you for your patience."),
            ],
        ),
        said(
            "callout",
            [text("The quay is closed on "), mention("2027-04-02", "date", {"start": "2027-04-02"}), text(".")],
            said("paragraph", "Ships are sent to the northern basin."),
            icon={"type": "emoji", "emoji": "🚧"},
            color="orange_background",
        ),
        picture(picture_url, "The crane on its first morning"),
        said("heading_2", "In figures"),
        table(["", "February", "March"], ["Ships", "212", "240"], ["Tonnes", "18,300", "21,950"], side=True),
        block(
            "column_list",
            block(
                "column",
                said("heading_3", "Went well"),
                said("bulleted_list_item", "Loading at night", said("bulleted_list_item", "with the new lamps")),
                said("bulleted_list_item", "Fewer delays"),
            ),
            block(
                "column",
                said("heading_3", "Went less well"),
                said("bulleted_list_item", "The lift bridge"),
                said("bulleted_list_item", [text("Radio on channel "), text("12", code=True)]),
            ),
        ),
        *_plans(),
    ]


def _plans() -> list[Described]:
    """Return the second half of the newsletter."""
    return [
        said("heading_2", "What comes next"),
        said(
            "numbered_list_item",
            "Painting the sheds",
            said("numbered_list_item", "east", said("numbered_list_item", "doors first")),
            said("numbered_list_item", "west"),
        ),
        said("numbered_list_item", [text("A day for visitors", color="green")]),
        said("to_do", "Invite the school", checked=True),
        said("to_do", "Order flags", checked=False),
        said("quote", "A harbour is never finished.\n— the harbour master", color="default"),
        said("toggle", "How the tide is reckoned", said("paragraph", [text("By "), formula("h = a \\cos(\\omega t)")])),
        block(
            "code",
            rich_text=[text("if tide < 2:\n    wait(hours=6)  # & be patient")],
            caption=[text("The rule on the wall")],
            language="python",
        ),
        block("divider"),
        block("bookmark", url="https://example.com/visitors", caption=[text("Sign up for the visitors' day")]),
        said("paragraph", [text("Write to "), text("ada@example.com", link="mailto:ada@example.com"), text(".")]),
        said("paragraph", ""),
    ]


def every_colour() -> list[Described]:
    names = ("gray", "brown", "orange", "yellow", "green", "blue", "purple", "pink", "red")
    return [
        said("heading_1", "Colours"),
        *(
            said("paragraph", [text(f"{name} words, ", color=name), text(f"on {name}", color=f"{name}_background")])
            for name in names
        ),
        *(said("paragraph", f"A paragraph on {name}", color=f"{name}_background") for name in names),
        *(said("callout", f"A box in {name}", color=f"{name}_background", icon=None) for name in names),
        said("callout", "A box with red words", color="red", icon={"type": "emoji", "emoji": "❗"}),
        said("heading_2", "A heading in blue", color="blue"),
        said("heading_3", "A heading on pink", color="pink_background"),
        said("quote", "A quote in purple", color="purple"),
        said("bulleted_list_item", "An item on yellow", color="yellow_background"),
        said("to_do", "Done, in brown", color="brown", checked=True),
    ]


def every_type(picture_url: str) -> list[Described]:
    """Return a page with every type of block."""
    return [
        said("paragraph", "A paragraph", said("paragraph", "with a paragraph inside")),
        said("heading_1", "Heading one"),
        said("heading_2", "Heading two", is_toggleable=False),
        said("heading_3", "Heading three", said("paragraph", "inside a toggle heading"), is_toggleable=True),
        said("heading_4", "Heading four"),
        said("bulleted_list_item", "A bullet", said("numbered_list_item", "with a number inside")),
        said("numbered_list_item", "Counted from seven", list_start_index=7, list_format="roman"),
        said("numbered_list_item", "and on"),
        said("to_do", "To do", said("paragraph", "with a note"), checked=False),
        said("to_do", "Done", checked=True),
        said("toggle", "A toggle", said("paragraph", "and what it hides")),
        said("quote", "A quote", said("paragraph", "with a paragraph inside")),
        said("callout", "A callout", said("bulleted_list_item", "with a list"), icon={"type": "emoji", "emoji": "💡"}),
        block("code", rich_text=[text("<b>not bold</b>")], caption=[], language="html"),
        block("equation", expression="e^{i\\pi} = -1"),
        block("divider"),
        block("breadcrumb"),
        block("table_of_contents", color="default"),
        picture(picture_url, "A picture that Notion keeps"),
        picture("https://example.com/harbour.png", "A picture from elsewhere", expires=False),
        block("video", type="external", external={"url": "https://example.com/film.mp4"}, caption=[text("A film")]),
        block("audio", type="external", external={"url": "https://example.com/horn.mp3"}, caption=[]),
        block("pdf", type="external", external={"url": "https://example.com/tides.pdf"}, caption=[text("Tides")]),
        block("file", type="external", external={"url": "https://example.com/a.zip"}, caption=[], name="plans.zip"),
        block("file", type="file", file={"url": f"{picture_url}&kept"}, caption=[], name="kept-by-notion.docx"),
        block("embed", url="https://example.com/map", caption=[text("A map")]),
        block("bookmark", url="https://example.com/", caption=[]),
        block("link_preview", url="https://example.com/pull/12"),
        block(
            "link_to_page",
            type="page_id",
            page_id="b0b00000-0000-4000-8000-000000000001",
            title="Visitors",
            public_url="https://example.notion.site/Visitors-b0b00000000040008000000000000001",
        ),
        block("child_page", title="Drafts"),
        block("child_database", title="Ships"),
        block(
            "column_list",
            block("column", said("paragraph", "The wide column"), width_ratio=1.5),
            block("column", said("paragraph", "The narrow one"), width_ratio=0.5),
        ),
        table(["Name", "Berth"], ["Ada", "4"], ["Grace", ""]),
        block("synced_block", said("paragraph", "Synced words"), synced_from=None),
        block("tab", said("paragraph", "First tab", said("paragraph", "Its words"))),
        said("template", "Add a ship"),
        block("meeting_notes", title=[text("Private")], status="notes_ready"),
        block("transcription", title=[text("Private")], status="notes_ready"),
        block("unsupported", block_type="button"),
        said("hologram", "A type of tomorrow that has words"),
        block("smell"),
    ]


def every_word() -> list[Described]:
    """Return rich text with every annotation and type."""
    looks = ("bold", "italic", "strikethrough", "underline", "code")
    return [
        said("paragraph", [piece for look in looks for piece in (text(look, **{look: True}), text(" "))]),
        said("paragraph", [text("all at once", color="red", **dict.fromkeys(looks, True))]),
        said(
            "paragraph",
            [
                text("one ", link="https://example.com/a?b=1&c=2"),
                text("link", bold=True, link="https://example.com/a?b=1&c=2"),
                text(" in pieces, and "),
                text("https://example.com/bare", link="https://example.com/bare"),
                text(", and "),
                text("a call", link="tel:+351210000000"),
                text(", and "),
                text("a trap", link="javascript:alert(1)"),
                text(", and "),
                text("a page inside", link="/b0b00000000040008000000000000001"),
            ],
        ),
        said(
            "paragraph",
            [
                mention("@Ada", "user", {"object": "user", "id": "b0b00000-0000-4000-8000-0000000000aa"}),
                text(" · "),
                mention("Plans", "page", {"id": "b0b00000"}, "https://app.notion.com/p/Plans-b0b0"),
                text(" · "),
                mention("Open plans", "page", {"id": "b0b00001"}, "https://example.notion.site/Open-b0b1"),
                text(" · "),
                mention("Ships", "database", {"id": "b0b00002"}),
                text(" · "),
                mention("2027-03-01", "date", {"start": "2027-03-01", "end": "2027-03-03", "time_zone": None}),
                text(" · "),
                mention("x", "date", {"start": "2027-03-01T09:30:00.000+01:00", "end": None, "time_zone": None}),
                text(" · "),
                mention("https://example.com/pull/1", "link_preview", {"url": "https://example.com/pull/1"}),
                text(" · "),
                mention("x", "link_mention", {"href": "https://example.com/read", "title": "Worth reading"}),
                text(" · "),
                mention("@Today", "template_mention", {"type": "template_mention_date"}),
                text(" · "),
                mention(":anchor:", "custom_emoji", {"id": "1", "name": "anchor", "url": "https://example.com/e.png"}),
            ],
        ),
        said("paragraph", [text("<script>alert('x')</script> & {{ name }} \u202eback"), formula("a < b")]),
    ]


MAILOUT_COLUMNS: dict[str, Any] = {
    "Name": "title",
    "Subject": "rich_text",
    "Status": ("status", ("Draft", "Ready", "Send", "Failed")),
    "Test": "checkbox",
    "Sent At": "date",
    "Sent Count": "number",
    "Failed Count": "number",
    "Delivered Count": "number",
    "Bounce Rate": "number",
    "Unsub Rate": "number",
}
ERROR_COLUMNS: dict[str, Any] = {
    "Name": "title",
    "Timestamp": "date",
    "Mailout ID": "rich_text",
    "Is Test": "checkbox",
    "Provider": ("select", ("ses", "smtp", "mailbox")),
    "Stage": ("select", ()),
    "Email": "email",
    "Error Code": "rich_text",
    "Error Message": "rich_text",
    "Retry Count": "number",
}
