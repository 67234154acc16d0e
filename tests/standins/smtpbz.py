"""The API of smtp.bz for tests: the account and its remaining quota.

async with SmtpBzStandIn() as api:
    api.account["quota"] = 0
    ...
"""

import asyncio
from typing import Any

from tests.standins.http import Answer, HttpStandIn, Request, json_answer
from tests.standins.options import StandInOptions, misbehave

KEY = "stand-in-not-a-secret"
BASE, USER = "/v1", "/v1/user"


class SmtpBzStandIn(HttpStandIn):
    def __init__(self, *, key: str = KEY, **options: Any) -> None:
        super().__init__(**options)
        self.key = key
        self.account: dict[str, Any] = {
            "tarif": "free",
            "expires_quota": "2027-01-31",
            "quota": 14_794,
            "tarif_quota": 15_000,
            "hsent": 3,
            "hlimit": 100,
        }

    @property
    def base(self) -> str:
        return f"{self.url}{BASE}"

    def usual(self, request: Request) -> Answer:
        if request.headers.get("Authorization") != self.key:  # without a `Bearer` prefix
            return json_answer(401, {"message": "Unauthorized"})
        if request.path != USER:
            return json_answer(404, {"message": "Not Found"})
        if request.method != "GET":
            return json_answer(405, {"message": "Method Not Allowed"})
        return json_answer(200, self.account)


async def serve(host: str, port: int, asked: StandInOptions) -> None:
    async with SmtpBzStandIn(host=host, port=port) as api:
        misbehave(api, asked, USER)
        print(f"The API of smtp.bz stands in at {api.base}. For `mailwright serve`, set:")
        print(f"  export MAILWRIGHT_PROVIDER=smtpbz MAILWRIGHT_SMTPBZ_URL={api.base} SMTPBZ_API_KEY={KEY}")
        print(
            "and SMTPBZ_SMTP_URL to any SMTP server, as `python -m tests.standins smtp`: this one speaks HTTP only.",
            flush=True,
        )
        await asyncio.Event().wait()
