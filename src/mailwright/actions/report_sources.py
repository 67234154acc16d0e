"""Report sources: systems that report what happened to messages, for example your own mail server."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from mailwright.actions.context import Context
from mailwright.actions.declaration import (
    PLATFORM_MANAGE,
    PLATFORM_READ,
    Argument,
    Aside,
    Line,
    Noun,
    Table,
    time_of,
)
from mailwright.events.report_sources import ReportSource, ReportSources
from mailwright.outbox import tenants
from mailwright.schemas.base import ResponseModel, Time, combine
from mailwright.sources.api.fields import Line as TextLine
from mailwright.sources.api.fields import RequestModel

noun = Noun(
    "report-source",
    "Systems that report what happened to messages, for example your own mail server.",
    "/v1/report-sources",
    reads=PLATFORM_READ,
    takes_password=True,
    parameters={"source_name": ("NAME", "The name of the source, for example postfix-1.")},
    tag="events",
)


class ReportSourceRequest(RequestModel):
    """`tenant`: it may report only about this tenant. `provider`: only about messages that this provider sent."""

    name: Annotated[TextLine, Argument("NAME"), Field(description="The name of the source, for example postfix-1.")]
    tenant: Annotated[TextLine | None, Field(description="Accept reports about this tenant only.")] = None
    provider: Annotated[
        TextLine | None,
        Field(description="Accept reports about messages of this provider only, also by its ids."),
    ] = None


class ReportSourceResponse(ResponseModel):
    name: str
    url: str
    tenant: str | None
    provider: str | None
    created_at: Time
    created_by: str
    last_used_at: Time | None


class ReportSourceSecretResponse(ReportSourceResponse):
    """`secret` is shown only once."""

    secret: str


class ReportSourceListResponse(ResponseModel):
    report_sources: list[ReportSourceResponse]


def _made(made: ReportSourceSecretResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield Aside(f"Reports go to {made.url}. The secret, shown once:", None)
    yield made.secret


@noun.get(
    command="list",
    help="List the report sources and when each was last used.",
    shown=Table(
        "report_sources",
        {
            "Name!": "name",
            "Tenant": lambda each: each.tenant or "all",
            "Provider": lambda each: each.provider or "all",
            "Last used ({zone})": time_of("last_used_at"),
        },
        nothing="There are no report sources. Create one with `mailwright report-source create NAME`.",
    ),
)
async def list_report_sources(at: Context) -> ReportSourceListResponse:
    """List the report sources by name."""
    found = [combine(ReportSourceResponse, each, url=_url(at, each)) for each in await _sources(at).list_all()]
    return ReportSourceListResponse(report_sources=found)


@noun.post(
    scope=PLATFORM_MANAGE,
    audit="report_source.create",
    command="create",
    help="Create a report source. Its URL is printed on stderr and its secret on stdout, where it is shown only once.",
    shown=_made,
)
async def create_report_source(at: Context, wanted: ReportSourceRequest) -> ReportSourceSecretResponse:
    """Create a report source. The response is the only place that shows its secret."""
    tenant_id = None if wanted.tenant is None else (await tenants.find(at.database, wanted.tenant)).id
    made, secret = await _sources(at).create(wanted.name, tenant_id=tenant_id, provider=wanted.provider, actor=at.actor)
    return combine(ReportSourceSecretResponse, made, url=_url(at, made), secret=secret)


@noun.delete(
    "/{sourceName}",
    scope=PLATFORM_MANAGE,
    audit="report_source.delete",
    command="delete",
    shown="Report source {source_name} deleted.",
)
async def delete_report_source(at: Context, source_name: str) -> None:
    """Delete a report source. Its requests are refused from now on."""
    await _sources(at).delete(source_name, actor=at.actor)


def _sources(at: Context) -> ReportSources:
    return ReportSources(at.database, at.clock)


def _url(at: Context, source: ReportSource) -> str:
    return f"{at.settings.public_url}/v1/reports/{source.name}"
