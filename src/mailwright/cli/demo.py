"""`mailwright demo`: a complete installation with sample data, in a separate folder."""

import asyncio
import json
import shlex
import shutil
import socket
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import uvloop
from rich.text import Text

from mailwright.actions.messages import status_badge
from mailwright.app.listening import address_of, listen
from mailwright.app.serving import serve
from mailwright.app.shutdown import Shutdown
from mailwright.app.wiring import Engine, open_engine
from mailwright.cli.audit import print_identity
from mailwright.cli.campaign_output import status, waiting
from mailwright.cli.derived import shown_value
from mailwright.cli.options import command
from mailwright.cli.output import aside, out, table, two_lines
from mailwright.demo.campaigns import DemoCampaign, campaigns_of
from mailwright.demo.sample import Sample, load_sample, settle
from mailwright.demo.sign_in import DemoSignIn, make_sign_in
from mailwright.domain.clock import Instant
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.explanation import ExplanationState, MessageExplanation
from mailwright.domain.states import Status
from mailwright.domain.tracking import TrackingMode
from mailwright.ops import logs
from mailwright.ops.settings import CONFIG_FILE, CONFIG_VARIABLE, Settings
from mailwright.outbox import message_records
from mailwright.outbox.audit import audit
from mailwright.texts.explanations import message_text

app = command()

FOLDER: Final = Path("var/demo")
CONFIG: Final = FOLDER / CONFIG_FILE


@app.command()
def demo(
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, envvar="MAILWRIGHT_PORT", help="The port; if it is in use, a free one is chosen."
        ),
    ] = 8025,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data of the previous demo.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Exit when the sample emails are sent.")] = False,
) -> None:
    """Send sample emails into a local mailbox and serve the dashboard.

    All data is in var/demo of the current folder. No email leaves this machine, and your own settings and database
    are not used.
    """
    if not keep:
        shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    # Some sample messages fail on purpose; the table shows them, so no warning is needed.
    logs.configure("ERROR", "console")
    uvloop.run(_demo(_listener(port), once=once))


def _listener(port: int) -> socket.socket:
    try:
        return listen("127.0.0.1", port)
    except ConfigurationInvalid:
        listener = listen("127.0.0.1", 0)
        aside.print(f"Port {port} is in use; the demo runs at {address_of(listener)}.")
        return listener


async def _demo(listener: socket.socket, *, once: bool) -> None:
    shutdown = Shutdown()
    shutdown.listen()
    async with open_engine(_settings(listener)) as engine, asyncio.TaskGroup() as tasks:
        sign_in = await make_sign_in(
            engine
        )  # Create the user first: password hashing needs much memory, which is free again afterwards.
        sample = await load_sample(engine)
        tasks.create_task(serve(engine, listener, shutdown, with_worker=True))
        with aside.status("Sending the sample emails …"):
            explanations = await settle(engine, sample)
        await _print(engine, sample, explanations, address_of(listener))
        _print_sign_in(sign_in, address_of(listener))
        if once:
            shutdown.request()
        else:
            out.print("Press Ctrl-C to stop.")


def _settings(listener: socket.socket) -> Settings:
    """Ignore the environment and mailwright.toml, so that the demo never uses a real provider."""
    chosen: dict[str, Any] = {
        "database_url": f"sqlite:///{FOLDER}/mailwright.db",
        "notify_database_url": f"sqlite:///{FOLDER}/seats.db",
        "mailbox": FOLDER / "mailbox",
        "images": FOLDER / "images",
        "secret_key_file": FOLDER / "mailwright.key",
        "state": FOLDER / "state",
        "provider": "mailbox",
        "sender": "Analytical Engines <shop@example.com>",
        "postal_address": "Analytical Engines Ltd, 12 Byron Street, London W1U 5HP",
        "base_url": address_of(listener),
        "tracking": TrackingMode.INDIVIDUAL,
        "require_sender_domains": False,  # No email leaves the machine, and its tenants have no domains.
    }
    # Commands that use this configuration file work on the demo's database, mailbox and queue.
    CONFIG.write_text(
        "demo = true\n"
        + "".join(
            f"{name} = {json.dumps(value if isinstance(value, bool) else str(value))}\n"
            for name, value in chosen.items()
        )
    )
    return Settings.model_construct(**chosen, demo=True)


