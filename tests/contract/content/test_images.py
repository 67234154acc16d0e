"""The image library on both engines: upload, search, alt texts, deletion with undo, and isolation of tenants."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mailwright.access.roles import Role
from mailwright.app.images import ImageInUse, delete_image, find_sent_uses, find_uses, run_image_purge
from mailwright.content.brand import Brand
from mailwright.content.image_files import ImageFolder, ImagesUnavailable
from mailwright.content.image_rules import MAX_UPLOAD_BYTES
from mailwright.content.images import KEPT_AFTER_DELETION, ImageStore
from mailwright.content.template_drafts import DraftContent, DraftKey
from mailwright.content.template_store import TemplateDraft
from mailwright.domain.clock import DAY, ManualClock
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.outbox.audit_log import list_entries
from mailwright.storage.database import Database
from mailwright.web.body_limits import FORM_OVERHEAD
from tests.api import Api, an_api
from tests.builders import a_subscriber
from tests.pages import PASSWORD, a_visit
from tests.pictures import a_phone_photo, a_photo, a_png, decoded

PICTURE = {"Content-Type": "image/png"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "images"


@pytest.fixture
def images(database: Database, clock: ManualClock, folder: Path) -> ImageStore:
    return ImageStore(database, clock, ImageFolder(folder))


@pytest.fixture
async def api(database: Database, clock: ManualClock, folder: Path) -> AsyncIterator[Api]:
    async with an_api(database, clock, images=folder, postal_address="Street 1") as api:
        yield api


async def test_upload_keeps_size_and_alt_text(images: ImageStore) -> None:
    image = await images.put(1, "harbour.jpg", a_phone_photo(), alt="  The   harbour at dawn ")
    assert (image.width, image.height, image.alt) == (480, 640, "The harbour at dawn")
    assert [found for _, found in await images.list_page(1, limit=5)] == [image]
    assert decoded(await images.read(image.file_name) or b"").size == (480, 640)


@pytest.mark.parametrize("name", ["logo.svg", "../logo.png", "a/logo.png", ".png", "logo.png\n"])
async def test_invalid_name_is_refused(images: ImageStore, folder: Path, name: str) -> None:
    with pytest.raises(InvalidInput):
        await images.put(1, name, a_png())
    assert not folder.exists()


async def test_disguised_file_is_not_stored(images: ImageStore, folder: Path) -> None:
    with pytest.raises(InvalidInput):
        await images.put(1, "logo.png", b"<!doctype html><script>alert(1)</script>")
    assert not folder.exists()
    assert await images.list_page(1, limit=5) == []


async def test_added_images_get_free_names(images: ImageStore) -> None:
    names = [(await images.add(1, "image.png", a_png(width))).name for width in (10, 11, 12)]
    assert names == ["image.png", "image-2.png", "image-3.png"]
    assert (await images.add(1, "Ação no rio.webp", a_png(13))).name == "Acao-no-rio.png"
    assert (await images.add(1, "???", a_png(14))).name == "image-4.png"
    assert (await images.add(1, "again.png", a_png(10))).name == "image.png"


async def test_search_finds_names_and_alt_texts(images: ImageStore) -> None:
    await images.put(1, "logo.png", a_png(1), alt="Acme")
    await images.put(1, "harbour.jpg", a_png(2), alt="Boats at 100% speed")
    await images.put(2, "logo.png", a_png(3), alt="Other")
    for search, names in {
        "LOGO": ["logo.png"],
        "boats harbour": ["harbour.jpg"],
        "100%": ["harbour.jpg"],
        "%": ["harbour.jpg"],
        "_": [],
        "": ["harbour.jpg", "logo.png"],
    }.items():
        assert [image.name for _, image in await images.list_page(1, limit=9, search=search)] == names, search


async def test_alt_text_is_changed_and_recorded(images: ImageStore, database: Database) -> None:
    await images.put(1, "logo.png", a_png())
    assert (await images.change_alt(1, "logo.png", "Acme", actor="ada")).alt == "Acme"
    assert [entry.action for entry in await list_entries(database, tenant_id=1, limit=5)] == ["image.change"]
    with pytest.raises(NotFound):
        await images.change_alt(2, "logo.png", "Ours now")
    with pytest.raises(InvalidInput):
        await images.change_alt(1, "logo.png", "x" * 501)


async def test_deleted_image_is_restored_with_its_file(images: ImageStore, clock: ManualClock) -> None:
    image = await images.put(1, "logo.png", a_png())
    await images.delete(1, "logo.png")
    clock.advance(KEPT_AFTER_DELETION - DAY)
    assert await images.purge() == 0
    assert await images.list_page(1, limit=5) == []
    assert await images.named(1, ["logo.png"]) == {}
    assert await images.read(image.file_name) is not None
    with pytest.raises(NotFound):
        await images.restore(2, "logo.png")
    assert await images.restore(1, "logo.png") == image
    assert await images.named(1, ["logo.png"]) == {"logo.png": image}


async def test_file_is_purged_unless_another_image_has_it(images: ImageStore, clock: ManualClock) -> None:
    shared = await images.put(1, "logo.png", a_png(10))
    await images.put(2, "same.png", a_png(10))
    alone = await images.put(1, "alone.png", a_png(11))
    for name in ("logo.png", "alone.png"):
        await images.delete(1, name)
    clock.advance(KEPT_AFTER_DELETION + DAY)
    assert await images.purge() == 2
    assert await images.read(shared.file_name) is not None
    assert await images.read(alone.file_name) is None
    with pytest.raises(NotFound):
        await images.restore(1, "alone.png")


@pytest.mark.promise("images-clean")
async def test_unwritable_folder_stores_nothing(database: Database, clock: ManualClock, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    images = ImageStore(database, clock, ImageFolder(tmp_path / "file"))
    with pytest.raises(ImagesUnavailable, match="cannot be stored"):
        await images.put(1, "logo.png", a_png())
    assert await images.list_page(1, limit=5) == []


# Uses.


async def test_image_in_use_is_not_deleted(api: Api, database: Database) -> None:
    images = api.engine.images
    for number, name in enumerate(["brand.png", "template.png", "draft.png", "old.png", "free.png"]):
        await images.put(1, name, a_png(10 + number))
    urls = {image.name: images.url(image, "http://mail.example") for _, image in await images.list_page(1, limit=9)}
    await api.engine.brands.save(1, Brand(logo_url=urls["brand.png"]), actor="ada")
    old = '<img src="old.png" alt="x">'
    for body in (old, '<img src="template.png" alt="x">'):
        await api.engine.templates.write(1, "hello", TemplateDraft(subject="Hello", body=body))
    content = {"subject": "Hello", "body": '<img src="draft.png" alt="x">'}
    await api.client.post("/v1/campaigns", json={"name": "Spring", "content": content})
    expected = {
        "brand.png": "the brand kit",
        "template.png": "the template hello",
        "draft.png": "the campaign Spring",
    }
    for name, where in expected.items():
        refused = await api.client.delete(f"/v1/images/{name}")
        assert (refused.status_code, refused.json()["code"]) == (409, "IMAGE_IN_USE"), name
        assert where in refused.json()["detail"]
    for name in ("old.png", "free.png"):
        assert (await api.client.delete(f"/v1/images/{name}")).status_code == 204
    with pytest.raises(ImageInUse):
        await delete_image(database, images, 1, "brand.png", actor="ada")


async def test_running_campaign_uses_its_image(api: Api, database: Database) -> None:
    images = api.engine.images
    image = await images.put(1, "hero.png", a_png())
    footer = '<p><a href="{{ unsubscribe_url }}">Leave</a> {{ postal_address }}</p>'
    body = f'<img src="hero.png" alt="x"><p>Hello</p>{footer}'
    await api.engine.templates.write(1, "news", TemplateDraft(subject="Hello", body=body))
    await api.client.post("/v1/lists", json={"listKey": "news"})
    await a_subscriber(database, "ada@example.com", "news")
    made = {"name": "News", "content": {"templateId": "news"}, "lists": ["news"]}
    campaign_id = (await api.client.post("/v1/campaigns", json=made)).json()["campaignId"]
    await api.engine.templates.write(1, "news", TemplateDraft(subject="Hello", body=f"<p>Without</p>{footer}"))
    assert [str(use) for use in await find_uses(database, 1, image)] == ["the campaign News"]
    assert await find_sent_uses(database, 1, image) == []
    discarded = (await api.client.post("/v1/campaigns", json={**made, "name": "Discarded"})).json()["campaignId"]
    started = await api.client.post(f"/v1/campaigns/{campaign_id}/start")
    assert started.status_code == 200, started.text
    for each in (campaign_id, discarded):
        await api.client.post(f"/v1/campaigns/{each}/cancel", json={})
    assert await find_uses(database, 1, image) == []
    assert [str(use) for use in await find_sent_uses(database, 1, image)] == ["the campaign News"]
    assert await find_sent_uses(database, 2, image) == []
    await api.engine.users.create("ada", PASSWORD, Role.EDITOR, actor="test")
    async with a_visit(api.app) as page:
        await (await page.open("/images")).press("Delete")
        assert "After 30 days their emails no longer show it: Campaign News" in page.words()
        await page.press("Delete image")
        assert page.flash.startswith("Deleted hero.png.")
        await page.press("Undo")
        assert page.flash == "Restored hero.png."


async def test_draft_uses_its_image_until_it_ends(api: Api, database: Database) -> None:
    image = await api.engine.images.put(1, "hero.png", a_png())
    await api.engine.templates.write(1, "news", TemplateDraft(subject="Hello", body="<p>Without</p>"))
    key, drafts = DraftKey(1, "news", "pt"), api.engine.template_drafts
    revision = 0
    for source in (api.engine.images.url(image, "http://mail.example"), "hero.png"):
        document = {"blocks": [{"id": "hero", "type": "image", "src": source}]}
        content = DraftContent(revision=revision, base_version=1, subject="Hello", document=document)
        revision = (await drafts.save(key, content, actor="ada")).revision
        refused = await api.client.delete("/v1/images/hero.png")
        assert refused.json()["code"] == "IMAGE_IN_USE"
        assert "the draft of news" in refused.json()["detail"]
    assert await find_uses(database, 2, image) == []
    ended = DraftContent(revision=revision, base_version=1, subject="Hello", document=None)
    await drafts.save(key, ended, actor="ada")
    assert (await api.client.delete("/v1/images/hero.png")).status_code == 204


async def test_periodic_purge_deletes_expired_files(
    images: ImageStore, database: Database, clock: ManualClock, folder: Path
) -> None:
    for number in range(3):
        await images.put(1, f"{number}.png", a_png(10 + number))
        await images.delete(1, f"{number}.png")
    kept = await images.put(1, "kept.png", a_png(20))
    clock.advance(KEPT_AFTER_DELETION + DAY)
    purging = asyncio.create_task(run_image_purge(images, database, clock))
    async with asyncio.timeout(60):
        while {file.name for file in folder.iterdir()} != {kept.file_name}:
            assert not purging.done()
            await asyncio.sleep(0.01)
    purging.cancel()
    await asyncio.wait([purging])
    assert purging.cancelled()


# Over HTTP.


async def test_images_load_without_a_key_and_are_cached(api: Api, tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(a_png())
    response = await api.client.post("/v1/images?name=logo.png&alt=Acme", content=a_png(), headers=PICTURE)
    assert response.status_code == 201, response.text
    assert response.json() | {"url": "", "sizeBytes": 0, "createdAt": ""} == {
        "name": "logo.png",
        "url": "",
        "width": 40,
        "height": 20,
        "alt": "Acme",
        "sizeBytes": 0,
        "createdAt": "",
    }
    url = response.json()["url"]
    for method in ("GET", "HEAD"):
        loaded = await api.anonymous.request(method, url)
        assert (loaded.status_code, loaded.headers["content-type"]) == (200, "image/png")
        assert loaded.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert loaded.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in loaded.headers["content-security-policy"]
    again = await api.anonymous.get(url, headers={"If-None-Match": loaded.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for path in ("/images/secret.png", "/images/..%2fsecret.png", f"/images/{'0' * 64}.png", "/images/%00"):
        assert (await api.anonymous.get(path)).status_code == 404


async def test_upload_accepts_a_form(api: Api) -> None:
    files = {"file": ("holiday.webp", a_photo(kind="WEBP"), "text/html")}
    response = await api.client.post("/v1/images?name=holiday.jpg", files=files)
    assert response.status_code == 201, response.text
    loaded = await api.anonymous.get(response.json()["url"])
    assert loaded.headers["content-type"] == "image/jpeg"
    assert (await api.client.post("/v1/images?name=a.png", files={"other": b"x"})).status_code == 422


DAMAGED = "The image is damaged or incomplete"


@pytest.mark.parametrize(
    ("content", "status", "reason"),
    [
        (b"<svg onload=alert(1)>", 422, "SVG images can contain scripts"),
        (a_png()[:50], 422, DAMAGED),
        (a_png() + bytes(MAX_UPLOAD_BYTES), 413, "larger than 20 MB"),
        (a_png() + bytes(MAX_UPLOAD_BYTES + FORM_OVERHEAD), 413, "larger than 20 MB"),
    ],
    ids=["svg", "truncated", "large", "very large"],
)
@pytest.mark.parametrize("name", ["a.png", "a.svg"])
async def test_unsuitable_upload_is_refused(api: Api, content: bytes, status: int, reason: str, name: str) -> None:
    forms: list[dict[str, Any]] = [{"content": content, "headers": PICTURE}, {"files": {"file": (name, content)}}]
    for body in forms:
        refused = await api.client.post(f"/v1/images?name={name}", **body)
        assert refused.status_code == status
        # Of a real image, the name is the first problem.
        assert (reason if name == "a.png" or reason != DAMAGED else "An image name must end in") in refused.text
    assert (await api.client.get("/v1/images")).json()["images"] == []


@pytest.mark.promise("tenant-isolation")
async def test_image_is_changed_deleted_and_restored(api: Api) -> None:
    await api.client.post("/v1/images?name=logo.png", content=a_png(), headers=PICTURE)
    path = "/v1/images/logo.png"
    assert (await api.client.patch(path, json={"alt": "Acme"})).json()["alt"] == "Acme"
    for method, address in (("PATCH", path), ("DELETE", path), ("POST", f"{path}/restore")):
        foreign = await api.stranger.request(method, address, json={"alt": "x"})
        assert foreign.status_code == 404, method
    assert (await api.client.delete(path)).status_code == 204
    assert (await api.client.get("/v1/images")).json()["images"] == []
    assert (await api.client.post(f"{path}/restore")).json()["alt"] == "Acme"
    assert len((await api.client.get("/v1/images", params={"q": "acme"})).json()["images"]) == 1
    assert (await api.client.get("/v1/images", params={"q": "else"})).json()["images"] == []
