"""`mailwright setup`: set up a new installation in a terminal, with the same steps as in the browser."""

import asyncio
import functools
import sys
from collections.abc import Mapping
from typing import Annotated, Final

import typer

from mailwright.access.api_keys import ApiKeys
from mailwright.access.roles import Role, Scope, parse_role
from mailwright.actions.users import account_links, users
from mailwright.app.provider_test import advice_for, check_providers
from mailwright.app.sender_dns import check_sender
from mailwright.app.setting_rules import parse_changes
from mailwright.app.setup import SetupStep, StepState, begin_brand, has_provider, has_sender, record_step
from mailwright.app.stored_settings import change_settings, load_effective
from mailwright.cli.check import print_findings
from mailwright.cli.derived import console_context
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, ask_password, command
from mailwright.cli.output import aside, out, print_json
from mailwright.content.brand_store import Brands
from mailwright.domain.errors import InvalidInput
from mailwright.domain.findings import Finding
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import Status
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.settings import Settings
from mailwright.ops.stored import SECRETS, variable_of
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.outbox.message_records import MessageSummary
from mailwright.providers.protocol import ProviderCheck
from mailwright.schemas.findings import FindingResponse
from mailwright.schemas.setup import (
    ConnectionCheckResponse,
    InvitedColleagueResponse,
    SetupEmailResponse,
    SetupResponse,
)
from mailwright.texts.sending_readiness import LOCAL_MAILBOX

app = command()

_LABELS: Final[Mapping[str, str]] = {
    "sender": "Sender name and address, for example Shop <shop@example.com>",
    "postal_address": "Postal address in newsletters",
    "provider": f"Provider ({', '.join(KINDS)})",
    **{name: question for kind in KINDS.values() for name, question in kind.questions},
}


@dataclass(frozen=True, slots=True)
class SetupResult:
    """The results of the set-up so far."""

    settings: Settings
    checks: list[ProviderCheck]
    findings: list[Finding]

    @property
    def is_connected(self) -> bool:
        return all(each.is_ok for each in self.checks)

    @property
    def is_ready(self) -> bool:
        return self.is_connected and has_sender(self.settings) and has_provider(self.settings)


@dataclass(frozen=True, slots=True)
class LastSteps:
    """The actions after the settings are stored. None skips a step."""

    key: str | None = None  # the name of an API key
    test_to: str | None = None
    colleague: str | None = None
    role: Role = Role.VIEWER


@dataclass(frozen=True, slots=True)
class LastResults:
    key: str | None = None
    email: MessageSummary | None = None
    invitation: str | None = None  # the link for the colleague


@app.command()
def setup(  # noqa: PLR0917 - one parameter for each option
    sender: Annotated[str | None, typer.Option("--from", help="Sender: `Name <address>` or an address.")] = None,
    postal_address: Annotated[str | None, typer.Option(help="Postal address in newsletters.")] = None,
    provider: Annotated[str | None, typer.Option(help=f"The provider: {', '.join(KINDS)}.")] = None,
    region: Annotated[str | None, typer.Option(help="AWS region of SES.")] = None,
    secret_from_input: Annotated[
        bool, typer.Option("--secret-stdin", help="Read the SMTP URL or the API key from standard input.")
    ] = False,
    admin: Annotated[str | None, typer.Option(help="Create this administrator. The password is prompted for.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Create an API key with this name, and print it.")] = None,
    test_to: Annotated[str | None, typer.Option(help="Send a test email to this address.")] = None,
    colleague: Annotated[str | None, typer.Option(help="Print an invitation for this email address.")] = None,
    role: Annotated[Role, typer.Option(help="The role of the colleague.")] = Role.VIEWER,
    as_json: Json = False,
) -> None:
    """Set up the installation: sender, provider, DNS records, API key, test email and users.

    Asks for everything that is missing; Enter keeps a value or skips a step. With options, or without a terminal, it
    asks nothing. The answers are stored in the database, secrets encrypted. Exit code 1 if email cannot be sent yet.
    """
    given = {"sender": sender, "postal_address": postal_address, "provider": provider, "aws_region": region}
    changes = {name: text for name, text in given.items() if text is not None}
    if secret_from_input:
        changes[_secret_of(provider)] = sys.stdin.read().strip()
    last = LastSteps(key, test_to, colleague, role)
    is_asking = not changes and last == LastSteps(role=role) and admin is None
    if is_asking and not sys.stdin.isatty():
        raise InvalidInput(
            "There is no terminal to ask questions. Pass the answers as options, for example "
            "`--from 'Shop <shop@example.com>' --provider smtp --secret-stdin`; see `mailwright setup --help`."
        )
    if is_asking:
        admin = _ask_admin()
    if admin is not None:
        _create_admin(admin)
    if is_asking:
        changes = _ask_settings(run(_current, creates=True))
    with aside.status("Testing the connection and DNS …"):
        result = run(lambda at: _apply(at, changes), creates=True)
    if not as_json:
        _print(result)
    if is_asking:
        last = _ask_last_steps(result)
    done = run(lambda at: _do_last_steps(at, result, last))
    if as_json:
        print_json(_response(result, last, done).to_dict())
    else:
        _print_last_steps(result, last, done)
    if not (result.is_ready and (done.email is None or done.email.status != Status.FAILED)):
        raise typer.Exit(NEGATIVE)


