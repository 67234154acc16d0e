"""The option `purpose=test` in the URL of a server that only collects email, for example Mailpit or a stand-in."""

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

TEST = "test"
_OPTION = "purpose"


def collects_test_email(url: str) -> bool:
    return (_OPTION, TEST) in parse_qsl(urlsplit(url).query)


def without_purpose(url: str) -> str:
    """Return the URL for requests."""
    parts = urlsplit(url)
    options = [(name, value) for name, value in parse_qsl(parts.query) if (name, value) != (_OPTION, TEST)]
    return urlunsplit(parts._replace(query=urlencode(options)))
