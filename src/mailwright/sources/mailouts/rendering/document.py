"""The HTML document of an email: a column of readable width, in light and dark colours."""

from html import escape

from mailwright.sources.mailouts.rendering.styles import FONT, INK, LINE, NARROW, PAPER, dark_rules

# The width of the text column: 60 to 100 characters per line.
WIDTH = 640
EDGE = 24


def framed(subject: str, html: str, footer: str) -> str:
    """Return a whole document, with the footer after the content."""
    body = f"margin:0;padding:0;background-color:{PAPER};color:{INK}"
    page = (
        f"max-width:{WIDTH}px;padding:32px {EDGE}px;text-align:left;background-color:{PAPER};color:{INK};"
        f"font-family:{FONT};font-size:16px;line-height:1.6;word-break:break-word;overflow-wrap:break-word"
    )
    # Outlook does not support max-width, so it gets a table of that width.
    outlook = f'<!--[if mso]><table role="presentation" align="center" width="{WIDTH + 2 * EDGE}"><tr><td><![endif]-->'
    return f"""<!doctype html>
<html>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<title>{escape(subject)}</title>
<style>
:root{{color-scheme:light dark}}
hr{{border:0;border-top:1px solid {LINE};height:0;margin:32px 0 16px}}
@media (max-width:600px){{{NARROW}}}
@media (prefers-color-scheme:dark){{
{dark_rules()}
}}
</style>
</head>
<body class="mw-body" style="{body}">
{outlook}
<div class="mw-page" style="margin:0 auto;{page}">
{html}
{footer}
</div>
<!--[if mso]></td></tr></table><![endif]-->
</body>
</html>
"""
