"""Templates and images on the command line: create, show, compare, preview and check."""

from pathlib import Path

import pytest

from tests.acceptance.commands import Commands

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + b"\x00" * 20
MARKDOWN = """# Hello {{ name }}

![Our logo](logo.png)

{{ news }} [Unsubscribe]({{ unsubscribe_url }}) {{ postal_address }}
"""


@pytest.fixture
async def here(tmp_path: Path) -> Commands:
    commands = Commands(
        tmp_path, {"MAILWRIGHT_BASE_URL": "https://mail.example", "MAILWRIGHT_POSTAL_ADDRESS": "Street 1"}
    )
    await commands.ok("db", "upgrade")
    return commands


async def test_template_with_image_is_created_in_two_locales(here: Commands) -> None:
    (here.folder / "logo.png").write_bytes(PNG)
    (here.folder / "news.md").write_text(MARKDOWN)
    (here.folder / "carta.md").write_text(MARKDOWN.replace("Hello", "Olá"))
    url = (await here.ok("image", "upload", "logo.png")).out.strip()
    assert (here.folder / "var" / "images" / url.rpartition("/")[2]).read_bytes() == PNG
    assert [each["url"] for each in (await here.ok("image", "list", "--json")).json] == [url]
    put = ("template", "create", "news", "--subject", "News", "--var", "news=Rain", "--markdown")
    await here.ok(*put, "news.md")
    await here.ok(*put, "carta.md", "--locale", "pt")

    visible = (await here.ok("template", "show", "news", "--locale", "pt-BR", "--json")).json
    assert (visible["version"], visible["locale"], visible["format"], url in visible["html"]) == (
        2,
        "pt",
        "markdown",
        True,
    )
    assert len((await here.ok("template", "versions", "news", "--json")).json) == 2
    assert "+# Olá {{ name }}" in (await here.ok("template", "diff", "news", "1", "2")).out
    preview = await here.ok("template", "preview", "news", "--var", "name=Ana", "--html", "seen.html")
    assert ("Hello Ana" in preview.out, "Rain" in preview.out) == (True, True)
    assert url in (here.folder / "seen.html").read_text()
    assert (await here.ok("template", "check", "news", "--json")).json == {"mayGo": True, "findings": []}


async def test_failed_presend_check_exits_with_1_and_all_reasons(here: Commands) -> None:
    (here.folder / "bad.html").write_text('<p>Hi</p><a href="/x">x</a><img src="https://example.com/a.png">')
    await here.ok("template", "create", "bad", "--subject", "Hi", "--html", "bad.html")
    ended = await here.run("template", "check", "bad")
    assert ended.code == 1
    for code in ("NO_UNSUBSCRIBE_LINK", "RELATIVE_LINK", "IMAGE_WITHOUT_ALT"):
        assert code in ended.out
    assert (await here.run("template", "create", "bad", "--subject", "Hi")).code == 2
    (here.folder / "script.svg").write_text("<svg/>")
    assert (await here.run("image", "upload", "script.svg", "--name", "a.png")).code == 2
