"""What is shipped in deploy/: every file is what the code prints, and the chart and the kustomization print it again.

python -m tools.packaging      writes the files; read the difference before committing
"""

import json
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.kube import binaries
from tools.packaging import CHART, DEPLOY, PAGE, files, page

from trainwright.core.objects import Object, Ref, ref
from trainwright.operator.manifests import Installation, manifests
from trainwright.operator.measures import Measures
from trainwright.operator.rights import GANG_RIGHTS

BY_HAND = {"monitoring/alerts.yaml", "monitoring/service-monitor.yaml"}
SHIPPED = files()


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_shipped_is_what_is_printed(name):
    assert (DEPLOY / name).read_text() == SHIPPED[name], "see the first lines of this module"


def test_nothing_else_is_shipped():
    found = {str(path.relative_to(DEPLOY)) for path in DEPLOY.rglob("*") if path.is_file()}

    assert found == set(SHIPPED) | BY_HAND


def test_the_page_gives_the_reason_for_every_right():
    assert PAGE.read_text() == page(), "see the first lines of this module"


def test_the_page_names_every_metric():
    names = re.findall(r"^# TYPE (\w+)", Measures().text(), re.MULTILINE)

    assert [name for name in names if f"`{name}`" not in PAGE.read_text()] == []


@pytest.mark.parametrize("name", ["dashboard.json", "alerts.yaml"])
def test_every_metric_that_is_looked_at_is_measured(name):
    measured = set(re.findall(r"^# TYPE (\w+)", Measures().text(), re.MULTILINE))

    named = set(re.findall(r"\btrainwright_\w+", (DEPLOY / "monitoring" / name).read_text()))

    assert named
    assert {re.sub(r"_(bucket|count|sum)$", "", metric) for metric in named} <= measured


def test_every_metric_is_on_the_dashboard():
    shown = (DEPLOY / "monitoring" / "dashboard.json").read_text()

    assert [name for name in re.findall(r"^# TYPE (\w+)", Measures().text(), re.MULTILINE) if name not in shown] == []


def test_every_alert_says_what_it_means_and_what_to_do():
    told = yaml.safe_load((DEPLOY / "monitoring" / "alerts.yaml").read_text())
    rules = [rule for group in told["spec"]["groups"] for rule in group["rules"]]

    assert [rule["alert"] for rule in rules if not {"summary", "description"} <= rule["annotations"].keys()] == []
    assert [rule["alert"] for rule in rules if f"`{rule['alert']}`" not in PAGE.read_text()] == []


def test_the_monitor_finds_the_service():
    monitor = yaml.safe_load((DEPLOY / "monitoring" / "service-monitor.yaml").read_text())
    service = next(each for each in manifests(Installation()) if each["kind"] == "Service")

    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert {each["port"] for each in monitor["spec"]["endpoints"]} <= {
        each["name"] for each in service["spec"]["ports"]
    }


# With the real programs


def program(name: str) -> Path:
    """Return a program of the test cluster. Without it CI fails; elsewhere the test is skipped."""
    path = binaries() / name
    if not path.is_file():
        words = f"there is no {path}; `python tools/kube.py build` makes it"
        if os.environ.get("CI") == "true":
            pytest.fail(words, pytrace=False)
        pytest.skip(f"NOTHING WAS TESTED HERE: {words}")
    return path


