"""The APIs of other services: programs written for them use Mailwright after a change of the base URL.

Each module reads the requests of one service and writes its responses and errors. `ApiEmails` accepts the emails, and
`ApiEvents` the events.
"""

from mailwright.web.api.dropin import (
    mailgun,
    mailgun_events,
    mailgun_suppressions,
    postmark,
    postmark_suppressions,
    resend,
    segment,
    sendgrid,
    sendgrid_suppressions,
    ses,
    ses_suppressions,
)

# A path such as /v3/suppression/bounces is one of SendGrid, and would match one of Mailgun.
ROUTERS = (
    sendgrid.router,
    sendgrid_suppressions.router,
    ses.router,
    ses_suppressions.router,
    postmark.router,
    postmark_suppressions.router,
    mailgun.router,
    mailgun_events.router,
    mailgun_suppressions.router,
    resend.router,
    segment.router,
)
