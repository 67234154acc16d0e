"""Sentences of the audit log: `ada started the campaign “Spring”`."""

from collections.abc import Mapping
from typing import Final

from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.outbox.audit_log import API, CONSOLE, IMPORT, SYSTEM, AuditEntry, SearchedWord, describe_actor
from mailwright.sources.campaigns.ab_test import DECIDED_BY_SETTING, DECIDED_BY_STATISTICS
from mailwright.sources.campaigns.approval_records import ACTOR as APPROVALS
from mailwright.sources.campaigns.guard_rails import ACTOR as GUARD_RAILS
from mailwright.sources.campaigns.repeat_records import SCHEDULE_ACTOR

# Actors that are neither users nor API keys, at the beginning of a sentence.
_ACTORS: Final[Mapping[str, str]] = {
    SYSTEM: "Mailwright",
    APPROVALS: lazy_gettext("The approval rule"),
    GUARD_RAILS: lazy_gettext("A guard rail"),
    SCHEDULE_ACTOR: lazy_gettext("The schedule"),
    DECIDED_BY_STATISTICS: lazy_gettext("The A/B test"),
    DECIDED_BY_SETTING: lazy_gettext("The A/B test"),
    "ADMIN_PASSWORD": lazy_gettext("The setting ADMIN_PASSWORD"),
    "set-up": lazy_gettext("The set-up"),
    IMPORT: lazy_gettext("An import"),
    "watch": lazy_gettext("The watch of Notion"),
}

# The details that name a subject.
_NAMES: Final = ("name", "campaign_tag", "file", "url")

_MARKS: Final = "“”«»\"'.,:;()"

