"""The proof of work of public sign-ups, or a second page with one button for visitors without scripts."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request

from mailwright.app.wiring import Engine
from mailwright.audience.form_protection import DIFFICULTY_BITS, FormProtection
from mailwright.web.public.subscribers import link_secrets

# Any site may embed a form. Requests carry no cookies, and responses are the same for everyone.
SHARED: Final = {"Access-Control-Allow-Origin": "*", "Cache-Control": "no-store"}
REQUIRED: Final = "PROOF_OF_WORK_REQUIRED"
SOLVE_FIRST: Final = "Solve the challenge of this form first: see its /challenge."
# A program that filled in the honeypot learns nothing from the second page either.
HONEYPOT: Final = "website"


async def protection_of(engine: Engine) -> FormProtection:
    secret, *_ = await link_secrets(engine)
    return FormProtection(engine.database, engine.clock, secret)


async def new_challenge(engine: Engine, form: str) -> dict[str, Any]:
    """Return a challenge for the script of a form."""
    return {"challenge": (await protection_of(engine)).new_challenge(form), "bits": str(DIFFICULTY_BITS)}


async def is_protected(engine: Engine, form: str, given: Mapping[str, Sequence[str]]) -> bool:
    """Return whether the sender did the work, or pressed the button of the second page."""
    protection = await protection_of(engine)
    names = ("email", "challenge", "solution", "step")
    email, challenge, solution, step = (given.get(name, [""])[0] for name in names)
    if step and await protection.is_person(form, email, step):
        return True
    return bool(challenge) and await protection.is_solved(form, challenge, solution)


async def new_step(engine: Engine, form: str, given: Mapping[str, Sequence[str]], request: Request) -> str | None:
    """Return the token of the second page; None if it was shown too often in this hour."""
    remote_address = request.client.host if request.client else ""
    return await (await protection_of(engine)).new_step(form, given.get("email", [""])[0], remote_address)


def kept_inputs(given: Mapping[str, Sequence[str]], names: Sequence[str]) -> dict[str, list[str]]:
    """Return the inputs that the second page keeps."""
    kept = {name: list(given[name])[:1] for name in names if name in given}
    return kept | ({HONEYPOT: list(given[HONEYPOT])[:1]} if given.get(HONEYPOT, [""])[0] else {})
