"""What of a node keeps a pod away, in words."""

import pytest

from trainwright.core.objects import Object
from trainwright.placement.taints import keeps_away

GPU = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("node", "pod", "words"),
    [
        pytest.param({}, {}, "", id="a plain node takes a plain pod"),
        pytest.param({"taints": [GPU]}, {}, "has the taint gpu=a100:NoSchedule", id="a taint keeps it away"),
        pytest.param(
            {"taints": [GPU]},
            {"tolerations": [{"key": "gpu", "value": "a100", "effect": "NoSchedule"}]},
            "",
            id="a toleration of that value",
        ),
        pytest.param(
            {"taints": [GPU]},
            {"tolerations": [{"key": "gpu", "value": "h100"}]},
            "has the taint gpu=a100:NoSchedule",
            id="a toleration of another value is none",
        ),
        pytest.param({"taints": [GPU]}, {"tolerations": [{"operator": "Exists"}]}, "", id="a toleration of everything"),
        pytest.param({"taints": [{**GPU, "effect": "PreferNoSchedule"}]}, {}, "", id="a taint that only advises"),
        pytest.param({}, {"nodeSelector": {"disk": "ssd"}}, "", id="a label it has"),
        pytest.param({}, {"nodeSelector": {"disk": "hdd"}}, "has not the label disk=hdd", id="a label it has not"),
    ],
)
def test_keeps_away(node: Object, pod: Object, words: str):
    assert keeps_away({"metadata": {"labels": {"disk": "ssd"}}, "spec": node}, {"spec": pod}) == words
