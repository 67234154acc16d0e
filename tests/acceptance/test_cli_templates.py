"""Templates and images on the command line: create, show, compare, preview and check."""

from pathlib import Path

import pytest

from tests.acceptance.commands import Commands
from tests.pictures import a_png

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
    (here.folder / "logo.png").write_bytes(a_png())
    (here.folder / "news.md").write_text(MARKDOWN)
    (here.folder / "carta.md").write_text(MARKDOWN.replace("Hello", "Olá"))
    url = (await here.ok("image", "upload", "logo.png")).out.strip()
    assert (here.folder / "var" / "images" / url.rpartition("/")[2]).is_file()
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


async def test_image_is_deleted_and_restored(here: Commands) -> None:
    (here.folder / "logo.png").write_bytes(a_png())
    url = (await here.ok("image", "upload", "logo.png", "--alt", "Acme")).out.strip()
    await here.ok("brand", "edit", "--logo-url", url)
    refused = await here.run("image", "delete", "logo.png")
    assert (refused.code, "used by the brand kit" in refused.err) == (1, True)
    await here.ok("brand", "edit", "--logo-url", "none")
    assert "mailwright image restore logo.png" in (await here.ok("image", "delete", "logo.png")).out
    assert (await here.ok("image", "list", "--json")).json == []
    assert (await here.run("image", "delete", "logo.png")).code == 1
    await here.ok("image", "restore", "logo.png")
    assert [each["alt"] for each in (await here.ok("image", "list", "--json")).json] == ["Acme"]
    actions = [each["action"] for each in (await here.ok("audit-log", "--json")).json]
    assert actions[:2] == ["image.restore", "image.delete"]


async def test_brand_kit_is_edited_and_shown(here: Commands) -> None:
    links = ("--social", "github=https://github.com/acme", "--social", "x=https://x.com/acme")
    saved = await here.ok("brand", "edit", "--name", "Acme", "--primary", "#ffe600", "--font", "georgia", *links)
    assert "Saved the brand kit of default." in saved.out
    assert "Warning:" in saved.err  # Yellow is hard to read on white.
    await here.ok("brand", "edit", "--font", "none")
    brand = (await here.ok("brand", "show", "--json")).json["brand"]
    assert (brand["name"], brand["primary"], brand["font"]) == ("Acme", "#ffe600", "system")
    assert [each["network"] for each in brand["social"]] == ["github", "x"]
    assert "github=https://github.com/acme" in (await here.ok("brand", "show")).out
    for wrong in (("--primary", "red"), ("--social", "github"), ("--logo-url", "javascript:x"), ("--tenant", "nobody")):
        assert (await here.run("brand", "edit", "--name", "Other", *wrong)).code in {1, 2}, wrong
    assert (await here.ok("brand", "show", "--json")).json["brand"]["name"] == "Acme"
    await here.ok("brand", "edit", "--social", "none", "--name", "none")
    assert (await here.ok("brand", "show", "--json")).json["brand"]["social"] == []
