"""`mailwright image`: images for emails."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer

from mailwright.app.images import delete_image, make_images
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Limit, Tenant, group
from mailwright.cli.output import clock_time, out, print_json, print_rows
from mailwright.content.images import Image, ImageStore
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.images import ImageResponse, image_response

app = group("Images for emails.")

Name = Annotated[str, typer.Argument(help="The name of the image.", show_default=False)]


@app.command()
def upload(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="PNG, JPEG, GIF or WebP.")],
    name: Annotated[
        str | None, typer.Option(help="The name that templates use.", show_default="the file's name")
    ] = None,
    alt: Annotated[str, typer.Option(help="Text for recipients who do not see the image.")] = "",
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Upload an image and print its address. Templates saved from now on can use its name.

    The image is resized and compressed for email, and its metadata is removed.
    """

    async def work(at: Installation) -> str:
        owner = await find_tenant(at, tenant)
        async with _store(at) as store:
            image = await store.put(owner.id, name or file.name, file.read_bytes(), alt=alt, actor=CONSOLE)
            return store.url(image, at.settings.public_url)

    out.print(run(work, creates=True), markup=False, soft_wrap=True)


@app.command("list")
def list_command(tenant: Tenant = tenants.DEFAULT, limit: Limit = 100, as_json: Json = False) -> None:
    """List a tenant's images, the newest first."""

    async def work(at: Installation) -> list[tuple[Image, ImageResponse]]:
        owner = await find_tenant(at, tenant)
        async with _store(at) as store:
            found = await store.list_page(owner.id, limit=limit)
            return [(image, image_response(image, store, at.settings.public_url)) for _, image in found]

    found = run(work)
    if as_json:
        print_json([response.to_dict() for _, response in found])
        return
    rows = (
        (image.name, f"{image.width} × {image.height}", image.size_bytes, image.alt, clock_time(image.created_at))
        for image, _ in found
    )
    nothing = f"The tenant {tenant} has no images. Upload one with `mailwright image upload FILE`."
    print_rows(("Name!", "Pixels#", "Bytes#", "Alt text", "Uploaded ({zone})!"), rows, nothing=nothing)


@app.command()
def delete(name: Name, tenant: Tenant = tenants.DEFAULT) -> None:
    """Delete an image that nothing uses. It can be restored for 30 days, and sent emails show it until then."""

    async def work(at: Installation) -> None:
        owner = await find_tenant(at, tenant)
        async with _store(at) as store:
            await delete_image(at.database, store, owner.id, name, actor=CONSOLE)

    run(work)
    out.print(f"Deleted {name}. Restore it with `mailwright image restore {name}`.", markup=False)


@app.command()
def restore(name: Name, tenant: Tenant = tenants.DEFAULT) -> None:
    """Restore an image that was deleted less than 30 days ago."""

    async def work(at: Installation) -> None:
        owner = await find_tenant(at, tenant)
        async with _store(at) as store:
            await store.restore(owner.id, name, actor=CONSOLE)

    run(work)
    out.print(f"Restored {name}.", markup=False)


@asynccontextmanager
async def _store(at: Installation) -> AsyncIterator[ImageStore]:
    store = make_images(at.settings, at.database, at.clock)
    try:
        yield store
    finally:
        await store.close()
