"""`mailwright audit`: check that every accepted message is accounted for, once."""

import typer

from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, command
from mailwright.cli.output import out, print_json
from mailwright.outbox.audit import Audit
from mailwright.outbox.audit import audit as count
from mailwright.schemas.audit import AuditResponse

app = command()

PLACES = ("sent", "failed", "in_doubt", "closed_unknown", "suppressed", "cancelled", "open")


@app.command()
def audit(as_json: Json = False) -> None:
    """Verify that every accepted message is accounted for. The exit code is 1 if one is missing or counted twice.

    Mailwright counted `accepted` when it accepted the messages. It counts the states now, in one snapshot.
    """

    async def work(at: Installation) -> Audit:
        return await count(at.database)

    found = run(work)
    if as_json:
        print_json(AuditResponse.model_validate(found).to_dict())
    else:
        print_identity(found)
        if found.resent_in_doubt:
            was = "was" if found.resent_in_doubt == 1 else "were"
            out.print(f"{found.resent_in_doubt:,} of these {was} in doubt and {was} resent.")
        if found.deleted:
            was = "was" if found.deleted == 1 else "were"
            out.print(f"{found.deleted:,} of these {was} deleted by retention.")
    if not found.ok:
        raise typer.Exit(NEGATIVE)


def print_identity(found: Audit) -> None:
    figures = {place: getattr(found, place) for place in PLACES}
    places = [f"{count:,} {place.replace('_', ' ')}" for place, count in figures.items() if count] or ["0"]
    shape, sign = ("[green]✓[/]", "=") if found.ok else ("[red]✗[/]", "≠")
    out.print(f"{shape} [bold]{found.accepted:,} accepted[/] {sign} {' + '.join(places)}", soft_wrap=True)
    if not found.ok:
        total = sum(figures.values())
        out.print(f"  Audit failed: {found.accepted:,} messages were accepted, {total:,} are accounted for.")
