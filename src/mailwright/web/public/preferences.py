"""The preferences page: lists and language of a subscriber."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import Response

from mailwright.app.wiring import Engine
from mailwright.audience.preferences import (
    PreferenceChoice,
    PreferenceUpdate,
    has_unsubscribed_from_all,
    is_blocked,
    subscribed_lists,
    update_preferences,
)
from mailwright.audience.snooze import OFFERED_DAYS
from mailwright.audience.status import ContactPreferences, ContactStatusService
from mailwright.audience.tracking_consent import TrackingConsent, can_track
from mailwright.domain.clock import Instant
from mailwright.web.languages import language_of, supported_language, usual_language
from mailwright.web.public.forms import read_form
from mailwright.web.public.pages import filled
from mailwright.web.public.subscribers import (
    SOURCE,
    LinkRecipient,
    PublicRoute,
    recipient_of,
    recipient_page,
    refuse_erasing_recipient,
)
from mailwright.web.public.texts import LANGUAGES
from mailwright.web.state import EngineDep

CONSENT_SOURCE = "preferences page"

router = APIRouter(route_class=PublicRoute, include_in_schema=False)


@router.api_route("/preferences", methods=["GET", "HEAD"])
async def show(request: Request, engine: EngineDep) -> Response:
    recipient = await recipient_of(request, engine)
    await refuse_erasing_recipient(engine, recipient)
    about = await ContactStatusService(engine.database, engine.clock).load_preferences(
        recipient.tenant_id, recipient.email
    )
    return await preferences_page(request, engine, recipient, about, asks=await _asks_for_consent(engine, recipient))


@router.post("/preferences")
async def save(request: Request, engine: EngineDep) -> Response:
    """Save the choice and show the form again with a list of changes. The link of a test email saves nothing."""
    recipient = await recipient_of(request, engine)
    if recipient.is_test:
        return await show(request, engine)
    form = await read_form(request)
    about = await ContactStatusService(engine.database, engine.clock).load_preferences(
        recipient.tenant_id, recipient.email
    )
    language = supported_language(form.get("language", [""])[0])
    asks = await _asks_for_consent(engine, recipient) and "asked" in form
    choice = PreferenceChoice(
        shown=frozenset(form.get("shown", ())),
        selected=frozenset(form.get("list", ())),
        # Submitting the form in the page's current language does not count as choosing a language.
        locale=language if language != usual_language(request, about.locale) else None,
        unsubscribe_all="everything" in form,
        tracking_consent=_consent(form, usual_language(request, about.locale)) if asks else None,
    )
    if (pause := _snooze_days(form)) is not None:  # These buttons pause, and do not save the rest of the form.
        choice = PreferenceChoice(frozenset(), frozenset(), None, snooze_days=pause)
    outcome = await update_preferences(
        engine.database,
        engine.clock,
        recipient.tenant_id,
        recipient.email,
        choice,
        source=SOURCE,
        message_id=recipient.message_id,
    )
    language = (language if pause is None else None) or language_of(request, about.locale)
    changes = _describe_changes(outcome, language)
    return await preferences_page(
        request, engine, recipient, outcome.after, language=language, changes=changes, asks=asks
    )


async def preferences_page(
    request: Request,
    engine: Engine,
    recipient: LinkRecipient,
    about: ContactPreferences,
    *,
    language: str | None = None,
    changes: Sequence[Markup] | None = None,
    asks: bool = False,
) -> Response:
    """Render the preferences page. With `asks`, it asks for tracking consent."""
    return await recipient_page(
        request,
        engine,
        recipient,
        "preferences",
        locale=about.locale,
        language=language,
        here=recipient.links.preferences,
        lists=about.lists,
        on=subscribed_lists(about),
        is_blocked=is_blocked(about),
        has_unsubscribed_from_all=has_unsubscribed_from_all(about),
        changes=changes,
        asks_for_consent=asks,
        consents=bool(about.consents_to_tracking),
        snoozed_until=_day(about.snoozed_until, engine.clock.now()),
        is_test=recipient.is_test,
    )


async def _asks_for_consent(engine: Engine, recipient: LinkRecipient) -> bool:
    async with engine.database.read() as tx:
        return await can_track(tx, engine.settings.tracking, recipient.tenant_id)


def _consent(form: Mapping[str, Sequence[str]], language: str) -> TrackingConsent:
    """Return the decision, with the wording of the page that was shown."""
    shown = supported_language(form.get("asked", [""])[0]) or language
    return TrackingConsent("tracking" in form, LANGUAGES[shown].tracking_consent, CONSENT_SOURCE)


def _snooze_days(form: Mapping[str, Sequence[str]]) -> int | None:
    """Return the pause that was chosen, 0 to end it, or None. Other values than the page offers are ignored."""
    chosen = form.get("snooze", [""])[0]
    offered = {str(days): days for days in (0, *OFFERED_DAYS)}
    return offered.get(chosen)


def _day(until: Instant | None, now: Instant) -> str | None:
    """Return the day on which a pause ends; None without a pause."""
    return None if until is None or until <= now else datetime.fromtimestamp(until / 1000, UTC).date().isoformat()


def _describe_changes(outcome: PreferenceUpdate, language: str) -> list[Markup]:
    texts = LANGUAGES[language]
    if outcome.unsubscribed_from_all:
        return [filled(texts.unsubscribed_all_change)]
    changes = [filled(texts.subscribed_change, list=name) for name in outcome.subscribed]
    changes += [filled(texts.unsubscribed_change, list=name) for name in outcome.unsubscribed]
    if outcome.after.snoozed_until != outcome.before.snoozed_until:
        day = _day(outcome.after.snoozed_until, 0)
        changes.append(filled(texts.snooze_ended_change) if day is None else filled(texts.snoozed_change, day=day))
    if outcome.after.locale != outcome.before.locale:
        changes.append(filled(texts.language_changed, language=texts.name))
    if bool(outcome.after.consents_to_tracking) != bool(outcome.before.consents_to_tracking):
        is_given = bool(outcome.after.consents_to_tracking)
        changes.append(filled(texts.consent_given_change if is_given else texts.consent_withdrawn_change))
    return changes