def said(command: Sequence[str | Path], folder: Path) -> str:
    """Return what a program prints; it keeps nothing outside of a folder."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"HOME": str(folder)})
    assert done.returncode == 0, done.stderr
    return done.stdout


def by_name(objects: Iterable[Any]) -> dict[Ref, Object]:
    """Return objects by what names them, with rights in an order that does not depend on who printed them."""
    return {ref(each): {**each, **sorted_rules(each)} for each in objects if each}


def sorted_rules(role: Object) -> Object:
    rules = [{**rule, "verbs": sorted(rule["verbs"])} for rule in role.get("rules", ())]
    return {"rules": sorted(rules, key=lambda rule: json.dumps(rule, sort_keys=True))} if rules else {}


@pytest.mark.e2e
def test_the_kustomization_is_what_is_installed(tmp_path):
    printed = said([program("kubectl"), "kustomize", DEPLOY], tmp_path)

    assert by_name(yaml.safe_load_all(printed)) == by_name(manifests(Installation()))


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("values", "asked"),
    [
        pytest.param({}, {}, id="as shipped"),
        pytest.param(
            {"image": "here:1", "replicas": 3, "gang": "none"},
            {"image": "here:1", "replicas": 3, "gang": "none"},
            id="an image, replicas, gangs",
        ),
        *(
            pytest.param(
                {"gang": gang, "autoscaler": False},
                {"gang": gang, "without": {"autoscaler"}},
                id=f"without autoscaler, gangs: {gang}",
            )
            for gang in GANG_RIGHTS
        ),
        pytest.param({"gang": "none", "capacity": "cpu=4"}, {"gang": "none", "capacity": "cpu=4"}, id="a capacity"),
        pytest.param({"webhooks": False}, {"without": {"webhooks"}}, id="without webhooks"),
        pytest.param({"autoscaler": False}, {"without": {"autoscaler"}}, id="without autoscaler"),
        pytest.param({"metrics": False}, {"without": {"metrics"}}, id="without metrics"),
        pytest.param(
            {"leaderElection": False, "replicas": 1},
            {"without": {"leader-election"}, "replicas": 1},
            id="without leader election",
        ),
        pytest.param(
            {"webhooks": False, "autoscaler": False, "metrics": False, "leaderElection": False, "replicas": 1},
            {"without": {"webhooks", "autoscaler", "metrics", "leader-election"}, "replicas": 1},
            id="with nothing but the operator",
        ),
        pytest.param(
            {"watch": ["a", "b"], "capacity": "cpu=4"},
            {"watch": ("a", "b"), "capacity": "cpu=4"},
            id="in two namespaces",
        ),
        pytest.param(
            {"watch": ["a"], "autoscaler": False, "metrics": False, "leaderElection": False, "replicas": 1},
            {"watch": ("a",), "without": {"autoscaler", "metrics", "leader-election"}, "replicas": 1},
            id="in one namespace with nothing but the operator",
        ),
    ],
)
def test_the_chart_is_what_is_installed(values, asked, tmp_path):
    (tmp_path / "values.json").write_text(json.dumps(values))
    words = ["template", "any", DEPLOY / CHART, "--namespace=here", "--include-crds", "-f", tmp_path / "values.json"]
    installation = Installation(namespace="here", **{**asked, "without": frozenset(asked.get("without", ()))})

    printed = by_name(yaml.safe_load_all(said([program("helm"), *words], tmp_path)))

    wanted = by_name(manifests(installation))
    made_by_helm = [name for name in wanted if name.kind == "Namespace"]
    always = by_name(each for each in manifests(Installation()) if each["kind"] == "CustomResourceDefinition")
    assert printed == {name: each for name, each in {**always, **wanted}.items() if name not in made_by_helm}


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param({"leaderElection": False}, "several operators need leader election", id="two without an election"),
        pytest.param(
            {"gang": "gate"}, 'there is no gang "gate" (there are: none, gates,', id="gangs that nobody keeps"
        ),
        pytest.param({"watch": ["a"]}, "the autoscaler sees no nodes", id="an autoscaler that sees nothing"),
    ],
)
def test_the_chart_refuses_what_does_not_go_together(values, words, tmp_path):
    (tmp_path / "values.json").write_text(json.dumps(values))
    command = [program("helm"), "template", "any", DEPLOY / CHART, "-f", tmp_path / "values.json"]

    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"HOME": str(tmp_path)})

    assert done.returncode != 0
    assert words in done.stderr
