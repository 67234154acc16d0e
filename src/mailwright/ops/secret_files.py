"""Read secret settings from files: `NAME_FILE` is the path of a file with the value of `NAME`.

Containers, Kubernetes and systemd pass secrets as files, because every process of the same user can read environment
variables.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo

SUFFIX: Final = "_FILE"
# Marks a setting that is not a SecretStr but can contain a password.
HAS_PASSWORD: Final = {"has_password": True}
_MAX_BYTES: Final = 64 * 1024


def file_variables(fields: Mapping[str, FieldInfo]) -> dict[str, str]:
    """Return the variable that names a file with the value, for each secret setting.

    A setting that has this name already, such as `MAILWRIGHT_SECRET_KEY_FILE`, keeps its own meaning.
    """
    settings = {str(field.alias): field for field in fields.values()}
    secret = (setting for setting, field in settings.items() if _is_secret(field))
    return {setting: f"{setting}{SUFFIX}" for setting in secret if f"{setting}{SUFFIX}" not in settings}


def secret_values(fields: Mapping[str, FieldInfo]) -> dict[str, str]:
    """Return the settings whose files can be read, by their variable."""
    return {setting: value for setting, _, value, problem in _given_secrets(fields) if problem is None}


def secret_problems(fields: Mapping[str, FieldInfo]) -> list[str]:
    """Return an error for each file that cannot be used."""
    return [f"{variable}: {problem}" for _, variable, _, problem in _given_secrets(fields) if problem is not None]


def _given_secrets(fields: Mapping[str, FieldInfo]) -> Iterator[tuple[str, str, str, str | None]]:
    environment = {name.upper(): value for name, value in os.environ.items() if value}
    if not any(name.endswith(SUFFIX) for name in environment):
        return
    for setting, variable in file_variables(fields).items():
        if variable not in environment:
            continue
        if setting in environment:
            yield setting, variable, "", f"{setting} is set too; remove one of them"
            continue
        value, problem = _read(Path(environment[variable]))
        yield setting, variable, value, problem


def _read(file: Path) -> tuple[str, str | None]:
    """Return the content without the line end that editors and `echo` add, and the problem, if there is one."""
    try:
        # A secret can come from a pipe, so its size is known only after reading it.
        with file.open("rb") as opened:
            content = opened.read(_MAX_BYTES + 1)
        value = content.decode().rstrip("\r\n")
    except FileNotFoundError:
        return "", f"the file {file} does not exist"
    except UnicodeDecodeError:
        return "", f"the file {file} is not UTF-8 text"
    except OSError as error:
        return "", f"the file {file} cannot be read: {error.strerror or error}"
    if len(content) > _MAX_BYTES:
        return "", f"the file {file} is larger than {_MAX_BYTES // 1024} KB; it must contain the value only"
    if not value.strip():
        return "", f"the file {file} is empty"
    return value, None


def _is_secret(field: FieldInfo) -> bool:
    return field.json_schema_extra == HAS_PASSWORD or holds_secret(field.annotation)


def holds_secret(annotation: Any) -> bool:
    return annotation is SecretStr or any(holds_secret(part) for part in get_args(annotation))
