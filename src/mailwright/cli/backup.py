"""`mailwright backup`: write a verified copy of the installation while it runs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, TextColumn

from mailwright.app.backups import Backup, back_up
from mailwright.cli.audit import print_identity
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, command
from mailwright.cli.output import aside, out, print_json
from mailwright.domain.sizes import size_text
from mailwright.schemas.backups import backup_response
from mailwright.storage.backup_encryption import create_key

app = command()


@app.command()
def backup(  # noqa: PLR0917 - one parameter for each option
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="The file to write, or a folder for a file named after the time.",
        ),
    ],
    encrypt_to: Annotated[
        Path | None,
        typer.Option(
            metavar="KEYFILE",
            help="Encrypt with the age or SSH keys in this file.",
        ),
    ] = None,
    new_key: Annotated[
        bool, typer.Option("--new-key", help="Create KEYFILE with a new key first. Keep a copy of it elsewhere.")
    ] = False,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Keep only this many backups in the folder. Creates the folder.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing backup.")] = False,
    as_json: Json = False,
) -> None:
    """Back up the database and the images while everything runs, then audit the copy.

    SQLite and PostgreSQL use the same format, so a backup of one can be restored into the other. The backup does not
    include the secret key (`MAILWRIGHT_SECRET_KEY`), the settings or the local mailbox.
    """
    if keep is not None:
        _prepare_folder(file)
    _prepare_key(encrypt_to, new_key=new_key)

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
                force=force,
                on_rows=lambda count: shown.advance(task, count),
            )

    written = run(work)
    if as_json:
        print_json(backup_response(written).to_dict())
        return
    rows, size = sum(written.contents.rows.values()), size_text(written.size_bytes)
    out.print(f"✓ {written.file}: {rows:,} rows, {written.contents.files:,} images, {size}.", soft_wrap=True)
    if written.audit is None:
        out.print("  Not audited, because only the holder of the secret key can read an encrypted backup.")
    else:
        print_identity(written.audit)
    for old in written.deleted:
        out.print(f"  Deleted {old}.", soft_wrap=True)


def _prepare_folder(folder: Path) -> None:
    """Create the folder, but not its parent: a missing parent may be a disk that is not mounted."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError as error:
        raise typer.BadParameter("--keep needs a folder as FILE.") from error
    except OSError as error:
        raise typer.BadParameter(f"The folder {folder} cannot be created ({error.strerror}).") from error


def _prepare_key(file: Path | None, *, new_key: bool) -> None:
    if file is None:
        if new_key:
            raise typer.BadParameter("--new-key needs --encrypt-to KEYFILE.")
        return
    if new_key and file.exists():
        raise typer.BadParameter(f"The key {file} exists. Leave out --new-key to use it, or choose another name.")
    if new_key:
        create_key(file)
        aside.print(f"Created the key {file}. Keep a copy elsewhere: only it can decrypt the backup.")
    elif not file.exists():
        raise typer.BadParameter(f"There is no key {file}. Correct the name, or create a key with --new-key.")