def _secret_of(provider: str | None) -> str:
    names = {kind.name: kind.stdin_setting for kind in KINDS.values() if kind.stdin_setting is not None}
    if provider not in names:
        raise InvalidInput(f"--secret-stdin needs --provider with one of {', '.join(names)}.", field="provider")
    return names[provider]


async def _current(at: Installation) -> tuple[Settings, frozenset[str]]:
    effective = await load_effective(at.settings, at.database)
    fixed = (name for name in Settings.model_fields if name in effective.settings.base.model_fields_set)
    return effective.settings, frozenset(fixed)


def _ask_admin() -> str | None:
    if run(lambda at: users(console_context(at)).has_any(), creates=True):
        return None
    return str(typer.prompt("User name of the first administrator", default="admin", err=True))


def _ask_settings(current: tuple[Settings, frozenset[str]]) -> dict[str, str]:
    settings, fixed = current
    changes: dict[str, str] = {}
    for name in ("sender", "postal_address"):
        changes |= _ask(name, settings, fixed)
    changes |= _ask("provider", settings, fixed)
    if (kind := KINDS.get(changes.get("provider", settings.provider))) is not None:
        for name, _ in kind.questions:
            changes |= _ask(name, settings, fixed, is_needed=name in kind.required)
    return changes


def _ask(name: str, settings: Settings, fixed: frozenset[str], *, is_needed: bool = False) -> dict[str, str]:
    """Ask for one value, and return it if it is new. A fixed value is only shown."""
    if name in fixed:
        aside.print(f"{variable_of(name)} is set outside of the database and stays as it is.", markup=False)
        return {}
    value = getattr(settings, name)
    is_secret = name in SECRETS
    known = "" if value is None or is_secret else str(value)
    label = _LABELS[name] + (" (set; Enter keeps it)" if is_secret and value is not None else "")
    while True:
        answer = str(typer.prompt(label, default=known, hide_input=is_secret, show_default=not is_secret, err=True))
        if answer.strip() in ("", known):
            if is_needed and value is None:
                aside.print("This value is required.")
                continue
            return {}
        if not (problems := parse_changes({name: answer.strip()})[1]):
            return {name: answer.strip()}
        aside.print(problems[0], markup=False)


def _create_admin(login: str) -> None:
    """Create the administrator. If a password is refused, ask again."""
    while True:
        password = ask_password(f"Password of {login}")
        try:
            run(functools.partial(_create_user, login, password), creates=True)
        except InvalidInput as error:
            if error.field != "password":
                raise
            aside.print(str(error), markup=False)
        else:
            return


async def _create_user(login: str, password: str, at: Installation) -> None:
    await users(console_context(at)).create(login, password, Role.ADMIN, actor=CONSOLE)


def _ask_last_steps(result: SetupResult) -> LastSteps:
    key = _ask_or_skip("Name of an API key to create, for example shop")
    test_to = _ask_or_skip("Address for a test email") if result.is_connected else None
    colleague = _ask_or_skip("Email address of a colleague")
    if colleague is None:
        return LastSteps(key, test_to)
    return LastSteps(key, test_to, colleague, _ask_role())


def _ask_role() -> Role:
    while True:
        text = str(typer.prompt(f"Role of the colleague ({', '.join(Role)})", default=Role.VIEWER.value, err=True))
        try:
            return parse_role(text.strip())
        except InvalidInput as error:
            aside.print(str(error), markup=False)