# The sentence of each action. `{actor}` did it; `{subject}` is the name of what it changed.
SENTENCES: Final[Mapping[str, str]] = {
    "approval.approve": lazy_gettext("{actor} approved the send of {subject}"),
    "approval.reject": lazy_gettext("{actor} rejected the send of {subject}"),
    "approval.request": lazy_gettext("{actor} requested an approval of the send of {subject}"),
    "approval.withdraw": lazy_gettext("{actor} withdrew the approval request for {subject}"),
    "article.override_sender_rules": lazy_gettext("{actor} sent {subject} although sender rules are not met"),
    "article.send": lazy_gettext("{actor} sent the article {subject}"),
    "brand.change": lazy_gettext("{actor} changed the brand of {subject}"),
    "campaign.ab_test_undecided": lazy_gettext("{actor} of the campaign {subject} found no winner"),
    "campaign.accept_failures": lazy_gettext("{actor} accepted the failures of the campaign {subject}"),
    "campaign.accept_incidents": lazy_gettext("{actor} accepted the warnings of the campaign {subject} and resumed it"),
    "campaign.approval_void": lazy_gettext("{actor} ended the approval of the campaign {subject} after a change"),
    "campaign.approve": lazy_gettext("{actor} approved the campaign {subject}"),
    "campaign.archive": lazy_gettext("{actor} archived the campaign {subject}"),
    "campaign.attach": lazy_gettext("{actor} attached a file to the campaign {subject}"),
    "campaign.await_approval": lazy_gettext("{actor} held the campaign {subject} until somebody approves it"),
    "campaign.cancel": lazy_gettext("{actor} cancelled the campaign {subject}"),
    "campaign.choose_winner": lazy_gettext("{actor} chose the winner of the campaign {subject}"),
    "campaign.create": lazy_gettext("{actor} created the campaign {subject}"),
    "campaign.delete": lazy_gettext("{actor} deleted the campaign {subject}"),
    "campaign.detach": lazy_gettext("{actor} removed an attachment of the campaign {subject}"),
    "campaign.edit": lazy_gettext("{actor} edited the campaign {subject}"),
    "campaign.edit_limits": lazy_gettext("{actor} changed the limits of the campaign {subject}"),
    "campaign.extend": lazy_gettext("{actor} added recipients to the campaign {subject}"),
    "campaign.guard_slow_down": lazy_gettext("{actor} slowed down the campaign {subject}"),
    "campaign.guard_stop": lazy_gettext("{actor} stopped the campaign {subject}"),
    "campaign.guard_warn": lazy_gettext("{actor} warned about the campaign {subject}"),
    "campaign.hold_wave": lazy_gettext("{actor} held the next wave of the campaign {subject}"),
    "campaign.move": lazy_gettext("{actor} moved the campaign {subject} in the queue"),
    "campaign.open_wave": lazy_gettext("{actor} started the next wave of the campaign {subject}"),
    "campaign.override_sender_rules": lazy_gettext(
        "{actor} started the campaign {subject} although sender rules are not met"
    ),
    "campaign.pause": lazy_gettext("{actor} paused the campaign {subject}"),
    "campaign.pause_repeat": lazy_gettext("{actor} paused the recurring campaign {subject}"),
    "campaign.publish": lazy_gettext("{actor} published the campaign {subject} in the archive"),
    "campaign.reject": lazy_gettext("{actor} rejected the campaign {subject}"),
    "campaign.repeat": lazy_gettext("{actor} made the campaign {subject} recurring"),
    "campaign.request_approval": lazy_gettext("{actor} requested an approval of the campaign {subject}"),
    "campaign.reschedule": lazy_gettext("{actor} changed the send time of the campaign {subject}"),
    "campaign.resend": lazy_gettext("{actor} prepared sending the campaign {subject} again"),
    "campaign.resolve_in_doubt": lazy_gettext("{actor} resolved unconfirmed messages of the campaign {subject}"),
    "campaign.restore": lazy_gettext("{actor} restored the campaign {subject}"),
    "campaign.resume": lazy_gettext("{actor} resumed the campaign {subject}"),
    "campaign.retry_failed": lazy_gettext("{actor} retried the failed messages of the campaign {subject}"),
    "campaign.send_now": lazy_gettext("{actor} sent the scheduled campaign {subject} at once"),
    "campaign.skip_repeat": lazy_gettext("{actor} skipped a send of the recurring campaign {subject}"),
    "campaign.start": lazy_gettext("{actor} started the campaign {subject}"),
    "campaign.stop_repeat": lazy_gettext("{actor} stopped repeating the campaign {subject}"),
    "campaign.test": lazy_gettext("{actor} sent a test email of the campaign {subject}"),
    "campaign.withdraw": lazy_gettext("{actor} withdrew the campaign {subject}"),
    "campaign.withdraw_approval_request": lazy_gettext(
        "{actor} withdrew the approval request for the campaign {subject}"
    ),
    "contact.activate": lazy_gettext("{actor} activated the contact {subject}"),
    "contact.end_legal_basis": lazy_gettext("{actor} ended the legal basis of the contact {subject}"),
    "contact.end_snooze": lazy_gettext("{actor} ended the email pause of the contact {subject}"),
    "contact.erase": lazy_gettext("{actor} erased the contact {subject}"),
    "contact.erasing": lazy_gettext("{actor} requested the erasure of the contact {subject}"),
    "contact.legal_basis": lazy_gettext("{actor} recorded a legal basis for the contact {subject}"),
    "contact.put": lazy_gettext("{actor} saved the contact {subject}"),
    "contact.snooze": lazy_gettext("{actor} paused email to the contact {subject}"),
    "contact.subscribe": lazy_gettext("{actor} subscribed the contact {subject}"),
    "contact.tracking_consent": lazy_gettext("{actor} recorded the tracking consent of the contact {subject}"),
    "contact.unsubscribe": lazy_gettext("{actor} unsubscribed the contact {subject}"),
    "domain.activate": lazy_gettext("{actor} activated keys of the sender domain {subject}"),
    "domain.add": lazy_gettext("{actor} added the sender domain {subject}"),
    "domain.delete": lazy_gettext("{actor} deleted the sender domain {subject}"),
    "domain.rotate": lazy_gettext("{actor} rotated the keys of the sender domain {subject}"),
    "domain.unrestrict": lazy_gettext("{actor} allowed {subject} to send from any domain"),
    "domain.verify": lazy_gettext("{actor} verified the sender domain {subject}"),
    "form.create": lazy_gettext("{actor} created the sign-up form {subject}"),
    "form.delete": lazy_gettext("{actor} deleted the sign-up form {subject}"),
    "form.edit": lazy_gettext("{actor} edited the sign-up form {subject}"),
    "image.change": lazy_gettext("{actor} changed the image {subject}"),
    "image.delete": lazy_gettext("{actor} deleted the image {subject}"),
    "image.restore": lazy_gettext("{actor} restored the image {subject}"),
    "image.upload": lazy_gettext("{actor} uploaded the image {subject}"),
    "import.begin": lazy_gettext("{actor} imported contacts from {subject}"),
    "key_create": lazy_gettext("{actor} created the API key {subject}"),
    "key_owner": lazy_gettext("{actor} changed the owner of the API key {subject}"),
    "key_revoke": lazy_gettext("{actor} revoked the API key {subject}"),
    "list.archive": lazy_gettext("{actor} archived the list {subject}"),
    "list.create": lazy_gettext("{actor} created the list {subject}"),
    "list.delete": lazy_gettext("{actor} deleted the list {subject}"),
    "list.edit": lazy_gettext("{actor} edited the list {subject}"),
    "list.restore": lazy_gettext("{actor} restored the list {subject}"),
    "mailout.override_sender_rules": lazy_gettext(
        "{actor} started the mailout {subject} although sender rules are not met"
    ),
    "mailout.send": lazy_gettext("{actor} started the mailout {subject}"),
    "message.cancel": lazy_gettext("{actor} cancelled the message {subject}"),
    "message.resolve": lazy_gettext("{actor} resolved the unconfirmed message {subject}"),
    "message.retry": lazy_gettext("{actor} retried the message {subject}"),
    "message.send": lazy_gettext("{actor} sent the message {subject}"),
    "notification.requeue": lazy_gettext("{actor} queued the notification {subject} again"),
    "provider.create": lazy_gettext("{actor} added the provider {subject}"),
    "provider.delete": lazy_gettext("{actor} deleted the provider {subject}"),
    "provider.edit": lazy_gettext("{actor} changed the provider {subject}"),
    "provider_route.delete": lazy_gettext("{actor} deleted the provider route of {subject}"),
    "provider_route.set": lazy_gettext("{actor} set the provider route of {subject}"),
    "quarantine.resolve": lazy_gettext("{actor} resolved the quarantined messages"),
    "report_source.create": lazy_gettext("{actor} added the report source {subject}"),
    "report_source.delete": lazy_gettext("{actor} deleted the report source {subject}"),
    "retention.remove": lazy_gettext("{actor} removed the retention rule for {subject}"),
    "retention.set": lazy_gettext("{actor} set the retention rule for {subject}"),
    "segment.create": lazy_gettext("{actor} created the segment {subject}"),
    "segment.edit": lazy_gettext("{actor} edited the segment {subject}"),
    "segment.forget": lazy_gettext("{actor} deleted the segment {subject}"),
    "sending.hold": lazy_gettext("{actor} held all sending"),
    "sending.release": lazy_gettext("{actor} resumed all sending"),
    "sequence.archive": lazy_gettext("{actor} archived the sequence {subject}"),
    "sequence.create": lazy_gettext("{actor} created the sequence {subject}"),
    "sequence.delete": lazy_gettext("{actor} deleted the sequence {subject}"),
    "sequence.edit": lazy_gettext("{actor} edited the sequence {subject}"),
    "sequence.enrol": lazy_gettext("{actor} enrolled contacts in the sequence {subject}"),
    "sequence.pause": lazy_gettext("{actor} paused the sequence {subject}"),
    "sequence.publish": lazy_gettext("{actor} published the sequence {subject}"),
    "sequence.remove": lazy_gettext("{actor} removed a contact from the sequence {subject}"),
    "sequence.resume": lazy_gettext("{actor} resumed the sequence {subject}"),
    "sequence.retry": lazy_gettext("{actor} retried failed steps of the sequence {subject}"),
    "setting_set": lazy_gettext("{actor} changed the setting {subject}"),
    "setting_unset": lazy_gettext("{actor} removed the stored setting {subject}"),
    "slices.change": lazy_gettext("{actor} changed a slice of the article {subject}"),
    "slices.put": lazy_gettext("{actor} saved the slices of the article {subject}"),
    "slices.remove": lazy_gettext("{actor} removed a slice of the article {subject}"),
    "suppression.add": lazy_gettext("{actor} suppressed the address {subject}"),
    "suppression.lift": lazy_gettext("{actor} lifted the suppression of {subject}"),
    "template.archive": lazy_gettext("{actor} archived the template {subject}"),
    "template.delete": lazy_gettext("{actor} deleted the template {subject}"),
    "template.restore": lazy_gettext("{actor} restored the template {subject}"),
    "template.write": lazy_gettext("{actor} saved the template {subject}"),
    "tenant.change": lazy_gettext("{actor} changed the tenant {subject}"),
    "tenant.create": lazy_gettext("{actor} created the tenant {subject}"),
    "tenant.edit": lazy_gettext("{actor} changed the tenant {subject}"),
    "tenant.delete": lazy_gettext("{actor} deleted the tenant {subject}"),
    "tenant_limits": lazy_gettext("{actor} changed the limits of {subject}"),
    "user_create": lazy_gettext("{actor} created the user {subject}"),
    "user_disable": lazy_gettext("{actor} disabled the user {subject}"),
    "user_email": lazy_gettext("{actor} changed the email address of the user {subject}"),
    "user_email_request": lazy_gettext("{actor} asked to change the email address of the user {subject}"),
    "user_enable": lazy_gettext("{actor} enabled the user {subject}"),
    "user_identity": lazy_gettext("{actor} connected an identity to the user {subject}"),
    "user_identity_gone": lazy_gettext("{actor} disconnected an identity from the user {subject}"),
    "user_invite": lazy_gettext("{actor} invited {subject}"),
    "user_invite_revoke": lazy_gettext("{actor} revoked the invitation of {subject}"),
    "user_passkey": lazy_gettext("{actor} added a passkey to the user {subject}"),
    "user_passkey_copied": lazy_gettext("{actor} signed in with a passkey that may have been copied"),
    "user_passkey_gone": lazy_gettext("{actor} removed a passkey of the user {subject}"),
    "user_password": lazy_gettext("{actor} changed the password of the user {subject}"),
    "user_recovery_code": lazy_gettext("{actor} used a recovery code"),
    "user_reset_request": lazy_gettext("{actor} asked for a new password"),
    "user_role": lazy_gettext("{actor} changed the role of the user {subject}"),
    "user_second_factor": lazy_gettext("{actor} turned on two-factor authentication"),
    "user_second_factor_gone": lazy_gettext("{actor} turned off two-factor authentication of the user {subject}"),
    "user_sign_in": lazy_gettext("{actor} signed in"),
    "user_sign_in_failed": lazy_gettext("{actor} failed to sign in"),
    "user_sign_out": lazy_gettext("{actor} signed out the user {subject}"),
    "user_tenant": lazy_gettext("{actor} moved the user {subject} to another tenant"),
    "webhook.create": lazy_gettext("{actor} created the webhook {subject}"),
    "webhook.edit": lazy_gettext("{actor} edited the webhook {subject}"),
    "webhook.redeliver": lazy_gettext("{actor} delivered an event to the webhook {subject} again"),
    "webhook.remove": lazy_gettext("{actor} removed the webhook {subject}"),
    "webhook.resume": lazy_gettext("{actor} resumed the webhook {subject}"),
    "webhook.rotate": lazy_gettext("{actor} rotated the secret of the webhook {subject}"),
    "webhook.test": lazy_gettext("{actor} tested the webhook {subject}"),
}


