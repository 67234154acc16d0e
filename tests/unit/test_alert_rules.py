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
WORDS = {
    "and",
    "on",
    "by",
    "max",
    "sum",
    "increase",
    "delta",
    "time",
    "job",
    "state",
    "provider",
    "verdict",
    "host",
    "up",
}


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
            assert aggregated or re.match(r"on \((job|job, provider)\) sum by \(\1\) \(", right), rule["alert"]


def test_value_in_a_summary_is_the_measured_one() -> None:
    """`and` returns its left side, so a mere condition there would become the value of the alert."""
    for rule in rules():
        assert not re.match(r"\w+ > 0 and ", rule["expr"]), rule["alert"]


def test_missing_backup_has_an_alert() -> None:
    assert any(rule["expr"].endswith("(mailwright_last_backup_timestamp_seconds) == 0") for rule in rules())


# The values of a healthy installation, by metric. Times count from 0, where the test begins.
HEALTHY = {
    "up": "1",
    "mailwright_sending_held": "0",
    "mailwright_replica_used": "1",
    "mailwright_replica_lag_seconds": "0.2",
    "mailwright_workers": "2",
    "mailwright_oldest_due_age_seconds": "3",
    "mailwright_disk_free_bytes": "50000000000",
    "mailwright_database_growth_bytes_per_day": "100000000",
    "mailwright_clock_skew_seconds": "0.1",
    "mailwright_certificate_expiry_timestamp_seconds": "7776000",
    'mailwright_https_certificate_expiry_timestamp_seconds{host="mail.example.com"}': "7776000",
    "mailwright_last_backup_timestamp_seconds": "172000",
    'mailwright_last_report_timestamp_seconds{provider="ses"}': "172000",
    'mailwright_provider_sent_total{provider="ses"}': "0+100",
    # A provider of a tenant that reports nothing, and that sends almost nothing.
    'mailwright_last_report_timestamp_seconds{provider="acme"}': "0",
    'mailwright_provider_sent_total{provider="acme"}': "7",
    'pipeline_final_state_total{state="SENT"}': "0+100",
    'pipeline_final_state_total{state="FAILED"}': "0+1",
    'mailwright_circuit_state{provider="ses"}': "0",
    "mailwright_in_doubt": "0",
    "mailwright_dead_letters": "3",
    'mailwright_health_findings{verdict="problem"}': "0",
}
# What makes each alert fire.
FAULTS = {
    "MailwrightDown": {"up": "0"},
    "MailwrightSendingHeld": {"mailwright_sending_held": "1"},
    "MailwrightReplicaNotUsed": {"mailwright_replica_used": "0"},
    "MailwrightReplicaLate": {"mailwright_replica_lag_seconds": "90"},
    "MailwrightNoWorker": {"mailwright_workers": "0"},
    "MailwrightMessagesLate": {"mailwright_oldest_due_age_seconds": "700"},
    "MailwrightDiskAlmostFull": {
        "mailwright_disk_free_bytes": "500000000",
        "mailwright_database_growth_bytes_per_day": "0",
    },
    "MailwrightDiskFullSoon": {"mailwright_database_growth_bytes_per_day": "2000000000"},
    "MailwrightClockSkew": {"mailwright_clock_skew_seconds": "3"},
    "MailwrightCertificateExpires": {"mailwright_certificate_expiry_timestamp_seconds": "500000"},
    "MailwrightHttpsCertificateExpires": {
        'mailwright_https_certificate_expiry_timestamp_seconds{host="mail.example.com"}': "500000"
    },
    "MailwrightHttpsCertificateRefused": {
        'mailwright_https_certificate_expiry_timestamp_seconds{host="mail.example.com"}': "0"
    },
    "MailwrightBackupOld": {"mailwright_last_backup_timestamp_seconds": "1"},
    "MailwrightNoBackup": {"mailwright_last_backup_timestamp_seconds": "0"},
    "MailwrightNoProviderEvents": {'mailwright_provider_sent_total{provider="acme"}': "0+1"},
    "MailwrightMessagesFail": {'pipeline_final_state_total{state="FAILED"}': "0+20"},
    "MailwrightProviderUnavailable": {'mailwright_circuit_state{provider="ses"}': "2"},
    "MailwrightUnconfirmed": {"mailwright_in_doubt": "4"},
    "MailwrightDeadLetters": {"mailwright_dead_letters": "0+1"},
    "MailwrightUnhealthy": {'mailwright_health_findings{verdict="problem"}': "1"},
}
TWO_DAYS_AND_AN_HOUR = 49 * 60


@pytest.mark.skipif(shutil.which("promtool") is None, reason="there is no promtool here; apt-get install prometheus")
def test_each_alert_fires_for_its_fault_only(tmp_path: Path) -> None:
    assert {rule["alert"] for rule in rules()} == FAULTS.keys()
    tests = [_promtool_test({}, None), *(_promtool_test(fault, alert) for alert, fault in FAULTS.items())]
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(FILE)], "evaluation_interval": "10m", "tests": tests}))
    checked = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def _promtool_test(fault: dict[str, str], alert: str | None) -> dict[str, Any]:
    series = [
        {"series": _with_job(name), "values": f"{value}x{TWO_DAYS_AND_AN_HOUR}"}
        for name, value in {**HEALTHY, **fault}.items()
    ]
    firing = [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else []
    expression = 'max by (alertname) (ALERTS{alertstate="firing"})'
    expected = {"expr": expression, "eval_time": f"{TWO_DAYS_AND_AN_HOUR}m", "exp_samples": firing}
    return {"interval": "1m", "input_series": series, "promql_expr_test": [expected]}


def _with_job(name: str) -> str:
    return name.replace("{", '{job="mailwright",') if "{" in name else f'{name}{{job="mailwright"}}'
