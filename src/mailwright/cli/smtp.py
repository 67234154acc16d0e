"""`mailwright smtp`: accept email over SMTP in a separate process."""

from mailwright.cli.opening import settings_for_service
from mailwright.cli.options import Processes, command
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.ops.paused_collection import paused_collection
from mailwright.ops.settings import Settings

app = command()


@app.command()
def smtp(processes: Processes = 1) -> None:
    """Accept email over SMTP until stopped, on MAILWRIGHT_SMTP_LISTEN and MAILWRIGHT_SMTP_LISTEN_TLS.

    `mailwright serve` also accepts email over SMTP, in the same process as the API. Clients sign in with the user
    `apikey` and an API key as password. This command only accepts email; workers in other processes send it.

    SIGTERM or Ctrl-C starts a graceful shutdown: clients whose email is being stored get their reply, and the exit code
    is 0.
    """
    settings = settings_for_service()
    if settings.smtp_listen is None and settings.smtp_listen_tls is None:
        raise ConfigurationInvalid("MAILWRIGHT_SMTP_LISTEN: set it to host:port, for example 127.0.0.1:2525")
    if processes != 1:
        from mailwright.app.supervisor import ProcessGroup, core_count, supervise  # noqa: PLC0415 - only for several

        group = ProcessGroup(["smtp"], processes or core_count(), sends=False)
        raise SystemExit(supervise(group, settings))
    import uvloop  # noqa: PLC0415 - a supervisor does not need it

    uvloop.run(_accept(settings))


async def _accept(settings: Settings) -> None:
    # A supervisor does not need these, and they take most of the memory of a process.
    with paused_collection():
        from mailwright.app.serving import accept_over_smtp  # noqa: PLC0415
        from mailwright.app.shutdown import Shutdown  # noqa: PLC0415
        from mailwright.app.submission import open_submission  # noqa: PLC0415
        from mailwright.app.wiring import open_engine  # noqa: PLC0415

    shutdown = Shutdown()
    shutdown.listen()
    sockets = open_submission(settings)
    if sockets is not None:
        async with open_engine(settings) as engine:
            await accept_over_smtp(engine, sockets, shutdown)
