"""Sender domains of a tenant: DNS records, verification and DKIM keys."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from mailwright.access.roles import Forbidden, Role
from mailwright.actions.context import Context
from mailwright.actions.declaration import (
    MANAGE,
    PLATFORM_MANAGE,
    PLATFORM_READ,
    Argument,
    Aside,
    Badge,
    Line,
    Moment,
    Noun,
    Option,
    Table,
    Tone,
    time_of,
)
from mailwright.app.sender_domains import SenderDomainService
from mailwright.domain import address
from mailwright.outbox.sender_domains import SenderDomain, key_name
from mailwright.schemas.base import From, ResponseModel, Time, combine
from mailwright.sources.api.fields import Mailbox, RequestModel

_RECORD_TONES: Final[Mapping[str, Tone]] = {"ok": "good", "missing": "bad", "wrong": "bad", "unknown": "unknown"}


async def _require_every_sender(at: Context) -> None:
    """Raise if the API key is limited to senders: sender domains decide on the senders of the whole tenant."""
    if at.caller.senders is not None:
        raise Forbidden("This API key is limited to senders, so it cannot change sender domains. Use another key.")


noun = Noun(
    "domain",
    "Sender domains of a tenant: DNS records, verification and DKIM keys.",
    "/v1/domains",
    role=Role.ADMIN,
    parameters={"domain_name": ("NAME", "The domain, for example example.com.")},
    guard=_require_every_sender,
    takes_password=True,  # for tenants without a verified domain
)


class DomainRequest(RequestModel):
    """The domain to add, and the default sender for email without a sender."""

    name: Annotated[
        str, Argument("NAME"), Field(min_length=1, max_length=253, description="The domain, for example example.com.")
    ]
    sender: Annotated[
        Mailbox | None, Field(description="The default sender, for example `Example <news@example.com>`.")
    ] = None


class RestrictedTenantResponse(ResponseModel):
    tenant: Annotated[str, From("name")]
    restricted_since: Annotated[Time, From("since")]


class RestrictedTenantListResponse(ResponseModel):
    tenants: list[RestrictedTenantResponse]


class DomainRotationRequest(RequestModel):
    """With `force`, the new keys sign at once, although receivers may not find their DNS records yet."""

    force: Annotated[
        bool,
        Option("--force"),
        Field(description="Sign with the new keys at once, although their records may be missing."),
    ] = False


class DomainRecordResponse(ResponseModel):
    """A DNS record to publish, and the result of the last check.

    `detail` is a sentence. `value` is empty if only the owner of the domain can know it; `hint` then explains what to
    enter.
    """

    purpose: Literal["dkim", "spf", "dmarc", "dmarc_reports", "replies", "return_path", "tracking"]
    type: Literal["TXT", "MX", "CNAME"]
    name: str
    value: str
    hint: str
    is_required: bool
    state: Literal["ok", "missing", "wrong", "unknown"]
    detail: str


class DomainKeyResponse(ResponseModel):
    """A DKIM key. The record of a `retired` key can be deleted at `removableAt`."""

    selector: str
    name: str
    algorithm: Literal["rsa", "ed25519"]
    state: Literal["new", "active", "retired"]
    created_at: Time
    active_since: Time | None
    retired_at: Time | None
    removable_at: Time | None


class DomainResponse(ResponseModel):
    """`state`: `pending` until the DKIM records are visible, then `verified`.

    `unicodeName`: the name as people read it. `notes`: sentences, for example that another tenant has verified the
    domain, or that a record is not needed.
    """

    name: str
    unicode_name: str
    state: Literal["pending", "verified"]
    sender: str
    return_path: str | None
    is_rotating: bool
    verified_at: Time | None
    checked_at: Time | None
    created_at: Time
    records: list[DomainRecordResponse]
    notes: list[str]
    keys: list[DomainKeyResponse]


class DomainListResponse(ResponseModel):
    """`sendsNothing`: the tenant had a verified domain and has none left."""

    domains: list[DomainResponse]
    sends_nothing: bool


def _domain_lines(domain: DomainResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    state = _state(domain)
    yield Aside((state, f" {address.both_forms(domain.name)} · default sender {address.readable(domain.sender)}"), None)
    for each in domain.records:
        yield Badge(f"{each.type} {each.name}", _RECORD_TONES[each.state])
        yield from (f"  {text}" for text in (each.value, each.hint) if text)
        yield Aside(f"  {each.detail}", None)
    yield from (Aside(note, None) for note in domain.notes)
    for key in domain.keys:
        if key.state == "retired":
            yield Aside(
                (f"Keep the TXT record {key.name} until ", Moment(key.removable_at, names_zone=True), "."), None
            )


def _state(domain: DomainResponse) -> Badge:
    if _lacks_signing_records(domain):
        return Badge("verified, but DKIM records are missing or wrong", "bad")
    if domain.is_rotating:
        return Badge("verified, rotating keys", "warning")
    return Badge("verified", "good") if domain.state == "verified" else Badge("pending", "waiting")


def _lacks_signing_records(domain: DomainResponse) -> bool:
    """Whether the last check found that the record of a signing key is missing."""
    signing = {key.name for key in domain.keys if key.state == "active"}
    gone = {each.name for each in domain.records if each.purpose == "dkim" and each.state in ("missing", "wrong")}
    return domain.state == "verified" and bool(signing & gone)


def warn_if_nothing_is_sent(tenant: str, *, sends_nothing: bool) -> Iterator[Line]:
    if sends_nothing:
        yield Aside(
            f"{tenant} has no verified domain left, so it sends nothing. Verify a domain, or lift the restriction with "
            f"`mailwright domain unrestrict --tenant {tenant}`."
        )


@noun.get(
    command="list",
    shown=Table(
        "domains",
        {
            "Domain!": lambda each: address.both_forms(each.name),
            "State!": _state,
            "Checked ({zone})": time_of("checked_at"),
            "Default sender": lambda each: address.readable(each.sender),
        },
        nothing="{tenant} has no sender domains. Add one with `mailwright domain add NAME`.",
        then=lambda found, given: warn_if_nothing_is_sent(given["tenant"], sends_nothing=found.sends_nothing),
    ),
)
async def list_domains(at: Context) -> DomainListResponse:
    """List the sender domains by name, with their DNS records and DKIM keys."""
    found = [await _response(at, each) for each in await service(at).list_all(at.tenant_id)]
    return DomainListResponse(domains=found, sends_nothing=await sends_nothing(at))


@noun.post(
    scope=MANAGE,
    audit="domain.add",
    command="add",
    help="Add a domain and print the DNS records to publish. From now on the tenant sends only from verified domains.",
    shown=_domain_lines,
)
async def add(at: Context, wanted: DomainRequest) -> DomainResponse:
    """Add a domain and create its DKIM keys. From now on the tenant sends only from its verified domains."""
    return await _response(at, await service(at).add(at.tenant_id, **dict(wanted), actor=at.actor))


@noun.get("/{domainName}", command="show", shown=_domain_lines)
async def show(at: Context, domain_name: str) -> DomainResponse:
    """Show a domain with its DNS records, the result of the last check, and its DKIM keys."""
    return await _response(at, await service(at).find(at.tenant_id, domain_name))


# `domain delete` is written by hand, because it warns if the tenant sends nothing afterwards.
@noun.delete("/{domainName}", scope=MANAGE, audit="domain.delete")
async def delete(at: Context, domain_name: str) -> None:
    """Delete a domain and its keys.

    Waiting messages from it fail. If the tenant has no other verified domain, all its messages fail.
    """
    await service(at).delete(at.tenant_id, domain_name, actor=at.actor)


@noun.post(
    "/{domainName}/check",
    scope=MANAGE,
    audit="domain.verify",
    command="check",
    help="Look up the DNS records of a domain. Exit code 1 until it is verified, or if a DKIM record is gone.",
    shown=_domain_lines,
    is_negative=lambda found: found.state != "verified" or _lacks_signing_records(found),
)
async def check(at: Context, domain_name: str) -> DomainResponse:
    """Look up the DNS records now. It takes at most about ten seconds."""
    return await _response(at, await service(at).check(at.tenant_id, domain_name, actor=at.actor))


@noun.post("/{domainName}/rotate", scope=MANAGE, audit="domain.rotate", command="rotate", shown=_domain_lines)
async def rotate(at: Context, domain_name: str, wanted: DomainRotationRequest) -> DomainResponse:
    """Create new DKIM keys. The old keys sign until a check sees the records of the new ones."""
    changed = await service(at).rotate(at.tenant_id, domain_name, force=wanted.force, actor=at.actor)
    return await _response(at, changed)


@noun.get("/v1/restricted-tenants", scope=PLATFORM_READ)
async def list_restricted_tenants(at: Context) -> RestrictedTenantListResponse:
    """List the tenants that send nothing, because they had a verified sender domain and have none left."""
    return RestrictedTenantListResponse.model_validate({"tenants": await service(at).list_restricted()})


@noun.delete("/v1/restricted-tenants/{tenantName}", scope=PLATFORM_MANAGE, audit="domain.unrestrict")
async def unrestrict(at: Context, tenant_name: str) -> None:
    """Let a tenant without verified domains send again from every domain that belongs to no other tenant."""
    await service(at).unrestrict(tenant_name, actor=at.actor)


def service(at: Context) -> SenderDomainService:
    """Return the service of the server, whose senders know at once what changed, or a new one for a command."""
    return SenderDomainService(at.settings, at.database, at.clock) if at.engine is None else at.engine.sender_domains


async def sends_nothing(at: Context) -> bool:
    return at.tenant_id in {each.tenant_id for each in await service(at).list_restricted()}


async def _response(at: Context, domain: SenderDomain) -> DomainResponse:
    records, notes = await service(at).records(domain), await service(at).notes(domain)
    return combine(
        DomainResponse,
        domain,
        name=domain.domain,
        unicode_name=address.readable(domain.domain),
        records=[combine(DomainRecordResponse, each, each.record) for each in records],
        notes=notes,
        keys=[combine(DomainKeyResponse, key, name=key_name(key, domain.domain)) for key in domain.keys],
    )