def _ask_or_skip(question: str) -> str | None:
    text = typer.prompt(f"{question} (Enter skips it)", default="", show_default=False, err=True)
    return str(text).strip() or None


async def _apply(at: Installation, changes: Mapping[str, str]) -> SetupResult:
    if changes:
        await change_settings(at.settings, at.database, at.clock, dict(changes), actor=CONSOLE)
    used = (await load_effective(at.settings, at.database)).settings
    checks, findings = await asyncio.gather(check_providers(used, at.clock), _dns(used))
    if has_sender(used):
        await record_step(at.database, SetupStep.SENDER, StepState.DONE)
        owner = await tenants.find(at.database, tenants.DEFAULT)
        await begin_brand(Brands(at.database, at.clock), owner.id, used.sender, actor=CONSOLE)
    if has_provider(used) and all(each.is_ok for each in checks):
        await record_step(at.database, SetupStep.PROVIDER, StepState.DONE)
    return SetupResult(used, checks, findings)


async def _do_last_steps(at: Installation, result: SetupResult, last: LastSteps) -> LastResults:
    key = email = invitation = None
    owner = await tenants.find(at.database, tenants.DEFAULT)
    if last.key is not None:
        key = await ApiKeys(at.database, at.clock).create(owner.id, last.key, frozenset([Scope.SEND]))
        await record_step(at.database, SetupStep.KEY, StepState.DONE)
    if last.colleague is not None:
        # Give access to all tenants only if the user chooses it, or if there is only one tenant.
        home = owner.id if len(await tenants.list_all(at.database)) > 1 else None
        links = account_links(console_context(at))
        invitation = await links.invite(last.colleague, last.role, tenant_id=home, actor=CONSOLE, sends_email=False)
        await record_step(at.database, SetupStep.TEAM, StepState.DONE)
    if last.test_to is not None and result.is_connected:
        from mailwright.app.setup_email import send_test_email  # noqa: PLC0415 - slow to import

        email = await send_test_email(at.settings, last.test_to, actor=CONSOLE)
    return LastResults(key, email, invitation)


async def _dns(settings: Settings) -> list[Finding]:
    return [each async for each in check_sender(settings)]


def _print(result: SetupResult) -> None:
    for each in result.checks:
        out.print(
            f"{'✓ Connected' if each.is_ok else '✗ Connection failed'}: {each.summary} {advice_for(each)}", markup=False
        )
    print_findings(result.findings)


def _print_last_steps(result: SetupResult, last: LastSteps, done: LastResults) -> None:
    if done.key is not None:
        out.print(f"API key, shown only once: {done.key}", markup=False, soft_wrap=True)
    if done.invitation is not None:
        words = f"Invitation for {last.colleague}, valid for seven days and shown only once: {done.invitation}"
        out.print(words, markup=False, soft_wrap=True)
    if done.email is not None:
        out.print(_email_text(done.email), markup=False)
    elif last.test_to is not None:
        out.print("No test email was sent, because the connection failed.")
    if not has_provider(result.settings):
        out.print(f"{LOCAL_MAILBOX} Choose a provider to send.", soft_wrap=True)
    elif result.is_ready:
        out.print("Ready to send. Start `mailwright serve`.")


def _email_text(email: MessageSummary) -> str:
    match email.status:
        case Status.SENT:
            return f"✓ Test email to {email.to_email} sent through {email.provider}."
        case Status.FAILED:
            return f"✗ Test email to {email.to_email} failed: {email.error_reason}"
        case _:
            hint = f"`mailwright message explain {email.outbox_id}` says when it is sent."
            return f"Test email to {email.to_email} accepted. {hint}"


def _response(result: SetupResult, last: LastSteps, done: LastResults) -> SetupResponse:
    checks = [ConnectionCheckResponse(ok=each.is_ok, summary=each.summary, code=each.code) for each in result.checks]
    link = done.invitation
    return SetupResponse(
        ready=result.is_ready,
        sender=result.settings.sender,
        provider=result.settings.provider,
        connection=checks,
        dns=[FindingResponse.model_validate(each) for each in result.findings],
        key=done.key,
        test_email=None if done.email is None else SetupEmailResponse.model_validate(done.email),
        colleague=None if link is None else InvitedColleagueResponse(email=last.colleague, link=link),
    )
