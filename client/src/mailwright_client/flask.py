"""A Flask extension: one client for the application.

    email = MailwrightExtension(app)
    email.client.email.send(models.SendRequest(to="ada@example.com", subject="Hello", text="Hello."))

Set `MAILWRIGHT_URL` and `MAILWRIGHT_API_KEY` in the configuration of the application or in the environment.
"""

import os
import threading

from flask import Flask, current_app

from mailwright_client.client import Client

NAME = "mailwright"


class MailwrightExtension:
    def __init__(self, app: Flask | None = None) -> None:
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        for setting in ("MAILWRIGHT_URL", "MAILWRIGHT_API_KEY"):
            app.config.setdefault(setting, os.environ.get(setting))
            if not app.config[setting]:
                raise RuntimeError(f"Set {setting} in the configuration of Flask or in the environment.")
        app.extensions[NAME] = _ProcessClient(app.config["MAILWRIGHT_URL"], app.config["MAILWRIGHT_API_KEY"])

    @property
    def client(self) -> Client:
        """The client of the current application. Threads share it."""
        found: _ProcessClient = current_app.extensions[NAME]
        return found.get()


class _ProcessClient:
    """Opens a client at its first use in each process, because processes that were forked cannot share connections."""

    def __init__(self, url: str, api_key: str) -> None:
        self._url = url
        self._api_key = api_key
        self._lock = threading.Lock()
        self._opened: tuple[int, Client] | None = None

    def get(self) -> Client:
        with self._lock:
            if self._opened is None or self._opened[0] != os.getpid():
                self._opened = (os.getpid(), Client(self._url, self._api_key))
            return self._opened[1]
