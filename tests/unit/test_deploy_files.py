"""The files of deploy/: valid for their own tools, hardened alike, and true to the names of this version."""

import importlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Context
from typer.main import get_command

from mailwright.cli import app
from mailwright.ops.amazonsender import ALIASES
from mailwright.ops.secret_files import file_variables
from mailwright.ops.settings import Settings

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMPOSE = ("compose.yaml", "compose.scale.yaml")
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
KUBERNETES = DEPLOY / "kubernetes" / "mailwright.yaml"
CONTAINERFILE = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
# Variables of other programs that the files set.
FOREIGN = {"FORWARDED_ALLOW_IPS", "MAILWRIGHT_DOMAIN", "MAILWRIGHT_UPSTREAM", "PATH"}
USER = 10001
MAX_EXPOSURE = 2.0


def needs(tool: str, package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"there is no {tool} here; apt-get install {package}")


def run(*command: str | Path, folder: Path | None = None) -> str:
    done = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


# Validators.


@pytest.mark.parametrize("name", COMPOSE)
def test_compose_file_follows_the_specification(name: str) -> None:
    pytest.importorskip("compose_spec", reason="no compose-spec; `make deploy-check` installs it")
    validator: Any = importlib.import_module("compose_spec")
    compose = validator.PyCompose.from_json(json.dumps(_compose(name)))
    assert set(compose.service_names()) == set(_compose(name)["services"])


def test_kubernetes_manifests_follow_their_schemas() -> None:
    pytest.importorskip("kubernetes_validate", reason="no kubernetes-validate; `make deploy-check` installs it")
    validator: Any = importlib.import_module("kubernetes_validate")
    for manifest in _manifests():
        validator.validate(manifest, validator.latest_version(), strict=True)


@needs("nginx", "nginx-light")
@needs("openssl", "openssl")
def test_nginx_accepts_its_configuration(tmp_path: Path) -> None:
    subject = ("-subj", "/CN=mail.example.com", "-keyout", "privkey.pem", "-out", "fullchain.pem")
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject, folder=tmp_path)
    text = (DEPLOY / "proxy/nginx.conf").read_text(encoding="utf-8")
    (tmp_path / "site.conf").write_text(text.replace("/etc/letsencrypt/live/mail.example.com", str(tmp_path)))
    (tmp_path / "nginx.conf").write_text(f"pid {tmp_path}/pid; events {{}} http {{ include {tmp_path}/site.conf; }}")
    run("nginx", "-t", "-c", tmp_path / "nginx.conf")


@needs("caddy", "caddy")
def test_caddy_accepts_its_configuration() -> None:
    run("caddy", "validate", "--adapter", "caddyfile", "--config", DEPLOY / "proxy/Caddyfile")


@needs("systemd-analyze", "systemd")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    units = [*UNITS, *(DEPLOY / "systemd").glob("*.timer")]
    for unit in units:
        text = unit.read_text(encoding="utf-8").replace("/opt/mailwright/bin/mailwright", shutil.which("true") or "")
        (tmp_path / unit.name).write_text(text)
    assert run("systemd-analyze", "verify", *(f"./{unit.name}" for unit in units), folder=tmp_path) == ""


@needs("systemd-analyze", "systemd")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_units_are_hardened(unit: Path) -> None:
    found = re.search(r"exposure level for \S+: ([\d.]+)", run("systemd-analyze", "security", "--offline=true", unit))
    assert found is not None
    assert float(found[1]) <= MAX_EXPOSURE


@needs("openssl", "openssl")
def test_secrets_are_written_once_and_fit_compose(tmp_path: Path) -> None:
    script = shutil.copy(DEPLOY / "make-secrets.sh", tmp_path)
    run("sh", script)
    first = {file.name: file.read_text() for file in (tmp_path / "secrets").iterdir()}
    run("sh", script)
    assert {file.name: file.read_text() for file in (tmp_path / "secrets").iterdir()} == first
    assert {f"secrets/{name}" for name in first} == {each["file"] for each in _compose(COMPOSE[1])["secrets"].values()}
    assert first["postgres_password"].strip() in first["database_url"]
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700


