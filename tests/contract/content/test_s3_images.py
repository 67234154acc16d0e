"""Images in a bucket of a real S3-compatible server, and what happens when it is down or refuses the key."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import update

from mailwright.app.images import make_images
from mailwright.app.s3_images import s3_settings
from mailwright.app.verify import verify
from mailwright.checks.images import check_images
from mailwright.content.image_files import ImageFolder
from mailwright.content.images import KEPT_AFTER_DELETION, ImageStore
from mailwright.content.template_store import TemplateDraft
from mailwright.domain.clock import DAY, ManualClock, SystemClock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.storage.database import Database
from mailwright.storage.tables import images as image_rows
from tests.api import Api, an_api
from tests.builders import settings_for
from tests.pictures import a_png
from tests.standins.s3 import BUCKET, REGION, S3Server, an_s3_server

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with an_s3_server() as server:
        yield server


@pytest.fixture(autouse=True)
def empty_bucket(server: S3Server) -> None:
    for name in server.names():
        server.admin.delete_object(Bucket=BUCKET, Key=name)


def bucket_settings(server: S3Server, **changes: Any) -> dict[str, Any]:
    return {
        "images_s3_bucket": BUCKET,
        "images_s3_endpoint": server.url,
        "images_s3_region": REGION,
        "images_s3_access_key": server.access_key,
        "images_s3_secret_key": SecretStr(server.secret_key),
        **changes,
    }


@pytest.fixture
async def api(database: Database, server: S3Server, tmp_path: Path) -> AsyncIterator[Api]:
    clock = ManualClock(SystemClock().now())  # The server rejects signatures of another time.
    async with an_api(database, clock, images=tmp_path / "images", **bucket_settings(server)) as api:
        yield api


async def test_image_is_stored_in_the_bucket(api: Api, server: S3Server, tmp_path: Path) -> None:
    stored = (await api.client.post("/v1/images?name=logo.png", content=a_png())).json()
    file_name = stored["url"].rpartition("/")[2]
    assert server.names() == [file_name]
    head = server.admin.head_object(Bucket=BUCKET, Key=file_name)
    assert (head["ContentType"], head["CacheControl"]) == ("image/png", "public, max-age=31536000, immutable")
    assert not (tmp_path / "images").exists()
    loaded = await api.anonymous.get(stored["url"])
    assert (loaded.status_code, loaded.headers["content-type"], len(loaded.content)) == (
        200,
        "image/png",
        stored["sizeBytes"],
    )
    assert (await api.anonymous.get(f"/images/{'0' * 64}.png")).status_code == 404


async def test_recipients_load_from_the_public_url(database: Database, server: S3Server, tmp_path: Path) -> None:
    clock = ManualClock(SystemClock().now())
    cdn = bucket_settings(server, images_s3_public_url="https://cdn.example/pictures/")
    async with an_api(database, clock, images=tmp_path / "images", **cdn) as api:
        stored = (await api.client.post("/v1/images?name=logo.png", content=a_png())).json()
        assert stored["url"].startswith("https://cdn.example/pictures/")
        draft = TemplateDraft(subject="Hello", body='<img src="logo.png" alt="Us">')
        assert stored["url"] in (await api.engine.templates.write(1, "hello", draft)).html


async def test_images_in_the_folder_stay_available(api: Api, database: Database, tmp_path: Path) -> None:
    before = ImageStore(database, api.engine.clock, ImageFolder(tmp_path / "images"))
    image = await before.put(1, "old.png", a_png())
    assert (await api.anonymous.get(f"/images/{image.file_name}")).status_code == 200


async def test_purged_image_leaves_the_bucket(api: Api, server: S3Server) -> None:
    images = api.engine.images
    gone, kept = [await images.put(1, f"{width}.png", a_png(width)) for width in (10, 11)]
    assert set(server.names()) == {gone.file_name, kept.file_name}
    await images.delete(1, gone.name)
    await expire_deleted(api.engine.database)
    assert await images.purge() == 1
    assert server.names() == [kept.file_name]


@pytest.mark.promise("images-clean")
async def test_image_is_purged_later_if_the_bucket_is_down(api: Api, server: S3Server, tmp_path: Path) -> None:
    database, clock = api.engine.database, api.engine.clock
    image = await api.engine.images.put(1, "logo.png", a_png())
    await api.engine.images.delete(1, "logo.png")
    await expire_deleted(database)
    given = bucket_settings(server, images_s3_endpoint=NOWHERE)
    down = make_images(settings_for("sqlite://", images=tmp_path / "images", **given), database, clock)
    assert await down.purge() == 0
    await down.close()
    assert server.names() == [image.file_name]
    assert await api.engine.images.purge() == 1
    assert server.names() == []


async def expire_deleted(database: Database) -> None:
    """Move the deletion back instead of the clock forward, because the server checks the time of signatures."""
    async with database.write() as tx:
        earlier = image_rows.c.deleted_at - KEPT_AFTER_DELETION - DAY
        await tx.execute(update(image_rows).values(deleted_at=earlier))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"images_s3_endpoint": NOWHERE}, "127.0.0.1:9"),
        ({"images_s3_secret_key": SecretStr("wrong")}, "SignatureDoesNotMatch"),
        ({"images_s3_bucket": "another-bucket"}, "NoSuchBucket"),
    ],
    ids=["down", "key", "bucket"],
)
@pytest.mark.promise("images-clean")
async def test_unavailable_bucket_refuses_and_stores_nothing(
    database: Database, server: S3Server, tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    clock = ManualClock(SystemClock().now())
    given = bucket_settings(server, **changes)
    async with an_api(database, clock, images=tmp_path / "images", **given) as api:
        refused = await api.client.post("/v1/images?name=logo.png", content=a_png())
        assert (refused.status_code, refused.json()["code"]) == (503, "IMAGES_UNAVAILABLE")
        assert refused.headers["Retry-After"]
        assert reason in refused.json()["detail"]
        assert server.secret_key not in refused.text
        assert (await api.client.get("/v1/images")).json()["images"] == []
        assert (await api.anonymous.get(f"/images/{'0' * 64}.png")).status_code == 503
        await api.send()  # Email does not need the bucket.
        [finding] = [each async for each in check_images(api.engine.settings, clock)]
        assert (finding.verdict, reason in finding.summary) == ("problem", True)
    assert server.names() == []


async def test_check_reports_access_and_cleans_up(api: Api, server: S3Server) -> None:
    [finding] = [each async for each in check_images(api.engine.settings, api.engine.clock)]
    assert finding.verdict == "ok"
    public = settings_for("sqlite://", **bucket_settings(server, images_s3_public_url=f"{server.url}/elsewhere"))
    [finding] = [each async for each in check_images(public, api.engine.clock)]
    assert "Recipients cannot load" in finding.summary
    assert server.names() == []


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"images_s3_bucket": "No Bucket"}, "MAILWRIGHT_IMAGES_S3_BUCKET"),
        ({"images_s3_bucket": None}, "MAILWRIGHT_IMAGES_S3_BUCKET"),
        ({"images_s3_endpoint": "s3.example.com"}, "MAILWRIGHT_IMAGES_S3_ENDPOINT"),
        ({"images_s3_endpoint": "https://s3.example.com/path"}, "MAILWRIGHT_IMAGES_S3_ENDPOINT"),
        ({"images_s3_public_url": "javascript:x"}, "MAILWRIGHT_IMAGES_S3_PUBLIC_URL"),
        ({"images_s3_secret_key": None}, "MAILWRIGHT_IMAGES_S3_ACCESS_KEY"),
    ],
)
def test_invalid_bucket_settings_are_named(server: S3Server, changes: dict[str, Any], setting: str) -> None:
    settings = settings_for("sqlite:///a.db", **bucket_settings(server, **changes))
    with pytest.raises(ConfigurationInvalid, match=setting):
        verify(settings)


def test_amazon_is_the_default_storage() -> None:
    found = s3_settings(settings_for("sqlite://", images_s3_bucket=BUCKET, images_s3_region=REGION))
    assert found is not None
    assert found.endpoint == "https://s3.eu-west-1.amazonaws.com"
