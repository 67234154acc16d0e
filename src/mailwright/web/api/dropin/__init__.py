"""The APIs of other email services: programs written for them send through Mailwright after a change of the base URL.

Each module reads the requests of one service and writes its responses and errors. `ApiEmails` accepts the emails.
"""

from mailwright.web.api.dropin import mailgun, postmark, resend, sendgrid, ses

ROUTERS = (sendgrid.router, ses.router, postmark.router, mailgun.router, resend.router)
