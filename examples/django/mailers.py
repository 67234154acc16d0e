"""The same project with the setting `MAILERS`, for Django 6.1 and later.

export MAILWRIGHT_URL=http://127.0.0.1:8025 MAILWRIGHT_API_KEY=mw_…
python mailers.py sendtestemail ada@example.com
"""

import os

from django.conf import settings
from django.core.management import execute_from_command_line

settings.configure(
    MAILERS={
        "default": {
            "BACKEND": "mailwright_client.django.EmailBackend",
            "OPTIONS": {"url": os.environ["MAILWRIGHT_URL"], "api_key": os.environ["MAILWRIGHT_API_KEY"]},
        }
    },
    DEFAULT_FROM_EMAIL="Shop <shop@example.com>",
)

if __name__ == "__main__":
    execute_from_command_line()
