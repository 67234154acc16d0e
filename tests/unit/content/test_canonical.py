"""Built emails are canonical, so that providers need not check them again."""

import quopri
from email import message_from_bytes, policy

from hypothesis import given
from hypothesis import strategies as st

from mailwright.content.headers import Mailbox
from mailwright.content.layout import Layout, RecipientHeaders, SharedHeaders
from mailwright.content.mime import EmailParts, build_email, quoted_printable

# Many dots, line ends and spaces: the characters that could start a line with a dot or end one wrongly.
TRICKY = st.text(st.sampled_from(".. \n\r\t=aé"), max_size=400)
# Links, whose last part is encoded separately: a dot may be at any place where a line is cut.
LINKS = st.tuples(st.sampled_from(["https://example.com/", "/.", "="]), st.text("a.", max_size=200)).map("/".join)
SENDER, RECIPIENT = Mailbox("news@example.com", "News"), Mailbox("ada@example.com", "Ada")


def is_canonical(content: bytes) -> bool:
    lines = content.split(b"\r\n")
    return not any(b"\r" in line or b"\n" in line or line.startswith(b".") for line in lines) and lines[-1] == b""


@given(html=TRICKY, text=TRICKY)
def test_built_email_has_canonical_lines(html: str, text: str) -> None:
    email = EmailParts("<1@example.com>", 1_800_000_000_000, SENDER, RECIPIENT, "Hello", html=html, text=text)
    assert is_canonical(build_email(email))


@given(value=st.one_of(TRICKY, LINKS), literal=TRICKY)
def test_filled_layout_has_canonical_lines(value: str, literal: str) -> None:
    literal = literal.replace("{", "")
    layout = Layout.compile(
        SharedHeaders(SENDER), subject="Hello", html=f"<p>{literal}{{{{ x }}}}.</p>", text=f"{literal}{{{{ x }}}}."
    )
    content = layout.fill(RecipientHeaders(RECIPIENT, "<1@example.com>", 1_800_000_000_000, "1"), {"x": value})
    assert is_canonical(content)
    body = message_from_bytes(content, policy=policy.default).get_body(("plain",))
    assert body is not None


@given(text=TRICKY)
def test_leading_dot_is_encoded_within_line_length(text: str) -> None:
    encoded = quoted_printable(text)
    expected = text.replace("\r\n", "\n").replace("\r", "\n").encode()
    assert quopri.decodestring(encoded.replace(b"\r\n", b"\n")) == expected
    assert all(len(line) <= 76 for line in encoded.split(b"\r\n"))
