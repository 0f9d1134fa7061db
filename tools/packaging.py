"""Writes deploy/: the manifests as files, a kustomization over them, a Helm chart and the dashboard.

    python -m tools.packaging

It also writes the rights into docs/operations.md. Everything there comes from what `tw install` prints, so none of it
can say something else; the tests render it and compare.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tools import chart, monitoring

from trainwright.cli.output import dump, stream
from trainwright.kinds import KINDS
from trainwright.operator.crds import definitions
from trainwright.operator.manifests import Installation, operator_manifests
from trainwright.operator.rights import (
    GANG_RIGHTS,
    HANDOVER_RIGHTS,
    REGISTER_RIGHTS,
    RIGHTS,
    SCALING_RIGHTS,
    WEBHOOK_RIGHTS,
    Right,
    leader_rights,
)

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
PAGE = ROOT / "docs" / "operations.md"
BEGIN, END = "<!-- rights: written by tools/packaging.py -->\n", "<!-- end of rights -->\n"
CHART = "helm/trainwright"
CRDS = f"{CHART}/crds"
"""Where Helm looks for kinds: it creates those that are missing, and neither changes nor deletes one."""


def files() -> dict[str, str]:
    """Return the text of every file in deploy/ that is written from here, by its path there."""
    crds = {f"{CRDS}/{each['metadata']['name']}.yaml": dump(each, "yaml") for each in definitions(KINDS)}
    return {
        **crds,
        "operator.yaml": stream(operator_manifests(Installation()), "yaml"),
        "kustomization.yaml": _kustomization([*crds, "operator.yaml"]),
        **{f"{CHART}/{path}": text for path, text in chart.files().items()},
        "monitoring/dashboard.json": monitoring.dashboard(),
    }


def _kustomization(resources: Sequence[str]) -> str:
    kind = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return dump({**kind, "resources": list(resources)}, "yaml")


# The page about rights

_TABLES: tuple[tuple[str, Sequence[Right]], ...] = (
    ("Always", RIGHTS),
    ("Beside definitions of the original projects, and for jobs that their operators have begun", HANDOVER_RIGHTS),
    ("For the autoscaler, unless `--without autoscaler`; with `--capacity` nodes are not looked at", SCALING_RIGHTS),
    ("For gangs by scheduling gates, with `--gang gates` or `auto`", GANG_RIGHTS["gates"]),
    ("For gangs of Kubernetes itself, with `--gang native` or `auto`", GANG_RIGHTS["native"]),
    ("For gangs of Volcano, with `--gang volcano` or `auto`", GANG_RIGHTS["volcano"]),
    ("To find out which of these a cluster has, with `--gang auto`", (GANG_RIGHTS["auto"][-1],)),
    ("For gangs of the coscheduling plugin, with `--gang scheduler-plugins`", GANG_RIGHTS["scheduler-plugins"]),
    ("For webhooks, unless `--without webhooks` or with `--watch`", WEBHOOK_RIGHTS),
    ("For leader election, unless `--without leader-election`", leader_rights()),
    ("To register the kinds, with `--install-crds`", REGISTER_RIGHTS),
)


def page() -> str:
    """Return the page about operating with the rights as they are now."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{''.join(_tables())}\n{END}{after}"


def _tables() -> Iterator[str]:
    for heading, rights in _TABLES:
        yield f"\n{heading}:\n\n| resource | verb | where | to |\n|---|---|---|---|\n"
        for right in rights:
            plural, slash, part = right.resource.partition("/")
            named = f"{plural}.{right.group}{slash}{part}" if right.group else right.resource
            only = f" (only {', '.join(f'`{name}`' for name in right.names)})" if right.names else ""
            yield f"| `{named}` | `{right.verb}` | {right.scope} | {right.reason}{only} |\n"


def main() -> None:
    PAGE.write_text(page())
    for path, text in files().items():
        (DEPLOY / path).parent.mkdir(parents=True, exist_ok=True)
        (DEPLOY / path).write_text(text)


if __name__ == "__main__":
    main()
