"""The Containerfile, as far as it can be tested without a builder of images: its steps, run in a folder."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from tests.conftest import ROOT

from trainwright.desired import KUBERNETES
from trainwright.operator.manifests import Installation, operator_manifests

TEXT = (ROOT / "Containerfile").read_text().replace("\\\n", " ")


def stage(name: str) -> list[tuple[str, str]]:
    """Return the steps of a stage, each as its instruction and the rest; without a name of the last one."""
    stages = re.split(r"^FROM ", TEXT, flags=re.MULTILINE)[1:]
    steps = next(each for each in stages if re.search(rf" AS {name}$" if name else r"^\S+$", each.splitlines()[0]))
    lines = [line for line in steps.splitlines()[1:] if line.strip() and not line.startswith("#")]
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines]


def test_everything_that_is_copied_is_there():
    copied = [word for _, rest in [*stage("kubectl"), *stage("build")] if _ == "COPY" for word in rest.split()[:-1]]
    sent = (ROOT / ".dockerignore").read_text().splitlines()

    assert copied
    assert [path for path in copied if not (ROOT / path).exists()] == []
    assert [
        path for path in copied if f"!{path.rstrip('/')}" not in sent and f"!{path.split('/')[0]}" not in sent
    ] == []


def test_every_dependency_is_pinned_by_hash():
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    pinned = re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements" / "runtime.txt").read_text(), re.MULTILINE)

    assert {re.split(r"[<>=]", each)[0] for each in wanted} <= set(pinned)


def test_it_is_nobody_who_runs_it():
    deployment = next(each for each in operator_manifests(Installation()) if each["kind"] == "Deployment")
    security = deployment["spec"]["template"]["spec"]["securityContext"]

    assert ("USER", f"{security['runAsUser']}:{security['runAsGroup']}") in stage("")


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_what_is_built_runs_in_a_clean_environment(tmp_path):
    build(tmp_path)
    place = tmp_path / "trainwright" / "bin"
    clean = {"PATH": f"{place}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    waits = [*KUBERNETES.wait_command, "--help"]

    for command in (["tw", "operator", "--help"], ["tw", "install", "--offline"], waits):
        done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def build(folder: Path) -> None:
    """Do what the stage that installs does, below a folder instead of below /opt."""
    work = folder / "src"
    work.mkdir()
    for instruction, rest in stage("build"):
        if instruction == "COPY":
            copy(rest.split(), work)
        elif instruction == "RUN":
            command = rest.replace("/opt/", f"{folder}/")
            done = subprocess.run(["sh", "-ec", command], cwd=work, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def copy(words: list[str], work: Path) -> None:
    *sources, target = words
    for source in sources:
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, work / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (work / target).mkdir(exist_ok=True)
            shutil.copy(ROOT / source, work / target)
