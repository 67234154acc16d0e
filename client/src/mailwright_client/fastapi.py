"""A dependency for FastAPI: one asynchronous client for the application, closed when it stops.

    email = MailwrightDependency()
    app = FastAPI(lifespan=email.lifespan)

    @app.post("/orders")
    async def order(client: Annotated[AsyncClient, Depends(email)]) -> None:
        await client.email.send(models.SendRequest(to="ada@example.com", subject="Hello", text="Hello."))

The URL and the API key are arguments or environment variables: `MAILWRIGHT_URL` and `MAILWRIGHT_API_KEY`.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mailwright_client.client import AsyncClient


class MailwrightDependency:
    def __init__(self, url: str | None = None, api_key: str | None = None) -> None:
        self._url = url or _variable("MAILWRIGHT_URL")
        self._api_key = api_key or _variable("MAILWRIGHT_API_KEY")
        self._client: AsyncClient | None = None

    @asynccontextmanager
    async def lifespan(self, _app: Any) -> AsyncIterator[None]:
        async with AsyncClient(self._url, self._api_key) as self._client:
            yield
        self._client = None

    async def __call__(self) -> AsyncClient:
        if self._client is None:
            raise RuntimeError("Pass `lifespan=email.lifespan` to FastAPI, or run it in your own lifespan.")
        return self._client


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise RuntimeError(f"Set the environment variable {name}, or pass it as an argument.")
    return value
