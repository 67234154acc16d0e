"""The set-up of a new installation: its steps, their progress, and what is left to do."""

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Final

import orjson
from sqlalchemy import select

from mailwright.app.destinations import is_local_only
from mailwright.app.sender_dns import LOCAL, is_public_domain
from mailwright.content.brand import DEFAULT_BRAND, MAX_NAME_LENGTH, Brand
from mailwright.content.brand_store import Brands
from mailwright.content.headers import parse_mailbox
from mailwright.domain import address
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.ops.settings import Settings
from mailwright.outbox.installation import change_setup_progress, find_setup_progress
from mailwright.storage.database import Database
from mailwright.storage.tables import api_keys, campaigns, subscriptions, users


class SetupStep(StrEnum):
    SENDER = "sender"
    PROVIDER = "provider"
    DOMAIN = "domain"
    KEY = "key"
    TEST = "test"
    TEAM = "team"

    @property
    def following(self) -> "SetupStep | None":
        order = list(SetupStep)
        position = order.index(self) + 1
        return order[position] if position < len(order) else None


class StepState(StrEnum):
    DONE = "done"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class SetupProgress:
    steps: Mapping[SetupStep, StepState] = field(default_factory=dict)
    is_dismissed: bool = False  # Somebody has closed the list on Home.

    @property
    def next_step(self) -> SetupStep | None:
        """The first step that was neither done nor skipped."""
        return next((step for step in SetupStep if step not in self.steps), None)


@dataclass(frozen=True, slots=True)
class ChecklistItem:
    title: str
    hint: str
    path: str
    is_done: bool


async def load_progress(database: Database) -> SetupProgress:
    return _parse_progress(await find_setup_progress(database))


def _parse_progress(text: str | None) -> SetupProgress:
    if text is None:
        return SetupProgress()
    stored = orjson.loads(text)
    known = {step: StepState(stored["steps"][step]) for step in SetupStep if step in stored["steps"]}
    return SetupProgress(known, stored["isDismissed"])


def effective_progress(progress: SetupProgress, settings: Settings) -> SetupProgress:
    """Return the progress without steps whose result does not let email leave, although somebody did them."""
    kept = dict(progress.steps)
    if kept.get(SetupStep.SENDER) is StepState.DONE and not has_sender(settings):
        del kept[SetupStep.SENDER]
    if kept.get(SetupStep.PROVIDER) is StepState.DONE and not has_provider(settings):
        kept[SetupStep.PROVIDER] = StepState.SKIPPED
    return replace(progress, steps=kept)


async def record_step(database: Database, step: SetupStep, state: StepState) -> None:
    """Record a step. A step that was done stays done, even if somebody skips it later."""

    def change(text: str | None) -> str | None:
        progress = _parse_progress(text)
        if progress.steps.get(step) in (state, StepState.DONE):
            return None
        return _progress_text(replace(progress, steps={**progress.steps, step: state}))

    await change_setup_progress(database, change)


async def begin_brand(brands: Brands, tenant_id: int, sender: str | None, *, actor: str) -> None:
    """Name the brand kit after the sender, unless the tenant has one already."""
    name = parse_mailbox(sender).name if sender else None
    if not name or await brands.load(tenant_id) != DEFAULT_BRAND:
        return
    await brands.save(tenant_id, Brand(name=name[:MAX_NAME_LENGTH]), actor=actor)


async def reopen_step(database: Database, step: SetupStep) -> None:
    """Mark a step as not done, because the settings that it tested have changed."""

    def change(text: str | None) -> str | None:
        progress = _parse_progress(text)
        if step not in progress.steps:
            return None
        kept = {each: state for each, state in progress.steps.items() if each is not step}
        return _progress_text(replace(progress, steps=kept))

    await change_setup_progress(database, change)


async def dismiss_checklist(database: Database) -> None:
    await change_setup_progress(
        database, lambda text: _progress_text(replace(_parse_progress(text), is_dismissed=True))
    )


def _progress_text(progress: SetupProgress) -> str:
    steps = {step.value: state.value for step, state in progress.steps.items()}
    return orjson.dumps({"steps": steps, "isDismissed": progress.is_dismissed}).decode()


def has_sender(settings: Settings) -> bool:
    return is_public_domain(settings.sender)


