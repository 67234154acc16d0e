"""List what a distribution needs at run time, and the browser packages inside it, in the CycloneDX format.

The versions are those of `requirements.lock`, which the tests run with, and of `package-lock.json`.
"""

import json
import re
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement

CHECKOUT: Final = Path(__file__).resolve().parent.parent
BROWSER_LOCK: Final = CHECKOUT / "tools/assets/package-lock.json"
_PINNED: Final = re.compile(r"^([a-z0-9-]+)(?:\[.*\])?==(\S+)", re.MULTILINE)


def bill_of_materials(name: str, version: str) -> dict[str, Any]:
    """Return the document of one of the two distributions."""
    components = [_python_component(each) for each in run_time_distributions(name)]
    if name == "mailwright":
        components += browser_components()
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _component("application", name, version, "pypi", licences=["Apache-2.0"])},
        "components": sorted(components, key=lambda each: each["purl"]),
    }


def run_time_distributions(name: str) -> list[Distribution]:
    """Return what the distribution needs without extras, and what that needs."""
    found: dict[str, Distribution] = {}
    waiting = _required(distribution(name), "")
    while waiting:
        needed, extras = waiting.pop()
        if needed not in found:
            found[needed] = distribution(needed)
            for extra in ("", *extras):
                waiting += _required(found[needed], extra)
    return [found[each] for each in sorted(found)]


def normal_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked_versions() -> dict[str, str]:
    text = (CHECKOUT / "requirements.lock").read_text(encoding="utf-8")
    return dict(_PINNED.findall(text))


def browser_components() -> list[dict[str, Any]]:
    """Return the npm packages whose code is in the wheel."""
    packages = json.loads(BROWSER_LOCK.read_text(encoding="utf-8"))["packages"]
    return [
        _component("library", name, each["version"], "npm", licences=[each["license"]] if "license" in each else [])
        for path, each in packages.items()
        if (name := path.rpartition("node_modules/")[2]) and not each.get("dev")
    ]


def _required(needing: Distribution, extra: str) -> list[tuple[str, set[str]]]:
    needed = [Requirement(line) for line in needing.requires or []]
    return [
        (normal_name(each.name), each.extras)
        for each in needed
        if each.marker is None or each.marker.evaluate({"extra": extra})
    ]


def _python_component(found: Distribution) -> dict[str, Any]:
    name = normal_name(found.metadata["Name"])
    licence = found.metadata.get("License-Expression")
    return _component("library", name, locked_versions()[name], "pypi", licences=[licence] if licence else [])


def _component(kind: str, name: str, version: str, registry: str, *, licences: list[str]) -> dict[str, Any]:
    purl = f"pkg:{registry}/{name.replace('@', '%40')}@{version}"
    found = {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return found | ({"licenses": [{"expression": each} for each in licences]} if licences else {})
