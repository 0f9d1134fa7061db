"""The dashboard in deploy/monitoring: a table of panels, written as Grafana reads it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Panel:
    """One picture: what it shows, in which unit, and from which metrics."""

    title: str
    unit: Literal["short", "s", "ops", "reqps"]
    queries: tuple[tuple[str, str], ...]
    """Each with its legend."""
    why: str


def _quantile(metric: str, share: float, by: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share:g}, sum by ({labels}) (rate({metric}_bucket[5m])))"


PANELS = (
    Panel(
        "Jobs",
        "short",
        (("sum by (kind, phase) (trainwright_jobs)", "{{kind}} {{phase}}"),),
        "How many jobs there are, by their last condition.",
    ),
    Panel(
        "From creation to all pods",
        "s",
        ((_quantile("trainwright_job_start_seconds", 0.95, "kind"), "{{kind}} 95 %"),),
        "How long 95 of 100 new jobs waited until all their pods were created.",
    ),
    Panel(
        "Jobs that wait for a round",
        "short",
        (("max(trainwright_queue_depth)", "waiting"),),
        "A queue that does not empty means that the operator, or the API server, is too slow.",
    ),
    Panel(
        "Time in the queue",
        "s",
        (
            (_quantile("trainwright_queue_seconds", 0.5), "50 %"),
            (_quantile("trainwright_queue_seconds", 0.99), "99 %"),
        ),
        "How long a job waited after something had happened to it.",
    ),
    Panel(
        "Time of a round",
        "s",
        ((_quantile("trainwright_round_seconds", 0.99, "kind"), "{{kind}} 99 %"),),
        "How long one look at a job took, with all that was done for it.",
    ),
    Panel(
        "Rounds by how they ended",
        "ops",
        (("sum by (result) (rate(trainwright_rounds_total[5m]))", "{{result}}"),),
        "done is well; conflict is tried again; refused is the API server's word; fault is ours.",
    ),
    Panel(
        "Calls of the API",
        "reqps",
        (("sum by (verb, code) (rate(trainwright_api_calls_total[5m]))", "{{verb}} {{code}}"),),
        "Code 0: no answer came.",
    ),
    Panel(
        "Resizes",
        "ops",
        (("sum by (kind, direction) (rate(trainwright_resizes_total[15m]))", "{{kind}} {{direction}}"),),
        "How often the autoscaler made jobs larger or smaller.",
    ),
    Panel(
        "Time to plan",
        "s",
        ((_quantile("trainwright_plan_seconds", 0.99), "99 %"),),
        "How long it took to share what there is among all elastic jobs.",
    ),
    Panel(
        "Gangs that wait",
        "short",
        (("max(trainwright_gangs_waiting)", "waiting"),),
        "How many gangs the gates hold back because not all of their pods fit.",
    ),
    Panel(
        "Who leads",
        "short",
        (("max by (pod) (trainwright_leader)", "{{pod}}"),),
        "1 is the one operator that acts; the others stand by and answer webhooks.",
    ),
    Panel(
        "Time to judge an object",
        "s",
        ((_quantile("trainwright_review_seconds", 0.99, "webhook"), "{{webhook}} 99 %"),),
        "How long webhooks took for an object that was applied.",
    ),
    Panel(
        "Until the webhooks' certificate ends",
        "s",
        (("min(trainwright_webhook_certificate_end_seconds > 0) - time()", "left"),),
        "It is made anew long before; a line that reaches nothing means that it was not.",
    ),
)
_WIDTH, _HEIGHT, _ACROSS = 8, 8, 3
_SOURCE = {"type": "prometheus", "uid": "${source}"}


def dashboard(panels: Sequence[Panel] = PANELS) -> str:
    """Return the dashboard as JSON, to be imported into Grafana."""
    told = {
        "title": "Trainwright",
        "uid": "trainwright",
        "tags": ["trainwright"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [_panel(place, panel) for place, panel in enumerate(panels)],
    }
    return json.dumps(told, indent=2) + "\n"


def _panel(place: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(place, _ACROSS)
    return {
        "id": place + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.why,
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }
