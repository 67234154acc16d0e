"""Models of sender domains, their DNS records and DKIM keys."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from mailwright.domain import address
from mailwright.domain.dkim_rotation import DomainKey
from mailwright.domain.dns_records import DnsResult
from mailwright.outbox.sender_domains import SenderDomain, key_name
from mailwright.schemas.base import ResponseModel, Time
from mailwright.sources.api.fields import Mailbox, RequestModel


class DomainRequest(RequestModel):
    """The domain to add, and the default sender for email without a sender."""

    name: Annotated[str, Field(min_length=1, max_length=253, description="example.com")]
    sender: Annotated[Mailbox | None, Field(description="Example <news@example.com>")] = None


class DomainRotationRequest(RequestModel):
    """With `force`, the new keys sign at once, although receivers may not find their DNS records yet."""

    force: bool = False


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


class RestrictedTenantResponse(ResponseModel):
    tenant: str
    restricted_since: Time


class RestrictedTenantListResponse(ResponseModel):
    tenants: list[RestrictedTenantResponse]


def domain_response(domain: SenderDomain, records: Sequence[DnsResult], notes: Sequence[str]) -> DomainResponse:
    return DomainResponse(
        name=domain.domain,
        unicode_name=address.readable(domain.domain),
        state=domain.state,
        sender=domain.sender,
        return_path=domain.return_path,
        is_rotating=domain.is_rotating,
        verified_at=domain.verified_at,
        checked_at=domain.checked_at,
        created_at=domain.created_at,
        records=[_record(each) for each in records],
        notes=list(notes),
        keys=[_key(key, domain) for key in domain.keys],
    )


def _record(result: DnsResult) -> DomainRecordResponse:
    record = result.record
    return DomainRecordResponse(
        purpose=record.purpose.value,
        type=record.type,
        name=record.name,
        value=record.value,
        hint=record.hint,
        is_required=record.is_required,
        state=result.state.value,
        detail=result.detail,
    )


def _key(key: DomainKey, domain: SenderDomain) -> DomainKeyResponse:
    return DomainKeyResponse(
        selector=key.selector,
        name=key_name(key, domain.domain),
        algorithm=key.algorithm,
        state=key.state.value,
        created_at=key.created_at,
        active_since=key.active_since,
        retired_at=key.retired_at,
        removable_at=key.removable_at,
    )
