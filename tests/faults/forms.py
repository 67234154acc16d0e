"""Fuzz the forms and bodies that anyone can send: none may cause an internal error."""

import random
from collections import Counter

import httpx

from mailwright.domain.clock import SystemClock
from mailwright.web.app import create_app
from tests.api import an_engine
from tests.faults.figures import Figures
from tests.faults.stage import Stage

HOME = "http://mail.example"
PATHS = (
    *("/sign-in", "/sign-in/code", "/sign-in/link", "/set-up", "/unsubscribe", "/preferences", "/tenant", "/account"),
    *("/imports/file", "/articles/~import", "/v1/email/send", "/v1/templates/x", "/ses-events", "/sendgrid-events"),
)
TYPES = (
    "multipart/form-data; boundary=xx",
    "multipart/form-data",
    "multipart/form-data; boundary=",
    "multipart/form-data; boundary=" + "x" * 500,
    "application/x-www-form-urlencoded; charset=nonsense",
    "application/x-www-form-urlencoded",
    "application/json",
    "text/plain",
    "",
)
PIECES = (
    *(b"--xx", b"--xx--", b"\r\n", b"\r\n\r\n", b'Content-Disposition: form-data; name="login"', b"; filename="),
    *(b"a=b&", b"%00", b"%ff", b"\x00", b"\xff\xfe", b"=", b"&" * 500, b"x" * 2_000, b"password", b"form_token="),
    *(b"{", b"}", b"[" * 900, b'"token":', b"1e999", b"x" * 20_000),
)


async def run(stage: Stage, *, forms: int) -> Figures:
    figures = Figures()
    app = create_app(an_engine(stage.database, SystemClock(), base_url=HOME))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=HOME, headers={"Origin": HOME}) as client:
        statuses, failed = await post_random_forms(client, random.Random(), forms)
    await app.state.finish()
    figures.note("statuses", statuses.most_common())
    figures.expect("forms sent", statuses.total(), f"{forms}", when=statuses.total() == forms)
    figures.none("internal errors", failed)
    return figures


async def post_random_forms(
    client: httpx.AsyncClient, chance: random.Random, count: int
) -> tuple[Counter[int], list[str]]:
    """Return how often each status came, and the requests that failed."""
    statuses: Counter[int] = Counter()
    failed: list[str] = []
    for _ in range(count):
        path, kind = chance.choice(PATHS), chance.choice(TYPES)
        content = b"".join(chance.choices(PIECES, k=chance.randrange(20)))
        response = await client.post(path, content=content, headers={"Content-Type": kind})
        statuses[response.status_code] += 1
        if response.status_code >= 500:
            failed.append(f"{response.status_code} {path} {kind} {content[:200]!r}")
    return statuses, failed
