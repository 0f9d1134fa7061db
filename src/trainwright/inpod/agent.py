"""The agent that mpirun calls where it would call ssh, as a text: a job's ConfigMap carries it into the launcher."""

from pathlib import Path

SCRIPT = Path(__file__).with_name("kubexec.sh").read_text(encoding="utf-8")
