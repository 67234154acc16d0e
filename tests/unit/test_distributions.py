"""The distributions say what they are and what they contain, and the same sources make the same files."""

import os
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from tools import manual, sbom, sizes

CHECKOUT = sbom.CHECKOUT
PROJECTS = {"mailwright": CHECKOUT, "mailwright-client": CHECKOUT / "client"}
PACKAGES = {"mailwright": "src/mailwright", "mailwright-client": "src/mailwright_client"}


def project(name: str) -> dict[str, Any]:
    text = (PROJECTS[name] / "pyproject.toml").read_text(encoding="utf-8")
    return dict(tomllib.loads(text)["project"])


@pytest.mark.parametrize("name", PROJECTS)
def test_metadata_is_complete(name: str) -> None:
    found = project(name)
    assert {"description", "readme", "requires-python", "license", "license-files", "keywords"} <= {*found}
    assert "Typing :: Typed" in found["classifiers"]
    assert found["classifiers"] == sorted(found["classifiers"])
    assert (PROJECTS[name] / PACKAGES[name] / "py.typed").is_file()
    assert (PROJECTS[name] / "LICENSE").read_text() == (CHECKOUT / "LICENSE").read_text()


@pytest.mark.parametrize("name", PROJECTS)
def test_bill_of_materials_lists_what_is_needed_at_run_time(name: str) -> None:
    bill = sbom.bill_of_materials(name, "1.2.3")
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/{name}@1.2.3"
    listed = {each["name"]: each["version"] for each in bill["components"] if each["purl"].startswith("pkg:pypi/")}
    needed = {sbom.normal_name(Requirement(line).name) for line in project(name)["dependencies"]}
    assert needed <= {*listed}
    locked = sbom.locked_versions()
    assert listed == {each: locked[each] for each in listed}
    assert not {"pytest", "ruff", "hatchling", "botocore"} & {*listed}


def test_bill_of_materials_lists_browser_packages_of_the_wheel() -> None:
    found = {each["name"] for each in sbom.bill_of_materials("mailwright", "1.2.3")["components"]}
    assert {"htmx.org", "uplot", "@codemirror/state", "@fontsource-variable/inter"} <= found
    assert not {"axe-core", "esbuild", "mailauth", "typescript"} & found
    assert "htmx.org" not in {each["name"] for each in sbom.bill_of_materials("mailwright-client", "1")["components"]}


def test_table_of_sizes_lists_each_distribution() -> None:
    installed = {sbom.normal_name(each.metadata["Name"]) for each in sbom.run_time_distributions("mailwright")}
    assert installed == {*sizes.PURPOSES}
    assert installed == sizes.listed_names(sizes.PAGE.read_text(encoding="utf-8")), "run `python -m tools.sizes`"


def test_manual_of_the_same_pages_is_the_same_file(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text("<h1>Install</h1>")
    archives = []
    for seconds in (1_000_000_000, 1_700_000_000):
        os.utime(site / "index.html", (seconds, seconds))
        archives.append(tmp_path / f"{seconds}.zip")
        manual.pack(site, archives[-1])
    assert archives[0].read_bytes() == archives[1].read_bytes()
    with zipfile.ZipFile(archives[0]) as archive:
        assert archive.read("index.html") == b"<h1>Install</h1>"
