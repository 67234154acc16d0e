"""A Django project in one file that sends its email through Mailwright.

export MAILWRIGHT_URL=http://127.0.0.1:8025 MAILWRIGHT_API_KEY=mw_…
python project.py sendtestemail ada@example.com
"""

import os

from django.conf import settings
from django.core.management import execute_from_command_line

settings.configure(
    EMAIL_BACKEND="mailwright_client.django.EmailBackend",
    MAILWRIGHT_URL=os.environ["MAILWRIGHT_URL"],
    MAILWRIGHT_API_KEY=os.environ["MAILWRIGHT_API_KEY"],
    DEFAULT_FROM_EMAIL="Shop <shop@example.com>",
)

if __name__ == "__main__":
    execute_from_command_line()
