"""The original projects, for tests and benchmarks beside them: their definitions, and the operators that can be run.

All of it comes from their Go modules, at the versions below, and is kept outside the checkout like the control plane.
"""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from tools.kube import ROOT, go

TRAINING_OPERATOR = "1.8.1"
MPI_OPERATOR = "0.6.0"
_MODULE = ROOT / "benchmarks" / "go"
_TRAINING = f"github.com/kubeflow/training-operator@v{TRAINING_OPERATOR}"
_MPI = f"github.com/kubeflow/mpi-operator@v{MPI_OPERATOR}"
DEFINITIONS: Mapping[str, tuple[str, str]] = {
    "PyTorchJob": (_TRAINING, "manifests/base/crds/kubeflow.org_pytorchjobs.yaml"),
    "MPIJob": (_MPI, "manifests/base/kubeflow.org_mpijobs.yaml"),
    "MPIJob v1": (_TRAINING, "manifests/base/crds/kubeflow.org_mpijobs.yaml"),
}
"""Where the definitions of kinds are that can be fetched: the module, and the file in it."""


def definition(kind: str) -> dict[str, Any]:
    """Return the CustomResourceDefinition that the original project of a kind installs."""
    module, path = DEFINITIONS[kind]
    asked = [go(), "mod", "download", "-json", module]
    folder = json.loads(subprocess.run(asked, cwd=_MODULE, check=True, capture_output=True, text=True).stdout)["Dir"]
    found: dict[str, Any] = yaml.safe_load(Path(folder, path).read_text())
    return found


def training_operator() -> Path:
    """Return the training-operator, built if it is not there yet (see benchmarks/go)."""
    return _built(f"training-operator-{TRAINING_OPERATOR}", "training-operator", ["build"], ["."])


def mpi_operator() -> Path:
    """Return the MPI operator, built if it is not there yet."""
    module, _, version = _MPI.partition("@")
    return _built(f"mpi-operator-{MPI_OPERATOR}", "mpi-operator", ["install"], [f"{module}/cmd/mpi-operator@{version}"])


def _built(folder: str, name: str, how: list[str], what: list[str]) -> Path:
    """Return a program, built from its module once; who tries at the same time waits."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    program = cache / "trainwright" / folder / name
    program.parent.mkdir(parents=True, exist_ok=True)
    with (program.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.is_file():
            print(f"building the {name} (about 2 minutes, once)", file=sys.stderr)
            target = program.parent / ".new"
            flags = ["-trimpath", "-buildvcs=false", "-ldflags", "-s -w"]
            if how == ["build"]:
                flags += ["-o", str(target / name)]
            target.mkdir(exist_ok=True)
            built = {**os.environ, "GOBIN": str(target)}
            subprocess.run([go(), *how, *flags, *what], cwd=_MODULE, check=True, env=built)
            (target / name).replace(program)
    return program
