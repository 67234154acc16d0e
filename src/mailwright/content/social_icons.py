"""The icons of social links in emails. Mailwright serves them itself, like uploaded images."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from mailwright.content.brand import Network
from mailwright.domain.network import is_private_host

# The web server serves every file under this path permanently, so that URLs in sent emails stay valid.
_PATH: Final = "/assets/social"


def icon_name(network: Network) -> str:
    """Return the name of an icon in a source, which is replaced by its URL like the name of an uploaded image."""
    return f"mailwright-social-{network.value}.png"


def icon_urls(public_url: str) -> Mapping[str, str]:
    """Return the URLs of the icons by name; none if recipients cannot load them from this server."""
    host = urlsplit(public_url).hostname
    if host is None or is_private_host(host):
        return {}
    return {name: f"{public_url}{_PATH}/{name}" for name in map(icon_name, Network)}


def has_icons(images: Mapping[str, str] | None) -> bool:
    return images is not None and icon_name(Network.WEB) in images
