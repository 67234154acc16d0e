"""Models of images for templates."""

from typing import Annotated

from pydantic import Field

from mailwright.content.images import Image
from mailwright.schemas.base import ResponseModel, Time
from mailwright.sources.api.fields import RequestModel


class ImageNameQuery(RequestModel):
    name: Annotated[str, Field(max_length=100, description="Name in templates, for example logo.png.")]


class ImageResponse(ResponseModel):
    """Templates refer to an image by `name`; recipients load it from `url`."""

    name: str
    url: str
    size_bytes: int
    created_at: Time


class ImageListResponse(ResponseModel):
    images: list[ImageResponse]
    next_cursor: str | None


def image_response(image: Image, public_url: str) -> ImageResponse:
    return ImageResponse(
        name=image.name, url=image.url(public_url), size_bytes=image.size_bytes, created_at=image.created_at
    )
