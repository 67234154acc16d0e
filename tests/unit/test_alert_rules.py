"""The alert rules are valid, and use only metrics that Mailwright exports."""

import itertools
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from mailwright.ops.metrics import REGISTRY

FILE = Path(__file__).parents[2] / "deploy" / "prometheus" / "rules.yaml"
WORDS = {"and", "on", "by", "max", "sum", "increase", "delta", "time", "job", "state", "provider", "verdict", "up"}


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


def test_both_sides_of_and_have_the_same_labels() -> None:
    """Prometheus drops a result without an equal label set on the other side."""
    for rule in rules():
        for left, right in itertools.pairwise(rule["expr"].split(" and ")):
            aggregated = left.startswith("sum(") and right.startswith("sum(")
            assert aggregated or right.startswith("on (job) sum by (job) ("), rule["alert"]


def test_value_in_a_summary_is_the_measured_one() -> None:
    """`and` returns its left side, so a mere condition there would become the value of the alert."""
    for rule in rules():
        assert not re.match(r"\w+ > 0 and ", rule["expr"]), rule["alert"]


def test_missing_backup_has_an_alert() -> None:
    assert any(rule["expr"].endswith("(mailwright_last_backup_timestamp_seconds) == 0") for rule in rules())


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_the_rules() -> None:
    checked = subprocess.run(["promtool", "check", "rules", FILE], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
