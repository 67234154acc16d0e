"""Check that images can be stored, and that recipients can load them."""

from collections.abc import AsyncIterator

from mailwright.app.s3_images import S3Images, s3_settings
from mailwright.content.image_files import ImageFolder, ImagesUnavailable
from mailwright.domain.clock import Clock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.findings import Finding, ok, problem
from mailwright.ops.settings import Settings


async def check_images(settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    """Check the bucket, if images are stored in one. A small file is written, read and deleted."""
    try:
        bucket = s3_settings(settings)
    except ConfigurationInvalid:
        return  # Reported with the other settings.
    if bucket is None:
        return
    files = S3Images(bucket, clock, ImageFolder(settings.images))
    try:
        await files.check()
    except ImagesUnavailable as error:
        yield problem("images", str(error), "correct the MAILWRIGHT_IMAGES_S3_ settings or the rights of the bucket")
    else:
        yield ok("images", f"the bucket {bucket.bucket} can be written and read")
    finally:
        await files.close()
