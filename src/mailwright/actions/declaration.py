"""The parts of an action's declaration. They know neither HTTP nor the terminal."""

import inspect
import re
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import field
from http import HTTPStatus
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, TypeVar, get_args, get_type_hints

from pydantic import BaseModel

from mailwright.access.roles import Role, Scope
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.schemas.base import ResponseModel
from mailwright.sources.api.fields import RequestModel

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from mailwright.actions.context import Context

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Run = TypeVar("Run", bound=Callable[..., Awaitable[Any]])
# A cell: the name of a field, or a function of the row. A `Badge`, `Moment` or `TwoLines` has its own look.
Cell = str | Callable[[Any], Any]

# The scopes of most actions.
READ: Final = Scope.READ
MANAGE: Final = Scope.MANAGE
PLATFORM_READ: Final = Scope.PLATFORM_READ
PLATFORM_MANAGE: Final = Scope.PLATFORM_MANAGE

_WITHOUT_BODY: Final = ("GET", "DELETE")
# `{email:path}` takes a value with slashes.
_PLACEHOLDER: Final = re.compile(r"\{(\w+)(?::path)?\}")
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Argument(NamedTuple):
    """Annotation: the command takes this field as an argument, named `metavar` in its help. `null` stands for null."""

    metavar: str
    null: str = ""

    def value(self, text: Any) -> Any:
        """Return the value of the field for what a user wrote."""
        return None if self.null and text == self.null else text


class Option(NamedTuple):
    """Annotation: how the command spells the option of this field, if not like the field itself.

    `default` is what the help shows as the default, if the field has none. If the command reads a file, only fields
    with this annotation are options. With a `metavar`, the option takes text; one that ends in `|none` takes `none` for
    null.
    """

    name: str = ""
    default: str = ""
    metavar: str = ""

    def value(self, text: Any) -> Any:
        """Return the value of the field for what a user wrote."""
        return None if text in ("none", ["none"]) and self.metavar.endswith("|none") else text


class LocalSetting(NamedTuple):
    """An option of commands that replaces a setting of this installation for one run."""

    setting: str
    metavar: str
    help: str
    default: str = ""  # what the help shows as the default


class FromFile:
    """Annotation: the command reads this field from a file. A field that holds an object is read as JSON."""


Tone = Literal["good", "waiting", "warning", "bad", "off", "unknown"]


class Badge(NamedTuple):
    """A state in the output: a word, never only a colour."""

    word: str
    tone: Tone
    detail: str = ""
    shape: str = ""  # the symbol before the word, if not the one of the tone


class Moment(NamedTuple):
    """A time in the output, shown in the tenant's time zone, with its name if `names_zone` is true."""

    iso: str | None
    names_zone: bool = False


class TwoLines(NamedTuple):
    """A cell with a main line and a second, less important one."""

    first: Any
    second: Any


def time_of(name: str) -> Callable[[Any], Moment]:
    """Return the cell of a field that holds a time."""
    return lambda row: Moment(getattr(row, name))


class Table(NamedTuple):
    """The rows in a field of the result. A title ending in # is numeric, one ending in ! does not wrap."""

    rows: str
    columns: Mapping[str, Cell]
    nothing: str  # shown if there are no rows; may name {tenant}
    then: "Callable[[Any, Mapping[str, Any]], Iterable[Line]] | None" = None  # the lines below the table


class TableOf(NamedTuple):
    """A table of another object than the result, for example of one of its rows."""

    table: Table
    of: Any


class Details(NamedTuple):
    """One object, a line per field."""

    lines: Mapping[str, Cell]


class Aside(NamedTuple):
    """A line for people only. A command prints it on stderr, so that stdout holds just the result."""

    text: str | tuple[Any, ...]
    tone: Tone | None = "warning"


# A tuple holds the parts of a sentence, for example a `Moment`.
Line = str | tuple[Any, ...] | Aside | Badge | Details | Table | TableOf
# What a command prints: a sentence with fields of the result and of the input, or lines made from the result.
Shown = str | Table | Details | Callable[[Any, Mapping[str, Any]], Iterable[Line]]


class FileBody(NamedTuple):
    """The body of a request is a file, which the function takes as `file`. A command takes its path."""

    media_types: tuple[str, ...]
    help: str = ""
    max_bytes: int | None = None  # A form can bring it, too. None: the file is read as it arrives.


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that a request or a command brings."""

    name: str
    parts: AsyncIterator[bytes]

    async def read(self) -> bytes:
        return b"".join([part async for part in self.parts])


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A file as the result of an action. Without a name, browsers name it after the address."""

    media_type: ClassVar[str]

    parts: AsyncIterable[bytes | str]
    name: str = ""


class CsvFile(ResultFile):
    """A file of comma-separated values."""

    media_type = "text/csv"