@needs("runuser", "util-linux")
def test_command_runs_with_the_settings_of_the_services(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd/mailwright.sh").read_text(encoding="utf-8")
    places = {"/opt/mailwright/bin/mailwright": f"{tmp_path}/program", "/etc/mailwright": f"{tmp_path}"}
    for place, here in {**places, "cd /var/lib/mailwright": f"cd {tmp_path}", "!= mailwright": "= nobody"}.items():
        text = text.replace(place, here)
    settings = ("# a comment", "MAILWRIGHT_FROM=Ada & Co <ada@example.com>", "A='b c'", 'B="$HOME"', "", "C=")
    (tmp_path / "environment").write_text("\n".join(settings))
    (tmp_path / "program").write_text('#!/bin/sh\necho "$MAILWRIGHT_FROM|$A|$B|$C|$MAILWRIGHT_STATE|$1|$PWD"\n')
    (tmp_path / "program").chmod(0o755)
    (tmp_path / "command").write_text(text)
    expected = f"Ada & Co <ada@example.com>|b c|$HOME||/var/lib/mailwright-state|x y|{tmp_path}"
    assert run("sh", tmp_path / "command", "x y") == f"{expected}\n"


# Names.


def test_every_variable_is_a_setting_of_this_version() -> None:
    fields = Settings.model_fields
    known = {str(field.alias) for field in fields.values()} | {*ALIASES, *FOREIGN}
    known |= set(file_variables(fields).values())
    used = {name for service in _services() for name in service.get("environment", {})}
    used |= {name for manifest in _manifests() if manifest["kind"] == "ConfigMap" for name in manifest["data"]}
    used |= {each["name"] for container in _containers() for each in container.get("env", [])}
    used |= set(re.findall(r"^ +(?:ENV )?([A-Z_]+)=", CONTAINERFILE, re.MULTILINE))
    assert {name for name in used if not name.startswith("POSTGRES_") and not name.startswith("PYTHON")} <= known


def test_every_command_exists() -> None:
    commands = [service["command"] for service in _mailwright_services()]
    commands += [container["args"] for container in _containers()]
    commands += [json.loads(line) for line in re.findall(r"^CMD (\[.*\])", CONTAINERFILE, re.MULTILINE)]
    for unit in UNITS:
        found = re.search(r"^ExecStart=/opt/mailwright/bin/mailwright (.+)$", unit.read_text(), re.MULTILINE)
        assert found is not None
        commands.append(found[1].split())
    assert len(commands) > 8
    for words in commands:
        _require_command(words)


def _require_command(words: list[str]) -> None:
    command: Any = get_command(app)
    options = {option for word in words if (option := word).startswith("--")}
    for word in words:
        if hasattr(command, "resolve_command") and not word.startswith("-"):
            _, command, _ = command.resolve_command(Context(command), [word])
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert options <= known, words


def test_every_metric_of_the_dashboard_exists() -> None:
    dashboard = json.loads((DEPLOY / "grafana/mailwright.json").read_text(encoding="utf-8"))
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    used = {
        name.removesuffix("_bucket")
        for panel in panels
        for target in panel["targets"]
        for name in re.findall(r"\b((?:mailwright|pipeline)_\w+)", target["expr"])
    }
    page = (DEPLOY.parent / "docs/operating.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `((?:mailwright|pipeline)_\w+)", page, re.MULTILINE))
    assert len(used) > 10
    assert used <= documented
    assert all(panel["description"] for panel in panels)
    places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len(places) == len(set(places))


# Hardening.


@pytest.mark.promise("image-runs-read-only")
def test_compose_services_run_without_privileges() -> None:
    for service in _mailwright_services():
        assert service["read_only"] is True
        assert service["user"] == f"{USER}:{USER}"
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["stop_grace_period"] == "45s"
    for service in _services():
        assert service["cap_drop"] == ["ALL"]


@pytest.mark.promise("image-runs-read-only")
def test_pods_meet_the_restricted_security_standard() -> None:
    pods = _pods()
    assert len(pods) == 3
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == USER
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            expected = {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["securityContext"] == expected


@pytest.mark.promise("image-runs-read-only")
def test_image_is_not_root_and_checks_its_health() -> None:
    last = CONTAINERFILE.rpartition("\nFROM ")[2]
    assert f"USER {USER}:{USER}" in last
    assert "HEALTHCHECK" in last
    assert "/readyz" in last
    assert CONTAINERFILE.count("\nFROM ") == 3


def test_state_marker_has_its_own_volume() -> None:
    """A backup of the data must not contain the marker that detects a restore."""
    for service in _mailwright_services():
        assert service["volumes"] == ["data:/var/lib/mailwright", "state:/var/lib/mailwright-state"]
    assert "MAILWRIGHT_STATE=/var/lib/mailwright-state" in CONTAINERFILE
    for unit in UNITS:
        lines = unit.read_text(encoding="utf-8").splitlines()
        assert "StateDirectory=mailwright mailwright-state" in lines
        assert "Environment=MAILWRIGHT_STATE=/var/lib/mailwright-state" in lines


def test_pods_share_no_volume() -> None:
    """Each server and worker keeps its state and its spool on a volume of its own, which survives the pod."""
    manifests = _manifests()
    assert "PersistentVolumeClaim" not in {each["kind"] for each in manifests}
    assert not [each for pod in _pods() for each in pod["volumes"] if "persistentVolumeClaim" in each]
    [settings] = [each["data"] for each in manifests if each["kind"] == "ConfigMap"]
    services = {each["metadata"]["name"] for each in manifests if each["kind"] == "Service"}
    sets = [each["spec"] for each in manifests if each["kind"] == "StatefulSet"]
    assert len(sets) == 2
    for each in sets:
        [claim] = each["volumeClaimTemplates"]
        assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
        [container] = each["template"]["spec"]["containers"]
        mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounted[claim["metadata"]["name"]] == "/var/lib/mailwright-state"
        assert settings["MAILWRIGHT_TRACKING_SPOOL"].startswith("/var/lib/mailwright-state/")
        assert each["serviceName"] in services


def _compose(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8")))


def _services() -> Iterator[dict[str, Any]]:
    for name in COMPOSE:
        yield from _compose(name)["services"].values()


def _mailwright_services() -> list[dict[str, Any]]:
    return [service for service in _services() if service["image"].startswith("mailwright:")]


def _manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(KUBERNETES.read_text(encoding="utf-8")))


WITH_PODS = {"Deployment", "Job", "StatefulSet"}


def _pods() -> list[dict[str, Any]]:
    return [each["spec"]["template"]["spec"] for each in _manifests() if each["kind"] in WITH_PODS]


def _containers() -> list[dict[str, Any]]:
    return [container for pod in _pods() for container in pod["containers"]]
