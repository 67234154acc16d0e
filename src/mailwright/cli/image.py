"""`mailwright image`: images for emails."""

from pathlib import Path
from typing import Annotated

import typer

from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Limit, Tenant, group
from mailwright.cli.output import clock_time, out, print_json, print_rows
from mailwright.content.images import Image, ImageStore
from mailwright.ops.settings import Settings
from mailwright.outbox import tenants
from mailwright.schemas.images import image_response

app = group("Images for emails.")


@app.command()
def upload(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="PNG, JPEG, GIF or WebP.")],
    name: Annotated[
        str | None, typer.Option(help="The name that templates use.", show_default="the file's name")
    ] = None,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Upload an image and print its address. Templates saved from now on can use its name."""

    async def work(at: Installation) -> tuple[Image, Settings]:
        owner = await find_tenant(at, tenant)
        return await _store(at).put(owner.id, name or file.name, file.read_bytes()), at.settings

    image, settings = run(work, creates=True)
    out.print(image.url(settings.public_url), markup=False, soft_wrap=True)


@app.command("list")
def list_command(tenant: Tenant = tenants.DEFAULT, limit: Limit = 100, as_json: Json = False) -> None:
    """List a tenant's images, the newest first."""

    async def work(at: Installation) -> tuple[list[Image], Settings]:
        owner = await find_tenant(at, tenant)
        return [image for _, image in await _store(at).list_page(owner.id, limit=limit)], at.settings

    found, settings = run(work)
    if as_json:
        print_json([image_response(image, settings.public_url).to_dict() for image in found])
        return
    rows = ((image.name, image.size_bytes, image.file_name, clock_time(image.created_at)) for image in found)
    nothing = f"The tenant {tenant} has no images. Upload one with `mailwright image upload FILE`."
    print_rows(("Name!", "Bytes#", "File", "Uploaded ({zone})!"), rows, nothing=nothing)


def _store(at: Installation) -> ImageStore:
    return ImageStore(at.database, at.clock, at.settings.images)
