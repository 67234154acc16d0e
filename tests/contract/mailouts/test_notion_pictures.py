"""Images of Notion pages: copied permanently, and never fetched from private addresses."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from mailwright.app.link_checks import public_only
from mailwright.content.blocks.compile import compile_document
from mailwright.content.blocks.convert import from_html
from mailwright.content.blocks.document import parse_document
from mailwright.content.image_files import ImageFolder
from mailwright.content.image_rules import MAX_UPLOAD_BYTES
from mailwright.content.images import ImageStore
from mailwright.domain.clock import ManualClock
from mailwright.providers.http import HttpClient
from mailwright.sources.mailouts.notion import Notion, read_content
from mailwright.sources.mailouts.page_body import PageReader
from mailwright.sources.mailouts.rendering import ImageCopier, render
from mailwright.storage.database import Database
from tests.notion_pages import PIXEL, as_blocks, mention, picture, said
from tests.standins.http import Answer
from tests.standins.notion import TOKEN, NotionStandIn

PUBLIC = "https://mail.example"


@pytest.fixture
async def api() -> AsyncIterator[NotionStandIn]:
    async with NotionStandIn() as api:
        yield api


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    http = HttpClient(connections=4)
    yield http
    await http.close()


@pytest.fixture
def images(database: Database, clock: ManualClock, tmp_path: Path) -> ImageStore:
    return ImageStore(database, clock, ImageFolder(tmp_path / "images"))


async def test_page_with_images_renders_the_same_each_time(
    api: NotionStandIn, http: HttpClient, images: ImageStore, clock: ManualClock
) -> None:
    async def nap(seconds: float) -> None:
        clock.advance(round(seconds * 1000))

    notion = Notion(http, TOKEN, clock, url=api.url, sleep=nap)
    pictures = ImageCopier(http, images, PUBLIC)

    def a_page() -> str:
        """Every read of a page returns new addresses of its files."""
        emoji = mention(":a:", "custom_emoji", {"name": "a", "url": api.add_file()})
        icon = {"type": "file", "file": {"url": api.add_file(PIXEL + b"icon")}}
        return api.add_page(
            blocks=[picture(api.add_file(PIXEL + b"one"), "One"), said("callout", [emoji], icon=icon)],
        )

    results = []
    for page in (a_page(), a_page()):
        blocks = await read_content(notion, page)
        copies = await pictures.copy(1, blocks)
        assert len(copies) == 3
        results.append(render(blocks, copies))
    assert results[0] == results[1]
    assert api.url not in results[0].html
    assert results[0].issues == ()
    kept = [image for _, image in await images.list_page(1, limit=9)]
    assert len(kept) == 3
    for image in kept:
        assert images.url(image, PUBLIC) in results[0].html
        assert await images.read(image.file_name) is not None
    assert await images.list_page(2, limit=9) == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(403, b"<Error>expired</Error>"), "the server returned 403"),
        (Answer(200, b"<svg><script>alert(1)</script></svg>"), "not a PNG, JPEG, GIF or WebP image"),
        (Answer(200, PIXEL + b"\0" * MAX_UPLOAD_BYTES), "larger than 20 MB"),
        (
            Answer(200, PIXEL[:40]),
            "The image is damaged or incomplete. Export it again and upload the new file.",
        ),
        (Answer(302, b"", {"Location": "file:///etc/passwd"}), "not a web address"),
        (Answer(302, b"", {"Location": "?again"}), "too many redirects"),
    ],
)
async def test_unavailable_image_is_reported_and_others_copied(
    api: NotionStandIn, http: HttpClient, images: ImageStore, answer: Answer, reason: str
) -> None:
    good, bad = api.add_file(), api.add_file()
    api.answer(answer, path=bad.removeprefix(api.url).partition("?")[0])
    blocks = as_blocks([picture(bad, "Lost"), picture(good, "Kept")])
    with structlog.testing.capture_logs() as lines:
        copies = await ImageCopier(http, images, PUBLIC).copy(1, blocks)
    assert list(copies) == [good]
    assert [line["reason"] for line in lines] == [reason]
    assert "X-Amz" not in str(lines)
    found = render(blocks, copies)
    assert "[Image: Lost]" in found.text
    assert [each.code for each in found.issues] == ["content_image_not_copied"]


async def test_private_addresses_are_not_fetched(api: NotionStandIn, images: ImageStore) -> None:
    http = HttpClient(connections=2, resolve=public_only())
    inside = api.add_file()
    blocks = as_blocks(
        [
            picture(inside),
            picture(inside.replace("127.0.0.1", "127.1")),
            picture(inside.replace("127.0.0.1", "0x7f000001")),
            picture(inside.replace("http://", "http://user:word@")),
            picture(inside.replace("http://", "ftp://")),
        ]
    )
    copies = await ImageCopier(http, images, PUBLIC).copy(1, blocks)
    await http.close()
    assert copies == {}
    assert api.connections == 0


async def test_permanent_external_image_is_not_copied(api: NotionStandIn, http: HttpClient, images: ImageStore) -> None:
    blocks = as_blocks([picture(f"{api.url}/harbour.png", expires=False)])
    assert await ImageCopier(http, images, PUBLIC).copy(1, blocks) == {}
    assert api.requests == []
    assert f'src="{api.url}/harbour.png"' in render(blocks, {}).html


async def test_notion_page_becomes_blocks_of_the_composer(
    api: NotionStandIn, http: HttpClient, images: ImageStore, clock: ManualClock
) -> None:
    async def nap(seconds: float) -> None:
        clock.advance(round(seconds * 1000))

    page = api.add_page(
        blocks=[
            said("heading_1", "Plan"),
            said("paragraph", "Hello {{"),
            said("bulleted_list_item", "one"),
        ],
    )
    reader = PageReader(Notion(http, TOKEN, clock, url=api.url, sleep=nap), ImageCopier(http, images, PUBLIC), 1)
    blocks = from_html(await reader.read_html(page))
    assert [block["type"] for block in blocks] == ["heading", "text"]
    compiled = compile_document(parse_document({"version": 1, "blocks": blocks}))
    assert "one" in compiled.text
