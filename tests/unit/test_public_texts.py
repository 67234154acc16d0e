"""Public pages: complete translations, language choice, escaping, policy and contrast."""

import re
from dataclasses import fields
from types import SimpleNamespace

import pytest
from starlette.requests import Request

from mailwright.web.languages import language_of
from mailwright.web.public.pages import HEADERS, STYLE, page
from mailwright.web.public.texts import ENGLISH, LANGUAGES, Texts
from mailwright.web.public.theme import PublicTheme

KEYS = [field.name for field in fields(Texts)]


def names_in(text: str) -> list[str]:
    return sorted(re.findall(r"\{(\w*)\}", text))


@pytest.mark.parametrize("language", [language for language in LANGUAGES if language != "en"])
def test_every_text_exists_in_every_language(language: str) -> None:
    for key in KEYS:
        said, in_english = getattr(LANGUAGES[language], key), getattr(ENGLISH, key)
        assert said.strip() == said, key
        assert said not in {"", in_english}, key
        assert names_in(said) == names_in(in_english), key
        # Translations end with the same punctuation.
        assert said[-1] == in_english[-1] or said[-1].isalpha(), key


@pytest.mark.parametrize(
    ("query", "locale", "header", "language"),
    [
        ("", None, "", "en"),
        ("", None, "de, ja;q=0.8", "en"),
        ("", None, "ru", "ru"),
        ("", None, "pt-BR,pt;q=0.9,en;q=0.8", "pt"),
        ("", None, "de;q=0.9, en;q=0.3, ru;q=0.7", "ru"),
        ("", None, "ru;q=0, pt;q=0.1", "pt"),
        ("", None, "RU-ru ; q=1.0", "ru"),
        ("", None, "ru;q=nan, pt;q=-1, en;q=7", "en"),
        ("", None, ";;;,,q=,=", "en"),
        ("", None, ",".join(["de"] * 5_000 + ["ru"]), "en"),
        ("", "pt_BR", "ru", "pt"),
        ("", "de", "ru", "ru"),
        ("lang=ru", "pt", "en", "ru"),
        ("lang=xx", "pt", "en", "pt"),
        ("lang=", None, "pt", "pt"),
    ],
)
def test_language_is_chosen_from_query_contact_then_browser(
    query: str, locale: str | None, header: str, language: str
) -> None:
    engine = SimpleNamespace(settings=SimpleNamespace(language="en"))
    app = SimpleNamespace(state=SimpleNamespace(engine=engine))
    request = Request(
        {
            "type": "http",
            "method": "GET",
            "path": "/unsubscribe",
            "query_string": query.encode(),
            "app": app,
            "headers": [(b"accept-language", header.encode())],
        }
    )
    assert language_of(request, locale) == language


def test_names_on_pages_are_escaped() -> None:
    hostile = "<script>alert(1)</script>\"'{email}{0.__class__}{{7*7}}"
    answer = page("blocked", "en", theme=PublicTheme(hostile), email=hostile, here=None)
    content = bytes(answer.body).decode()
    assert "<script" not in content
    assert content.count("&lt;script&gt;") == 3  # in the title, in the header and in the sentence
    assert "{0.__class__}" in content
    assert "49" not in re.sub(r"(?s)<style>.*</style>", "", content).replace("&#3", "")


def test_page_policy_allows_only_its_own_style() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    answer = bytes(page("unavailable", "en", here=None).body).decode()
    assert answer.count("<style>") == 1
    assert not re.search(r"\sstyle=|<script|\son\w+=|https?://", answer)


def colours(scheme: str) -> dict[str, str]:
    light, dark = re.findall(r":root \{(.*?)\}", STYLE, flags=re.DOTALL)
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light if scheme == "light" else dark))


def luminance(colour: str) -> float:
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted([luminance(one), luminance(other)])
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("front", "back", "least"),
    [
        ("ink", "paper", 7),
        ("ink", "card", 7),
        ("quiet", "paper", 4.5),
        ("quiet", "card", 4.5),
        ("accent", "paper", 4.5),
        ("accent", "card", 4.5),
        ("accent-strong", "card", 4.5),
        ("on-accent", "accent", 4.5),
        ("on-accent", "accent-strong", 4.5),
        ("ink", "good-wash", 7),
        ("ink", "care-wash", 7),
        ("good", "card", 3),
        ("care", "card", 3),
        ("field", "card", 3),
    ],
)
def test_colors_have_enough_contrast(scheme: str, front: str, back: str, least: float) -> None:
    assert contrast(colours(scheme)[front], colours(scheme)[back]) >= least
