"""A job whose errors are sent by email: MAILWRIGHT_URL=… MAILWRIGHT_API_KEY=… python job.py"""

import logging
import os

from mailwright_client.logging import EmailHandler

log = logging.getLogger("job")


def main() -> None:
    url, key = os.environ["MAILWRIGHT_URL"], os.environ["MAILWRIGHT_API_KEY"]
    handler = EmailHandler(url, key, to="ops@example.com", sender="job@example.com", subject_prefix="[job]")
    handler.setLevel(logging.ERROR)
    logging.getLogger().addHandler(handler)
    try:
        1 / 0  # noqa: B018 - the error that is reported
    except ZeroDivisionError:
        log.exception("The job failed.")


if __name__ == "__main__":
    main()
