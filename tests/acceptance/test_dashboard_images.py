"""The image library and the brand page in a browser: uploads, alt texts, undo and the live preview."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from mailwright.content.brand import DEFAULT_BRAND
from tests.builders import DEFAULT_TENANT
from tests.dashboard import DESK, PHONE, Dashboard
from tests.pictures import a_phone_photo, a_png

UPLOADED = re.compile(r"/images\?added=")
# Puts a file into a drop or paste event, as a browser does.
TRANSFER = """([kind, name, bytes]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], name, {type: "image/png"}));
  const options = {bubbles: true, cancelable: true};
  const event = kind === "drop" ? new DragEvent("drop", {...options, dataTransfer: data})
    : new ClipboardEvent("paste", {...options, clipboardData: data});
  document.body.dispatchEvent(event);
}"""


@pytest.fixture(params=[DESK, PHONE], ids=["desk", "phone"])
def page(request: pytest.FixtureRequest, dashboard: Dashboard, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport=request.param)
    yield dashboard.open_page(context)
    context.close()


def a_file(name: str, content: bytes) -> Any:
    return {"name": name, "mimeType": "image/png", "buffer": content}


def test_picture_is_uploaded_described_deleted_and_restored(page: Page, dashboard: Dashboard) -> None:
    stem = f"Summer-{(page.viewport_size or {})['width']}"  # The name of a deleted image stays taken.
    name = f"{stem}-fete.jpg"
    page.goto(f"{dashboard.address}/images")
    page.get_by_label("Choose images").set_input_files([a_file(f"{stem} fête.png", a_phone_photo(300, 200))])
    page.wait_for_url(UPLOADED)
    expect(page.get_by_label(f"Alt text of {name}")).to_be_focused()
    page.keyboard.type(f"Bunting over {stem}")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="Alt text saved.")).to_be_visible()
    page.goto(f"{dashboard.address}/images?q=bunting")
    expect(page.get_by_label(f"Alt text of {name}")).to_have_value(f"Bunting over {stem}")
    page.get_by_label(f"Delete {name}").click()
    expect(page.get_by_text(f"Deleted {name}")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text(f"Restored {name}")).to_be_visible()
    page.get_by_label(f"Delete {name}").click()
    expect(page.get_by_text(f"Deleted {name}")).to_be_visible()


@pytest.mark.parametrize("kind", ["drop", "paste"])
def test_picture_is_dropped_or_pasted(page: Page, dashboard: Dashboard, kind: str) -> None:
    page.goto(f"{dashboard.address}/images")
    width = (page.viewport_size or {"width": 0})["width"] + len(kind)
    page.evaluate(TRANSFER, [kind, f"{kind}.png", list(a_png(width))])
    page.wait_for_url(UPLOADED)
    expect(page.locator("[data-added] input[name=alt]")).to_be_focused()
    page.locator("[data-added]").get_by_role("button", name=re.compile("Delete")).click()


def test_refused_picture_shows_the_reason(page: Page, dashboard: Dashboard) -> None:
    page.goto(f"{dashboard.address}/images")
    script = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    page.get_by_label("Choose images").set_input_files([a_file("logo.png", script)])
    expect(page.get_by_text("logo.png: SVG images can contain scripts")).to_be_visible()


def test_picture_in_use_stays(page: Page, dashboard: Dashboard) -> None:
    engine = dashboard.engine
    url = f"{dashboard.address}/settings/brand"

    async def use_logo() -> None:
        image = await engine.images.find(DEFAULT_TENANT, "logo.png")
        brand = DEFAULT_BRAND.model_copy(update={"logo_url": engine.images.url(image, engine.public_url)})
        await engine.brands.save(DEFAULT_TENANT, brand, actor="test")

    dashboard.do(use_logo)
    page.goto(f"{dashboard.address}/images?q=logo")
    page.get_by_label("Delete logo.png").click()
    asked = page.get_by_role("region", name="logo.png is in use")
    expect(asked.get_by_role("listitem")).to_have_text("The brand kit Open")
    expect(asked.get_by_role("button")).to_have_count(0)
    page.goto(url)
    expect(page.get_by_alt_text("Current logo")).to_be_visible()


def test_preview_follows_the_form(page: Page, dashboard: Dashboard, tmp_path: Path) -> None:
    page.goto(f"{dashboard.address}/settings/brand")
    shown = page.frame_locator("[data-preview]")
    page.get_by_label("Name", exact=False).first.fill("Acme & Sons")
    page.get_by_label("Address of the logo").fill("")
    page.locator("#primary").fill("#ffe600")
    expect(page.locator("#contrast")).to_contain_text("Links in the primary colour are hard to read")
    expect(shown.get_by_text("Acme & Sons").first).to_be_visible()
    page.get_by_label("Postal address").fill("1 Main Street")
    expect(shown.get_by_text("1 Main Street")).to_be_visible()
    logo = tmp_path / "logo.png"
    logo.write_bytes(a_png(200, 50))
    page.get_by_label("Logo", exact=False).first.set_input_files(logo)
    expect(page.get_by_alt_text("Current logo")).to_be_visible()
    page.get_by_role("button", name="Save brand kit").click()
    expect(page.get_by_text("Brand kit saved.")).to_be_visible()
    brand = dashboard.do(lambda: dashboard.engine.brands.load(DEFAULT_TENANT))
    assert (brand.name, brand.primary, brand.postal_address) == ("Acme & Sons", "#ffe600", "1 Main Street")
    page.locator("#primary").fill("yellow")
    page.get_by_role("button", name="Save brand kit").click()
    expect(page.locator("#primary-error")).to_contain_text("Must be a colour such as #2563eb.")
    dashboard.do(lambda: dashboard.engine.brands.save(DEFAULT_TENANT, DEFAULT_BRAND, actor="test"))
