"""Link checks follow redirects and never reach a private network."""

import socket
from collections.abc import Sequence

import pytest
from aiohappyeyeballs import AddrInfoType

from mailwright.app.link_checks import MAX_REDIRECTS, dead_links, public_only
from mailwright.domain.network import is_public_address
from mailwright.providers.http import Disconnect, HttpClient, HttpPhase, HttpResponse, Resolve
from tests.unit.content.test_authoring import a_server_that_must_not_be_called


class World:
    """Respond by URL; other URLs return 404."""

    def __init__(self, answers: dict[str, HttpResponse | Disconnect]) -> None:
        self._answers = answers
        self.asked: list[str] = []

    async def ask(self, url: str) -> HttpResponse | Disconnect:
        self.asked.append(url)
        return self._answers.get(url) or HttpResponse(404, [], b"")


def moved(to: str) -> HttpResponse:
    return HttpResponse(302, [(b"Location", to.encode())], b"")


FINE = HttpResponse(200, [], b"")


async def test_broken_links_are_reported_in_order() -> None:
    world = World(
        {
            "https://a.example/": FINE,
            "https://b.example/": Disconnect(HttpPhase.BEFORE, "no connection in time", is_timeout=True),
            "https://c.example/": moved("/there"),
            "https://c.example/there": FINE,
            "https://d.example/": HttpResponse(403, [], b""),
            "https://e.example/": HttpResponse(410, [], b""),
        }
    )
    found = await dead_links([f"https://{name}.example/" for name in "abcde"], world.ask)
    assert [(each.code, each.sentence) for each in found] == [
        ("DEAD_LINK", "the link https://b.example/ does not work: no connection in time"),
        ("DEAD_LINK", "the link https://e.example/ does not work: it returns 410"),
    ]


@pytest.mark.parametrize(
    "inside",
    [
        "http://127.0.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[fe80::1]/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "https://a.example:6379/",
        "file:///etc/passwd",
        "gopher://a.example/",
    ],
)
async def test_no_link_or_redirect_reaches_a_private_network(inside: str) -> None:
    world = World({"https://a.example/": moved(inside), inside: FINE})
    found = await dead_links([inside, "https://a.example/"], world.ask)
    assert len(found) == 2
    assert world.asked == ["https://a.example/"]


async def test_redirect_loop_ends() -> None:
    world = World({"https://a.example/": moved("https://a.example/")})
    [found] = await dead_links(["https://a.example/"], world.ask)
    assert "redirects too often" in found.sentence
    assert len(world.asked) == MAX_REDIRECTS + 1


def names(*addresses: str) -> Resolve:
    async def resolve(host: str, port: int) -> Sequence[AddrInfoType]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (each, port)) for each in addresses]

    return resolve


async def test_name_of_a_private_address_is_never_connected() -> None:
    with a_server_that_must_not_be_called() as (url, calls):
        port = url.rpartition(":")[2]
        for addresses in (("127.0.0.1",), ("93.184.215.14", "127.0.0.1")):
            http = HttpClient(resolve=public_only(names(*addresses)))
            reply = await http.request("GET", f"http://inside.example:{port}/", timeout_seconds=5)
            await http.close()
            assert reply == Disconnect(HttpPhase.BEFORE, "it leads into a private network")
    assert calls == []


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True),
        ("127.0.0.1", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("2002:7f00:1::", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::10.0.0.1", False),
        ("64:ff9b::5db8:d70e", True),
        ("64:ff9b:1::5db8:d70e", False),
        ("2001:0:5db8:d70e::1", False),
        ("::127.0.0.1", False),
        ("2606:2800:21f:cb07:0:5efe:7f00:1", False),
        ("2606:2800:21f:cb07:200:5efe:7f00:1", False),
        ("fe80::1%eth0", False),
        ("nonsense", False),
    ],
)
def test_public_and_private_addresses_are_distinguished(address: str, expected: bool) -> None:
    assert is_public_address(address) is expected
