"""Submit each `.json` file of a folder.

A file is renamed after its email is stored. If the process is killed in between, the file is submitted again with the
same key, which returns the first message.
"""

import asyncio
import json
from hashlib import sha256
from pathlib import Path

from mailwright.domain.clock import Clock
from mailwright.domain.errors import ConfigurationInvalid, InvalidInput
from mailwright.ops.source_kind import Submit
from mailwright_example.dropfolder.kind import DropFolderFields


class DropFolder:
    def __init__(self, folder: Path, submit: Submit) -> None:
        self._folder = folder
        self._submit = submit

    async def poll(self) -> int:
        files = await asyncio.to_thread(lambda: sorted(self._folder.glob("*.json"))[:100])
        for file in files:
            await self._send(file)
        return len(files)

    async def _send(self, file: Path) -> None:
        text = await asyncio.to_thread(file.read_bytes)
        try:
            await self._submit(json.loads(text), key=f"{file.name}:{sha256(text).hexdigest()}")
        except (InvalidInput, ValueError):
            suffix = ".refused"
        else:
            suffix = ".sent"
        await asyncio.to_thread(file.rename, file.with_suffix(suffix))


def make_source(settings: DropFolderFields, _clock: Clock, submit: Submit) -> DropFolder:
    if settings.dropfolder_path is None:
        raise ConfigurationInvalid("DROPFOLDER_PATH: is required when MAILWRIGHT_SOURCES has dropfolder")
    return DropFolder(settings.dropfolder_path, submit)
