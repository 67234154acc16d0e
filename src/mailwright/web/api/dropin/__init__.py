"""The APIs of other services: programs written for them use Mailwright after a change of the base URL.

Each module reads the requests of one service and writes its responses and errors. `ApiEmails` accepts the emails, and
`ApiEvents` the events.
"""

from mailwright.web.api.dropin import mailgun, postmark, resend, segment, sendgrid, ses

ROUTERS = (sendgrid.router, ses.router, postmark.router, mailgun.router, resend.router, segment.router)
