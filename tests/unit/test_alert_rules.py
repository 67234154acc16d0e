"""The alert rules are valid, and use only metrics that Mailwright exports."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from mailwright.ops.metrics import REGISTRY

FILE = Path(__file__).parents[2] / "deploy" / "prometheus" / "rules.yaml"
WORDS = {"and", "by", "max", "sum", "increase", "delta", "time", "job", "state", "provider", "verdict", "up"}


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(FILE.read_text(encoding="utf-8"))["groups"]
    return list(group["rules"])


def exported() -> set[str]:
    names = set[str]()
    for family in REGISTRY.collect():
        names |= {family.name, f"{family.name}_total"} if family.type == "counter" else {family.name}
    return names


def test_every_rule_says_what_to_do() -> None:
    assert len({rule["alert"] for rule in rules()}) == len(rules())
    for rule in rules():
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["action"].endswith(".")


def test_rules_use_exported_metrics_only() -> None:
    for rule in rules():
        expression = re.sub(r'"[^"]*"|\[\w+\]', "", rule["expr"])
        unknown = set(re.findall(r"[a-z_]+", expression)) - WORDS - exported()
        assert not unknown, (rule["alert"], unknown)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_the_rules() -> None:
    checked = subprocess.run(["promtool", "check", "rules", FILE], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
