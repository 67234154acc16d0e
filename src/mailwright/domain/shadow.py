"""The result that an email would have had in Mailwright, for email that shadow mode passed on."""

from enum import StrEnum


class ShadowFinding(StrEnum):
    SUPPRESSED = "suppressed"  # the recipient is on the suppression list
    DUPLICATE = "duplicate"  # the same email was already accepted for this recipient
    DEFERRED = "deferred"  # a limit was used up, or the email has a send time
    MISALIGNED = "misaligned"  # neither return path nor DKIM match From, or From is not a domain of the installation
    REFUSED = "refused"  # Mailwright accepts no such email


class SmtpMode(StrEnum):
    DELIVER = "deliver"  # store email in the outbox and send it
    SHADOW = "shadow"  # pass email on to a relay and only report