class JsonLinesFile(ResultFile):
    """A file with a JSON object on each line."""

    media_type = "application/jsonl"


async def one_part(content: bytes) -> AsyncIterator[bytes]:
    """Yield a file that is in memory."""
    yield content


class OtherStatus(NamedTuple):
    """Another HTTP status, for some results of an action."""

    status: HTTPStatus
    applies: Callable[[Any], bool]


class AgentTool(NamedTuple):
    """An action that AI agents can call, under this name. The description is written for them."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class DeclaredAction:
    noun: "Noun"
    run: Callable[..., Awaitable[Any]]
    method: Method
    path: str  # the whole path, with placeholders such as {listKey}
    scope: Scope
    role: Role
    status: HTTPStatus
    other_status: OtherStatus | None
    audit: str | None  # the verb in the audit log, if the action changes something
    command: str | None  # the words after the noun; empty: the noun is the command; None: no command
    spans_tenants: bool  # whether its command without --tenant works on all tenants
    help: str  # of the command, if it says more than the description
    question: str | None  # asked by commands before they run the action
    file: str | None  # the help of --file, from which the command reads the input as JSON; None: it reads no file
    shown: Shown
    is_negative: Callable[[Any], bool]  # whether the command ends with the exit code 1, although it worked
    agent: AgentTool | None
    command_defaults: Mapping[str, Any]  # the defaults of a command that differ from those of the API
    parameters: Mapping[str, Any]  # arguments of `run` that stand in the path, and their types
    conflicts: bool  # whether the state of an object can prevent the action
    input: type[BaseModel] | None
    query: type[RequestModel] | None  # the query parameters of a request that can also have a body
    result: type[ResponseModel] | None  # None: no result, a file, or a dict of any form
    file_body: FileBody | None
    media_types: tuple[str, ...]  # the formats of the file that is the result; empty: it is no file
    deprecated: bool  # whether another action has taken its place
    csv: "DeclaredAction | None"  # makes the file that the command writes with --csv

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def description(self) -> str:
        return inspect.getdoc(self.run) or ""

    @property
    def has_body(self) -> bool:
        return self.input is not None and self.method not in _WITHOUT_BODY and self.file_body is None

    @property
    def fields(self) -> "dict[str, FieldInfo]":
        """The fields that a command takes as arguments and options."""
        return {
            name: field for model in (self.input, self.query) if model for name, field in model.model_fields.items()
        }

    def status_of(self, result: Any) -> HTTPStatus:
        is_other = self.other_status is not None and self.other_status.applies(result)
        return self.other_status.status if self.other_status is not None and is_other else self.status

    @property
    def is_platform(self) -> bool:
        """Whether the action manages the installation, and not the data of a tenant."""
        return self.scope.is_platform

    @property
    def finds_tenant(self) -> bool:
        """Whether the action itself finds the tenant, so that a command needs no --tenant."""
        return self.noun.has_one_tenant or (self.noun.has_unique_ids and bool(self.parameters))

    def url(self, values: Mapping[str, Any]) -> str:
        """Return the path with quoted values for its placeholders."""
        from urllib.parse import quote  # noqa: PLC0415 - only remote commands need it

        return _PLACEHOLDER.sub(lambda found: quote(str(values[snake_case(found[1])]), safe=""), self.path)


@dataclass(frozen=True, slots=True)
class Noun:
    """A subject with its actions: `mailwright list …` and `/v1/lists`."""

    command: str
    summary: str
    path: str
    # The role that signed-in users need. For changes, they also need the scope of the action.
    role: Role = Role.VIEWER
    # The scope of actions that change nothing.
    reads: Scope = READ
    # Whether the password in `ADMIN_PASSWORD` can take the place of a platform key.
    takes_password: bool = False
    # The help of each path parameter of commands, after the word that names it there.
    parameters: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # Whether ids are unique in the whole installation, and not only within a tenant.
    has_unique_ids: bool = False
    # Whether all such objects belong to one tenant, which the settings name.
    has_one_tenant: bool = False
    # The options of its commands that replace settings of this installation.
    local_settings: Mapping[str, LocalSetting] = field(default_factory=dict)
    # Finds the one tenant, or the tenant of the object in the path of the context, so that a command works for it.
    find_owner: "Callable[[Context], Awaitable[int]] | None" = None
    # Whether the body of a request is read without conversions: the text "5" is not a number.
    is_strict: bool = False
    # Whether times without a time zone are in the tenant's. Otherwise they are errors.
    takes_local_times: bool = False
    # The help of each group of commands, for example `in-doubt` for the command `in-doubt list`.
    groups: Mapping[str, str] = field(default_factory=dict)
    # The group of its routes in the API description, if not the last part of the path.
    tag: str = ""
    # Raises if the API key may not change such objects, because it is limited to senders. Routes ask it first.
    guard: "Callable[[Context], Awaitable[None]] | None" = None
    actions: list[DeclaredAction] = field(default_factory=list)

    def find(self, run: Callable[..., Awaitable[Any]]) -> DeclaredAction:
        """Return the declaration of a function, for a command that is written by hand."""
        return next(action for action in self.actions if action.run is run)

    def get(self, path: str = "", **declared: Any) -> Callable[[Run], Run]:
        return self._declare("GET", path, HTTPStatus.OK, **{"scope": self.reads, "audit": None, **declared})

    def post(self, path: str = "", *, status: HTTPStatus | None = None, **declared: Any) -> Callable[[Run], Run]:
        """Declare a POST. One to the path of the noun creates an object."""
        return self._declare("POST", path, status or (HTTPStatus.OK if path else HTTPStatus.CREATED), **declared)

    def put(self, path: str = "", *, status: HTTPStatus = HTTPStatus.OK, **declared: Any) -> Callable[[Run], Run]:
        return self._declare("PUT", path, status, **declared)

    def patch(self, path: str = "", **declared: Any) -> Callable[[Run], Run]:
        return self._declare("PATCH", path, HTTPStatus.OK, **declared)

    def delete(self, path: str = "", **declared: Any) -> Callable[[Run], Run]:
        return self._declare("DELETE", path, HTTPStatus.OK, **declared)

    def _declare(
        self,
        method: Method,
        path: str,
        status: HTTPStatus,
        *,
        scope: Scope,
        audit: str | None,
        role: Role | None = None,
        other_status: OtherStatus | None = None,
        command: str | None = None,
        spans_tenants: bool = False,
        help: str = "",  # noqa: A002 - the name that Typer uses
        question: str | None = None,
        file: str | None = None,
        shown: Shown = "",
        is_negative: Callable[[Any], bool] = lambda _result: False,
        agent: AgentTool | None = None,
        conflicts: bool = False,
        command_defaults: Mapping[str, Any] | None = None,
        body: FileBody | None = None,
        csv: Callable[..., Awaitable[CsvFile]] | None = None,
        deprecated: bool = False,
    ) -> Callable[[Run], Run]:
        """Declare an action. Python refuses a declaration without `scope` and `audit` when its module is imported.

        A path that begins with `/v1/` is complete; others follow the path of the noun. The argument `query` of a
        function holds query parameters. The arguments are those of the path, then `file`, then the input.
        """

        def declare(run: Run) -> Run:
            hints = get_type_hints(run, include_extras=False)
            _, *names = signature = inspect.signature(run).parameters  # The first one is the context.
            models = {name: hints[name] for name in names if _is_model(hints[name], BaseModel)}
            query = models.pop("query", None) if method not in _WITHOUT_BODY and body is None else None
            inputs = list(models.values())
            result = hints["return"] if _is_model(hints["return"], ResponseModel) else None
            placeholders = [snake_case(name) for name in _PLACEHOLDER.findall(path)]
            parameters = {
                name: signature[name].annotation
                for name in names
                if not _is_model(hints[name], BaseModel) and hints[name] is not Upload
            }
            takes_file = Upload in hints.values()
            if sorted(parameters) != sorted(placeholders) or len(inputs) > 1 or takes_file is (body is None):
                raise TypeError(
                    f"{run.__qualname__} must take the placeholders of {path!r}, its file and at most one input."
                )
            action = DeclaredAction(
                noun=self,
                run=run,
                method=method,
                path=path if path.startswith("/v1/") else f"{self.path}{path}",
                scope=scope,
                role=Role.ADMIN if scope.is_platform else role or self.role,
                status=HTTPStatus.NO_CONTENT if hints["return"] is NoneType else status,
                other_status=other_status,
                audit=audit,
                command=command,
                spans_tenants=spans_tenants,
                help=help,
                question=question,
                file=file,
                shown=shown,
                is_negative=is_negative,
                agent=agent,
                command_defaults=command_defaults or {},
                parameters=parameters,
                conflicts=conflicts or audit is not None,
                input=inputs[0] if inputs else None,
                query=query,
                result=result,
                file_body=body,
                media_types=_media_types(hints["return"]),
                deprecated=deprecated,
                csv=None if csv is None else self.find(csv),
            )
            self.actions.append(action)
            return run

        return declare


def snake_case(name: str) -> str:
    return _CAPITAL.sub("_", name).lower()


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return "".join([first, *(word.capitalize() for word in rest)])


def _media_types(result: Any) -> tuple[str, ...]:
    kinds = get_args(result) if isinstance(result, UnionType) else (result,)
    return tuple(kind.media_type for kind in kinds if _is_model(kind, ResultFile))


def _is_model(hint: Any, model: type) -> bool:
    return isinstance(hint, type) and issubclass(hint, model)
