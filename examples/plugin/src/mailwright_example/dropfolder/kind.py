"""The `dropfolder` source: its settings and how often it looks."""

from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from mailwright.ops.plugins import PLUGIN_API
from mailwright.ops.source_kind import SourceKind, SourceSettings


class DropFolderFields(SourceSettings):
    dropfolder_path: Annotated[
        Path | None, Field(alias="DROPFOLDER_PATH", description="Folder whose .json files are sent.")
    ] = None


KIND: Final = SourceKind(
    name="dropfolder",
    package=__package__,
    plugin_api=PLUGIN_API,
    label="Drop folder",
    fields=DropFolderFields,
    poll_seconds=2.0,
)
