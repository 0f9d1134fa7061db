"""The original projects, for tests and benchmarks beside them: their definitions, and the operators that can be run.

    python -m tools.originals    # fetch and build them (a few minutes, once)

All of it comes from their Go modules, at the versions below, and is kept outside the checkout like the control plane.
"""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tools.kube import ROOT, go

_MODULE = ROOT / "benchmarks" / "go"
_TRAINING = "github.com/kubeflow/training-operator@v1.8.1"
_MPI = "github.com/kubeflow/mpi-operator@v0.6.0"
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


@dataclass(frozen=True)
class Program:
    """An original operator: a package of a Go module."""

    name: str
    version: str
    module: Path
    package: str

    @property
    def path(self) -> Path:
        """Return where it is, built or not."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cache / "trainwright" / f"{self.name}-{self.version}" / self.name

    def built(self) -> Path:
        """Build it if it is not there yet; who tries at the same time waits."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with (self.path.parent / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self.path.is_file():
                sys.stderr.write(f"building the {self.name} (a few minutes, once)\n")
                draft = self.path.with_name(".new")
                flags = ["-mod=mod", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w"]
                subprocess.run([go(), "build", *flags, "-o", str(draft), self.package], cwd=self.module, check=True)
                draft.replace(self.path)
        return self.path


TRAINING_OPERATOR = Program("training-operator", "1.8.1", _MODULE, ".")
"""Its PyTorchJob controller: what benchmarks/go has of it."""
MPI_OPERATOR = Program(
    "mpi-operator", "0.6.0", ROOT / "tools" / "mpi-operator", "github.com/kubeflow/mpi-operator/cmd/mpi-operator"
)


def main() -> None:
    """Fetch and build everything."""
    for kind in DEFINITIONS:
        definition(kind)
    for program in (TRAINING_OPERATOR, MPI_OPERATOR):
        program.built()


if __name__ == "__main__":
    main()