def template_of(action: str) -> str:
    """Return the sentence of an action with its placeholders, in the language of the page."""
    if (known := SENTENCES.get(action)) is not None:
        return str(known)
    # An action of an earlier version.
    return "{actor}: " + action.replace(".", " ").replace("_", " ").replace("{", "") + " {subject}"


def actor_text(actor: str) -> str:
    """Return who acted, at the beginning of a sentence."""
    known = _ACTORS.get(actor)
    if known is not None:
        return str(known)
    text = str(describe_actor(actor))
    return f"{text[:1].upper()}{text[1:]}" if actor.partition(":")[0] in (API, CONSOLE) else text


def subject_name(entry: AuditEntry) -> str:
    """Return the name of the subject at that time or, if the entry has none, its id."""
    return str(next(filter(None, map(entry.detail.get, _NAMES)), entry.subject))


def audit_sentence(entry: AuditEntry) -> str:
    """Return an entry as a sentence in the language of the page."""
    subject = gettext("“{name}”", name=subject_name(entry))
    return template_of(entry.action).format(actor=actor_text(entry.actor), subject=subject)


def searched_words(text: str) -> list[SearchedWord]:
    """Return the words of a search, with the actions and actors that contain them in the language of the page."""
    words = filter(None, (word.strip(_MARKS) for word in text.split()))
    return [SearchedWord(word, _actions_with(word), _actors_with(word)) for word in words]


def _actions_with(word: str) -> list[str]:
    """Return the actions whose sentences contain the word, in the language of the page."""
    wanted = word.casefold()
    return [action for action, text in SENTENCES.items() if wanted in _own_words(str(text)).casefold()]


def _actors_with(word: str) -> list[str]:
    """Return the actors, except users and API keys, whose names contain the word in the language of the page."""
    wanted = word.casefold()
    return [each for each in (*_ACTORS, CONSOLE, API, f"{API}:") if wanted in actor_text(each).casefold()]


def _own_words(template: str) -> str:
    return template.replace("{actor}", "").replace("{subject}", "")