def has_provider(settings: Settings) -> bool:
    return not is_local_only(settings)


_TITLES: Final = {
    "sender": (lazy_gettext("Set the sender"), lazy_gettext("Name and address that recipients see."), "/set-up/sender"),
    "postal_address": (
        lazy_gettext("Add a postal address"),
        lazy_gettext("The law requires it in newsletters."),
        "/set-up/sender",
    ),
    "provider": (
        lazy_gettext("Connect a provider"),
        lazy_gettext("Until then, no email leaves this machine."),
        "/set-up/provider",
    ),
    "domain": (
        lazy_gettext("Publish the DNS records"),
        lazy_gettext("So that receivers trust your emails."),
        "/set-up/domain",
    ),
    "test": (lazy_gettext("Send a test email"), lazy_gettext("To yourself, through the provider."), "/set-up/test"),
    "key": (lazy_gettext("Create an API key"), lazy_gettext("For applications that send email."), "/set-up/key"),
    "team": (
        lazy_gettext("Invite colleagues"),
        lazy_gettext("Everybody gets a user and a role of their own."),
        "/set-up/team",
    ),
    "contacts": (
        lazy_gettext("Add contacts"),
        lazy_gettext("Import a file, or add the first one by hand."),
        "/imports",
    ),
    "campaign": (
        lazy_gettext("Send the first campaign"),
        lazy_gettext("One email for many recipients."),
        "/campaigns/new",
    ),
}


async def load_checklist(settings: Settings, database: Database, tenant_id: int) -> list[ChecklistItem] | None:
    """Return what is done and what is left, or None if everything is done or the list was dismissed."""
    progress = await load_progress(database)
    if progress.is_dismissed or settings.demo:
        return None
    async with database.read() as tx:
        # Contacts that only received a transactional email do not count.
        joined = (subscriptions.c.tenant_id == tenant_id, subscriptions.c.subscribed_at.is_not(None))
        has_contacts = await tx.execute(select(subscriptions.c.id).where(*joined).limit(1))
        started = (campaigns.c.tenant_id == tenant_id, campaigns.c.started_at.is_not(None))
        has_campaign = await tx.execute(select(campaigns.c.id).where(*started).limit(1))
        valid = (api_keys.c.tenant_id == tenant_id, api_keys.c.revoked_at.is_(None))
        has_key = await tx.execute(select(api_keys.c.id).where(*valid).limit(1))
        has_team = len(await tx.execute(select(users.c.id).limit(2))) > 1
    done = {
        "sender": has_sender(settings),
        "postal_address": settings.sender_postal_address is not None,
        "provider": has_provider(settings),
        "domain": progress.steps.get(SetupStep.DOMAIN) is StepState.DONE,
        "test": has_provider(settings) and progress.steps.get(SetupStep.TEST) is StepState.DONE,
        "key": bool(has_key) or progress.steps.get(SetupStep.KEY) is StepState.DONE,
        "team": has_team or progress.steps.get(SetupStep.TEAM) is StepState.DONE,
        "contacts": bool(has_contacts),
        "campaign": bool(has_campaign),
    }
    # Not everybody has applications or colleagues.
    skipped = [step for step in (SetupStep.KEY, SetupStep.TEAM) if progress.steps.get(step) is StepState.SKIPPED]
    done = {name: is_done for name, is_done in done.items() if is_done or name not in skipped}
    if all(done.values()):
        return None
    hints = _reasons(settings, progress)
    titles = {name: (title, hints.get(name, hint), path) for name, (title, hint, path) in _TITLES.items()}
    return [ChecklistItem(*titles[name], is_done=is_done) for name, is_done in done.items()]


def _reasons(settings: Settings, progress: SetupProgress) -> dict[str, str]:
    """Return why a step that the user did is still open."""
    reasons = {}
    domain = address.domain_of(parse_mailbox(settings.sender).address)
    if domain.endswith(LOCAL) and not domain.endswith("localhost"):
        reasons["sender"] = f"{domain} does not exist on the internet. Use a domain of your own."
    if progress.steps.get(SetupStep.TEST) is StepState.DONE:
        reasons["test"] = "The local mailbox works. Send one through the provider, too."
    return reasons
