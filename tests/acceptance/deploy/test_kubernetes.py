"""deploy/kubernetes: valid for Kubernetes, and its parts fit together. No cluster is needed, and none was: the page says so."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from itertools import chain
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]

from holdkit.cli.root import root
from holdkit.server import Settings
from holdkit.server.configuration import SETTINGS
from tests.acceptance.docs.pages import blocks
from tests.support.proxies import ROOT, SHIPPED

PAGE = ROOT / "docs/deploy-kubernetes.md"
FILES = sorted((ROOT / "deploy/kubernetes").glob("*.yaml"))
MANIFESTS: list[dict[str, Any]] = list(
    chain.from_iterable(yaml.safe_load_all(path.read_text("utf-8")) for path in FILES)
)
VERSIONS = ("1.29", "1.33")
"""The oldest and a newer one whose schemas every manifest is valid by."""


def manifest(kind: str) -> dict[str, Any]:
    (one,) = [document for document in MANIFESTS if document["kind"] == kind]
    return one


def pod() -> dict[str, Any]:
    spec: dict[str, Any] = manifest("Deployment")["spec"]["template"]["spec"]
    return spec


def job() -> dict[str, Any]:
    spec: dict[str, Any] = manifest("CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return spec


def container(name: str) -> dict[str, Any]:
    (made,) = [made for made in pod()["containers"] if made["name"] == name]
    return dict(made)


def variables(of: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable.get("value", "") for variable in of["env"]}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_valid(version: str) -> None:
    kinds = ["PersistentVolumeClaim", "CronJob", "Service", "NetworkPolicy", "Deployment", "PodDisruptionBudget"]
    assert [document["kind"] for document in MANIFESTS] == kinds
    for document in MANIFESTS:
        kubernetes_validate.validate(document, version, strict=True)


def test_a_misspelt_field_is_not_valid() -> None:
    """The canary of the test above."""
    document = yaml.safe_load(yaml.safe_dump(manifest("Deployment")))
    document["spec"]["template"]["spec"]["terminationGracePeriod"] = 30
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, VERSIONS[0], strict=True)


def test_the_time_to_stop_follows_from_drain() -> None:
    drain = float(variables(container("server"))["HOLDKIT_SERVER_DRAIN"])
    probe = container("proxy")["readinessProbe"]
    assert drain > probe["periodSeconds"] * probe["failureThreshold"], "the probe notices before the server stops"
    stopped = drain + Settings().requests.stop_timeout
    (sleep, proxy_ends) = container("proxy")["lifecycle"]["preStop"]["exec"]["command"]
    assert sleep == "sleep"
    assert stopped < float(proxy_ends) < pod()["terminationGracePeriodSeconds"], "the proxy outlives the server"


def test_the_server_is_reached_through_its_proxy_alone() -> None:
    path = variables(container("server"))["HOLDKIT_SERVER_UDS"]
    nginx = SHIPPED["nginx"].read_text("utf-8")
    assert f"server unix:{path};" in nginx
    assert "ports" not in container("server")
    mounts = {mount["mountPath"]: mount["name"] for mount in container("proxy")["volumeMounts"]}
    assert mounts["/run/holdkit"] == "socket" == container("server")["volumeMounts"][0]["name"]
    certificate, key = re.findall(r"ssl_certificate(?:_key)? (\S+);", nginx)
    assert (certificate, key) == ("/etc/holdkit/tls/tls.crt", "/etc/holdkit/tls/tls.key"), (
        "the names in a Secret of type tls"
    )
    assert mounts["/etc/holdkit/tls"] == "certificate"
    assert mounts["/etc/nginx/conf.d"] == "nginx"
    assert f"listen {container('proxy')['ports'][0]['containerPort']} ssl;" in nginx
    for name in ("readinessProbe", "livenessProbe", "startupProbe"):
        assert container("proxy")[name]["httpGet"]["scheme"] == "HTTPS"
    assert pod()["securityContext"]["fsGroup"] == container("server")["securityContext"]["runAsUser"]
    (rule,) = manifest("NetworkPolicy")["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 443}]


def test_variables_and_commands_exist_and_secrets_are_no_text() -> None:
    known = {setting.variable for setting in SETTINGS.values()} | {"HOLDKIT_URL", "HOLDKIT_SERVER_SECRET", "PGPASSWORD"}
    with_environment = [
        made for made in (*pod()["initContainers"], *pod()["containers"], *job()["containers"]) if "env" in made
    ]
    assert len(with_environment) == 3
    for made in with_environment:
        assert variables(made).keys() <= known
        for variable in made["env"]:
            is_secret = variable["name"] in ("PGPASSWORD", "HOLDKIT_SERVER_SECRET")
            assert ("valueFrom" in variable) == is_secret
        assert "@" in variables(made)["HOLDKIT_URL"]
        assert ":" not in variables(made)["HOLDKIT_URL"].partition("//")[2].partition("@")[0], "no password in the URL"
    assert container("server")["args"] == ["serve"]
    assert pod()["initContainers"][0]["args"] == ["migrate"]
    assert {"serve", "migrate"} <= root.commands.keys()


def test_every_container_is_confined() -> None:
    for spec in (pod(), job()):
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["automountServiceAccountToken"] is False
        for made in (*spec.get("initContainers", ()), *spec["containers"]):
            context = made["securityContext"]
            assert context["readOnlyRootFilesystem"]
            assert not context["allowPrivilegeEscalation"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert {*context, *spec["securityContext"]} >= {"runAsUser"}


def test_a_budget_keeps_a_server_and_selectors_match() -> None:
    assert manifest("PodDisruptionBudget")["spec"]["minAvailable"] < manifest("Deployment")["spec"]["replicas"]
    labels = manifest("Deployment")["spec"]["template"]["metadata"]["labels"]
    for kind in ("Deployment", "PodDisruptionBudget"):
        assert manifest(kind)["spec"]["selector"]["matchLabels"] == labels
    assert manifest("Service")["spec"]["selector"] == labels
    (expression,) = manifest("NetworkPolicy")["spec"]["podSelector"]["matchExpressions"]
    job_labels = manifest("CronJob")["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
    assert expression["values"] == [labels["app"], job_labels["app"]]


def test_the_commands_of_the_page_make_what_the_manifests_name(tmp_path: Path) -> None:
    images, objects, start, job_now = [
        block.text for block in blocks(PAGE.read_text("utf-8")) if block.language == "sh"
    ]
    made: set[tuple[str, str]] = set()
    for line in objects.splitlines():
        words = shlex.split(line)
        if words[:2] == ["kubectl", "create"]:
            kind = words[2]
            name = next(word for word in words[3:] if word not in ("generic", "tls"))
            made.add((kind, name))
            for file in re.findall(r"deploy/\S+", line):
                assert (ROOT / file).is_file()
    references = {("secret", "holdkit"), ("secret", "holdkit-tls"), ("configmap", "holdkit-nginx")}
    assert made == references | {("namespace", "holdkit")}
    text = "".join(path.read_text("utf-8") for path in FILES)
    used = {("secret", name) for name in re.findall(r"(?:secretKeyRef: {name|secretName): ([\w-]+)", text)}
    used |= {("configmap", name) for name in re.findall(r"configMap: {name: ([\w-]+)", text)}
    assert used == references
    keys = set(re.findall(r"secretKeyRef: {name: holdkit, key: (\w+)", text))
    assert keys == set(re.findall(r"([A-Z_]+)=%s", objects))

    shutil.copytree(ROOT / "deploy/kubernetes", tmp_path / "deploy/kubernetes")
    built = re.findall(r"docker build -t (\S+)", images)
    subprocess.run(["sh", "-euc", images.splitlines()[-1]], cwd=tmp_path, check=True)
    named = "".join(path.read_text("utf-8") for path in (tmp_path / "deploy/kubernetes").iterdir())
    assert {*re.findall(r"image: (\S+)", named)} == {*built, "nginxinc/nginx-unprivileged:1.28"}
    assert f"kubectl apply -f {FILES[0].parent.relative_to(ROOT)}\n" in start
    assert f"deployment/{manifest('Deployment')['metadata']['name']} -c server" in start
    assert f"--from=cronjob/{manifest('CronJob')['metadata']['name']}" in job_now
