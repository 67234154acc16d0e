"""`mailwright backup`: write a verified copy of the installation while it runs."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress, TextColumn

from mailwright.app.backups import Backup, back_up
from mailwright.cli.audit import print_identity
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, command
from mailwright.cli.output import aside, out, print_json
from mailwright.storage.backup_encryption import create_key

app = command()


@app.command()
def backup(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write, or a folder for a file named after the time.")
    ],
    encrypt_to: Annotated[
        Path | None,
        typer.Option(
            metavar="KEYFILE",
            help="Encrypt with the age or SSH keys in this file. If the file does not exist, a new key is created.",
        ),
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Keep only this many backups in the folder, and delete older ones.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Back up the database and the images while everything runs, then audit the copy.

    SQLite and PostgreSQL use the same format, so a backup of one can be restored into the other. The backup does not
    include the secret key (`MAILWRIGHT_SECRET_KEY`), the settings or the local mailbox.
    """
    if keep is not None and not file.is_dir():
        raise typer.BadParameter("--keep needs a folder as FILE.")
    if encrypt_to is not None and not encrypt_to.exists():
        create_key(encrypt_to)
        aside.print(f"Created the key {encrypt_to}. Keep a copy elsewhere. Only this key can decrypt the backup.")

    async def work(at: Installation) -> Backup:
        with Progress(TextColumn("{task.completed:,} rows"), console=aside, transient=True) as shown:
            task = shown.add_task("", total=None)
            return await back_up(
                at.settings,
                at.database,
                at.clock,
                file,
                key=encrypt_to,
                keep=keep,
                on_rows=lambda count: shown.advance(task, count),
            )

    written = run(work)
    if as_json:
        print_json(_as_json(written))
        return
    rows, size = sum(written.contents.rows.values()), written.size_bytes / 1_000_000
    out.print(f"✓ {written.file}: {rows:,} rows, {written.contents.files:,} images, {size:,.1f} MB.", soft_wrap=True)
    if written.audit is None:
        out.print("  Not audited, because only the holder of the secret key can read an encrypted backup.")
    else:
        print_identity(written.audit)
    for old in written.deleted:
        out.print(f"  Deleted {old}.", soft_wrap=True)


def _as_json(written: Backup) -> dict[str, Any]:
    return {
        "file": str(written.file),
        "bytes": written.size_bytes,
        "rows": written.contents.rows,
        "images": written.contents.files,
        "audit": None if written.audit is None else written.audit.as_dict(),
        "deleted": [str(old) for old in written.deleted],
    }
