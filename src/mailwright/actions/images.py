"""Images for emails."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from pydantic import Field

from mailwright.actions.context import Context
from mailwright.actions.declaration import MANAGE, FileBody, Noun, Option, Table, Upload, time_of
from mailwright.app.images import delete_image, make_images
from mailwright.content.image_rules import MAX_UPLOAD_BYTES, MEDIA_TYPES
from mailwright.content.images import MAX_ALT, Image, ImageStore
from mailwright.schemas.base import ResponseModel, Time, combine
from mailwright.schemas.paging import Page
from mailwright.sources.api.fields import RequestModel

noun = Noun("image", "Images for emails.", "/v1/images", parameters={"image_name": ("NAME", "The name of the image.")})

_Alt = Annotated[
    str, Field(max_length=MAX_ALT, description="Text for recipients who do not see the image. Empty: decoration.")
]


class ImageQuery(RequestModel):
    name: Annotated[
        str | None,
        Field(
            max_length=100,
            description="Name in templates, for example logo.png; by default that of the file. It replaces an older "
            "image.",
        ),
    ] = None
    alt: _Alt = ""


class ImageListQuery(Page):
    q: Annotated[str, Option("--search"), Field(max_length=200, description="Words in the name or the alt text.")] = ""


class ImageChangeRequest(RequestModel):
    alt: _Alt


class ImageResponse(ResponseModel):
    """Templates refer to an image by `name`; recipients load it from `url`."""

    name: str
    url: str
    width: int
    height: int
    alt: str
    size_bytes: int
    created_at: Time


class ImageListResponse(ResponseModel):
    images: list[ImageResponse]
    next_cursor: str | None


@noun.post(
    scope=MANAGE,
    audit="image.upload",
    command="upload",
    help="Upload an image and print its address. Templates saved from now on can use its name.\n\nThe image is resized "
    "and compressed for email, and its metadata is removed.",
    body=FileBody(tuple(MEDIA_TYPES.values()), "PNG, JPEG, GIF or WebP.", MAX_UPLOAD_BYTES),
    shown="{url}",
)
async def upload(at: Context, file: Upload, wanted: ImageQuery) -> ImageResponse:
    """Upload a PNG, JPEG, GIF or WebP image. It is resized and compressed for email, and its metadata is removed."""
    async with _store(at) as store:
        name = file.name if wanted.name is None else wanted.name
        made = await store.put(at.tenant_id, name, await file.read(), alt=wanted.alt, actor=at.actor)
        return _response(at, store, made)


@noun.get(
    command="list",
    command_defaults={"limit": 100},
    shown=Table(
        "images",
        {
            "Name!": "name",
            "Pixels#": lambda each: f"{each.width} × {each.height}",
            "Bytes#": "size_bytes",
            "Alt text": "alt",
            "Uploaded ({zone})!": time_of("created_at"),
        },
        nothing="The tenant {tenant} has no images. Upload one with `mailwright image upload FILE`.",
    ),
)
async def list_images(at: Context, page: ImageListQuery) -> ImageListResponse:
    """List the images, latest first."""
    async with _store(at) as store:
        found = await store.list_page(at.tenant_id, limit=page.limit, before=page.before("image"), search=page.q)
        images = [_response(at, store, image) for _, image in found]
    return ImageListResponse(images=images, next_cursor=page.next_cursor("image", [key for key, _ in found]))


@noun.patch("/{imageName}", scope=MANAGE, audit="image.change", command="edit", shown="Changed {name}.")
async def change(at: Context, image_name: str, wanted: ImageChangeRequest) -> ImageResponse:
    """Change the alt text. Emails that exist keep theirs."""
    async with _store(at) as store:
        return _response(at, store, await store.change_alt(at.tenant_id, image_name, wanted.alt, actor=at.actor))


@noun.delete(
    "/{imageName}",
    scope=MANAGE,
    audit="image.delete",
    command="delete",
    shown="Deleted {image_name}. Restore it with `mailwright image restore {image_name}`.",
)
async def delete(at: Context, image_name: str) -> None:
    """Delete an image that nothing uses. It can be restored for 30 days, and sent emails show it until then."""
    async with _store(at) as store:
        await delete_image(at.database, store, at.tenant_id, image_name, actor=at.actor)


@noun.post(
    "/{imageName}/restore", scope=MANAGE, audit="image.restore", command="restore", shown="Restored {image_name}."
)
async def restore(at: Context, image_name: str) -> ImageResponse:
    """Restore an image that was deleted less than 30 days ago."""
    async with _store(at) as store:
        return _response(at, store, await store.restore(at.tenant_id, image_name, actor=at.actor))


@asynccontextmanager
async def _store(at: Context) -> AsyncIterator[ImageStore]:
    if at.engine is not None:
        yield at.engine.images
        return
    store = make_images(at.settings, at.database, at.clock)
    try:
        yield store
    finally:
        await store.close()


def _response(at: Context, store: ImageStore, image: Image) -> ImageResponse:
    return combine(ImageResponse, image, url=store.url(image, at.settings.public_url))
