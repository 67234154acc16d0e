"""Sample data of AmazonSender: its environment, its table in Notion and its unsubscribe links."""

import hashlib
import hmac
from base64 import urlsafe_b64encode
from typing import Any

SECRET = "a-secret-of-amazonsender"
SHARED_SECRET = "a-shared-secret-of-amazonsender"

# The table that its manual describes: the title is the subject.
COLUMNS: dict[str, Any] = {
    "Name": "title",
    "Status": ("status", ("Not started", "Send", "Send real", "Reset", "In progress", "Done")),
    "Test": "checkbox",
    "Sent At": "date",
    "Sent Count": "number",
    "Delivered Count": "number",
    "Failed Count": "number",
    "Bounce Rate": "number",
    "Unsub Rate": "number",
}


def old_link(email: str, secret: str = SECRET) -> str:
    """Return the path of an unsubscribe link in an email of AmazonSender."""
    payload = _encoded(email.lower().encode())
    return f"/unsubscribe?token={payload}.{_encoded(hmac.digest(secret.encode(), payload.encode(), hashlib.sha256))}"


def old_environment(*, notion_token: str, mailouts: str, errors: str, supabase_url: str, supabase_key: str) -> str:
    """Return a `.env` like the documented example, filled in."""
    return f"""# Server
PORT=3000
APP_BASE_URL=https://news.example.com

# Notion
NOTION_API_TOKEN={notion_token}
NOTION_DB_MAILOUTS_ID={mailouts}
NOTION_DB_ERRORS_ID={errors}
NOTION_WEBHOOK_VERIFICATION_TOKEN=
NOTION_POLL_INTERVAL=3000
NOTION_TRIGGER_STATUS_VALUE=Send
NOTION_TRIGGER_STATUS_REAL_VALUE=Send real
NOTION_TRIGGER_STATUS_RESET_VALUE=Reset
NOTION_STATUS_IN_PROGRESS_VALUE=In progress
NOTION_STATUS_NOT_STARTED_VALUE=Not started
NOTION_SUBJECT_PROP=Name
NOTION_STATUS_PROP=Status
NOTION_STATUS_SENT_VALUE=Done
NOTION_STATUS_FAILED_VALUE=Done
NOTION_TEST_PROP=Test
NOTION_SENT_AT_PROP=Sent At
NOTION_SENT_COUNT_PROP=Sent Count
NOTION_ERROR_TITLE_PROP=Name

# Supabase
SUPABASE_URL={supabase_url}
SUPABASE_SERVICE_ROLE_KEY={supabase_key}

# AWS SES
SES_FROM_EMAIL=news@example.com
FROM_NAME=Example News
REPLY_TO_EMAIL=

# Sending
RATE_LIMIT_PER_SEC=50
BATCH_SIZE=50
TEST_EMAILS=tester@example.com
DRY_RUN_SEND=false

# Footer / Unsubscribe
ORG_NAME=Example Org
ORG_ADDRESS=1 Example Street
UNSUBSCRIBE_BASE_URL=https://news.example.com/unsubscribe
UNSUBSCRIBE_SECRET={SECRET}

# Optional
FOOTER_HTML=<p>You wrote to us, {{{{name}}}}.</p>
FOOTER_TEXT=
CSV_OUTPUT_DIR=./out
LOG_LEVEL=info
EXECUTOR_SHARED_SECRET={SHARED_SECRET}
MACOS_NOTIFICATIONS=false
"""


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