async def _print(engine: Engine, sample: Sample, explanations: list[MessageExplanation], address: str) -> None:
    made = table("Recipient!", "Status!", "Subject and reason")
    for explanation in explanations:
        message = (await message_records.find(engine.database, explanation.outbox_id, tenant_id=None)).summary
        made.add_row(
            message.to_email,
            shown_value(status_badge(message.shown_status)),
            two_lines(message.subject, _why(message, explanation)),
        )
    out.print(made)
    _print_campaigns(await campaigns_of(engine, sample.shop), engine.clock.now())
    print_identity(await audit(engine.database))
    out.print()
    for name, text in _places(engine, explanations, address):
        out.print(Text.assemble((f"{name:<10}", "bold"), text), soft_wrap=True)
    out.print()
    out.print("[bold]Try it[/]")
    out.print(Text(_curl(sample, address)), soft_wrap=True)
    out.print()


def _print_sign_in(sign_in: DemoSignIn, address: str) -> None:
    """Print the sign-in link. The caller prints it last, so that it is easy to find."""
    out.print(Text.assemble(("Dashboard  ", "bold"), f"{address}/sign-in/link?token={sign_in.token}"), soft_wrap=True)
    if sign_in.password is not None:
        out.print(
            Text(f"           or sign in at {address} as {sign_in.login} with password {sign_in.password}"),
            soft_wrap=True,
        )


def _print_campaigns(found: list[DemoCampaign], now: Instant) -> None:
    made = table("Campaign!", "Status!", "Progress and reason")
    for each in found:
        far = f"{each.counts.sent} of {each.counts.audience} sent" if each.counts else "not started"
        made.add_row(each.campaign.name, status(each.campaign.status), two_lines(far, waiting(each.place, now) or ""))
    out.print(made)


def _why(message: message_records.MessageSummary, explanation: MessageExplanation) -> str:
    match message.status:
        case Status.SENT:
            return ""
        case Status.FAILED:
            return f"{message.error_code}: {message.error_reason}"
        case _:
            return message_text(explanation).sentence


def _places(engine: Engine, explanations: list[MessageExplanation], address: str) -> list[tuple[str, str]]:
    mailbox = engine.settings.mailbox / "new"
    program = f"{CONFIG_VARIABLE}={CONFIG} {_program()}"
    sent = [explanation.outbox_id for explanation in explanations if explanation.state is ExplanationState.SENT]
    deferred = [explanation.outbox_id for explanation in explanations if explanation.state is ExplanationState.HELD]
    return [
        ("API", f"{address} (OpenAPI: {address}/openapi.json)"),
        ("Emails", f"{mailbox}, one file each"),
        *(("Read", f"less {mailbox}/{outbox_id}.mailwright") for outbox_id in sent[:1]),
        *(("Explain", f"{program} message explain {one}") for one in (deferred or sent)[:1]),
        ("Forecast", f"{program} forecast"),
        ("Notify", f"{program} notify list"),
        ("Check", f"{program} check"),
    ]


def _program() -> str:
    """Return the command that runs this program, because it is rarely on the PATH during a demo."""
    if shutil.which("mailwright"):
        return "mailwright"
    called = Path(sys.argv[0])
    return shlex.join([str(called)] if called.name == "mailwright" else [sys.executable, "-m", "mailwright"])


def _curl(sample: Sample, address: str) -> str:
    body = """{"to": "you@example.com", "subject": "Hello", "html": "<p>It works.</p>"}"""
    return (
        f"curl {address}/v1/email/send \\\n  -H 'Authorization: Bearer {sample.key}' \\\n"
        f"  -H 'Content-Type: application/json' \\\n  -d '{body}'"
    )
