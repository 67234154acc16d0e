"""Models of images for templates."""

from typing import Annotated

from pydantic import Field

from mailwright.content.images import MAX_ALT, Image, ImageStore
from mailwright.schemas.base import ResponseModel, Time
from mailwright.schemas.paging import Page
from mailwright.sources.api.fields import RequestModel

Alt = Annotated[
    str, Field(max_length=MAX_ALT, description="Text for recipients who do not see the image. Empty: decoration.")
]


class ImageQuery(RequestModel):
    name: Annotated[
        str, Field(max_length=100, description="Name in templates, for example logo.png. It replaces an older image.")
    ]
    alt: Alt = ""


class ImageListQuery(Page):
    q: Annotated[str, Field(max_length=200, description="Words in the name or the alt text.")] = ""


class ImageChangeRequest(RequestModel):
    alt: Alt


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


def image_response(image: Image, store: ImageStore, public_url: str) -> ImageResponse:
    return ImageResponse(
        name=image.name,
        url=store.url(image, public_url),
        width=image.width,
        height=image.height,
        alt=image.alt,
        size_bytes=image.size_bytes,
        created_at=image.created_at,
    )
