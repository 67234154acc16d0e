"""The preheader: shown by inboxes, hidden in the email."""

from mailwright.content.preheader import with_preheader
from mailwright.content.template import Template


def test_preheader_comes_first_and_is_hidden() -> None:
    html = with_preheader('<html><body class="a>b"><h1>News</h1></body></html>', "What is new")
    start = html.index('<body class="a>b">') + len('<body class="a>b">')
    assert html[start:].startswith('<div style="display:none')
    assert html.index("What is new") < html.index("<h1>")


def test_preheader_is_escaped_and_keeps_variables() -> None:
    html = with_preheader("<p>News</p>", "5 < 6 for {{ name }}")
    rendered = Template(subject="News", html=html, text=None).render({"name": "Ada & Co"})
    assert "5 &lt; 6 for Ada &amp; Co" in (rendered.html or "")


def test_plain_text_does_not_repeat_the_preheader() -> None:
    html = with_preheader("<html><body><p>News</p></body></html>", "What is new")
    rendered = Template(subject="News", html=html, text=None).render({})
    assert "What is new" not in (rendered.text or "")
