"""The declaration of a source that a plugin adds, for example one that reads orders from a folder and submits email.

`MAILWRIGHT_SOURCES` switches a source on. A source that is not named there is not imported.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from mailwright.domain.lazy_dataclass import dataclass

if TYPE_CHECKING:
    # A type checker sees the settings of one source together with those of the installation.
    from mailwright.ops.settings import Settings as _Base
else:
    _Base = object


class SourceSettings(_Base):
    """The settings of one kind of source, with pydantic annotations. They become fields of `Settings`."""


class Submit(Protocol):
    """Accepts an email by the same rules as `POST /v1/email`, and returns the ID of the message.

    When it returns, the message is stored durably. With the same key, an email is accepted once, however often it is
    submitted. Raises `InvalidInput` if the email can never be accepted; after other errors, the source tries later.
    """

    async def __call__(self, email: Mapping[str, Any], *, key: str) -> str: ...


class PolledSource(Protocol):
    async def poll(self) -> int:
        """Submit what is there, at most a batch, and return how many items were processed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKind:
    """A kind of source. The module `source` of `package` has `make_source(settings, clock, submit)`.

    Several processes may poll the same source, so an item has a key that does not change.
    """

    name: str
    package: str
    label: str
    fields: type | None = None  # A subclass of `SourceSettings`.
    poll_seconds: float = 5.0  # The pause if nothing was there.
    retry_seconds: float = 1.0  # The pause after the first failure. It doubles up to `max_retry_seconds`.
    max_retry_seconds: float = 300.0
    plugin_api: int | None = None  # `PLUGIN_API` of `ops/plugins.py`.

    def load_source(self) -> Any:
        return import_module(f"{self.package}.source")
