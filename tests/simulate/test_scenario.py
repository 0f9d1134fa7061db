"""What a scenario file may say, and the sentence for each thing it may not."""

import pytest
import yaml
from tests.conftest import ROOT
from tests.simulate.scenarios import scenario

from trainwright.core.errors import ManifestError
from trainwright.simulate import problems, read

SHIPPED = sorted((ROOT / "src" / "trainwright" / "simulate" / "scenarios").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_everything_that_is_shipped_is_right_and_says_what_it_is_about(path):
    document = yaml.safe_load(path.read_text())

    assert problems(document) == []
    assert read(document).description


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        pytest.param(
            {"jobs__0__elastic__min": 5},
            "jobs[0].elastic.min: 5 is more than max (4); lower it, or raise max",
            id="min more than max",
        ),
        pytest.param(
            {"jobs__0__elastic__initial": 5},
            "jobs[0].elastic.initial: 5 is not between min (1) and max (4)",
            id="a beginning outside min and max",
        ),
        pytest.param(
            {"jobs__0__elastic__min": -1},
            "jobs[0].elastic.min: must be at least 1, found -1",
            id="a negative min",
        ),
        pytest.param(
            {"jobs__0__elastic__max": 10**12},
            "jobs[0].elastic.max: must be at most 100000, found 1000000000000",
            id="a huge max",
        ),
        pytest.param(
            {"jobs__0__elastic__max": 100_000, "jobs__0__count": 11},
            "jobs: all jobs at their largest are 1100011 pods; at most 1000000 can be simulated",
            id="more pods than anybody waits for",
        ),
        pytest.param(
            {"scheduler": {"every": 1e-9}},
            "scheduler.every: must be at least 0.001 seconds, found 1e-09",
            id="a scheduler that never rests",
        ),
        pytest.param({"until": 0}, "until: must be more than 0", id="a run of no length"),
        pytest.param(
            {"until": 10**9},
            "until: must be at most 31622400 seconds (a year), found 1000000000",
            id="a run of thirty years",
        ),
        pytest.param(
            {"jobs__0__arrives__at": -5},
            "jobs[0].arrives.at: must not be less than 0, found -5",
            id="a time before all",
        ),
        pytest.param(
            {"nodes__0__offers": {"cpu": 0}},
            "nodes[0].offers.cpu: must be more than 0, found 0; or leave it out",
            id="nodes of no size",
        ),
        pytest.param(
            {"nodes__0__offers": {"cpu": "-1"}},
            "nodes[0].offers.cpu: must be more than 0, found '-1'; or leave it out",
            id="nodes of less than no size",
        ),
        pytest.param(
            {"nodes__0__offers": {}}, "nodes[0].offers: a node must offer something, such as cpu: 8", id="empty nodes"
        ),
        pytest.param({"nodes": []}, "nodes: there must be at least one group of nodes", id="no nodes"),
        pytest.param(
            {"nodes__0__count": 0}, "nodes[0].count: must be at least 1, found 0", id="a group of nodes without nodes"
        ),
        pytest.param(
            {"jobs__0__elastic__requests": {"nvidia.com/gpu": 1}},
            "jobs[0].elastic.requests[nvidia.com/gpu]: no node offers nvidia.com/gpu; take it out, or add it to a node "
            "(there is: cpu)",
            id="a resource that no node has",
        ),
        pytest.param(
            {"jobs__0__elastic__requests": {"cpu": 11}},
            "jobs[0].elastic.requests.cpu: 11 is more than the largest node offers (10); lower it, or add a larger "
            "node",
            id="a pod that no node holds",
        ),
        pytest.param(
            {
                "nodes": [{"name": "a", "offers": {"cpu": 9}}, {"name": "b", "offers": {"memory": 9}}],
                "jobs__0__elastic__requests": {"cpu": 1, "memory": 1},
            },
            "jobs[0].elastic.requests: each of these is offered somewhere, but not by one node together; a pod needs "
            "one node",
            id="a pod that would need two nodes",
        ),
        pytest.param(
            {"jobs__0__elastic__requests": {"cpu": "-1"}},
            "jobs[0].elastic.requests.cpu: must not be less than 0, found '-1'",
            id="a negative request",
        ),
        pytest.param(
            {"jobs__0__elastic__requests": {"cpu": "2 cores"}},
            "jobs[0].elastic.requests.cpu: '2 cores' is not a quantity; write a number with an optional suffix, such "
            "as 500m, 2 or 4Gi",
            id="a request that is no quantity",
        ),
        pytest.param(
            {"jobs__0__elastik": {}},
            "jobs[0].elastik: unknown field 'elastik'; did you mean 'elastic'? (there are: arrives, count, elastic, "
            "name, roles, work)",
            id="a field that is not known",
        ),
        pytest.param(
            {"jobs__0__elastic": None},
            "jobs[0].elastic: missing; the pods whose number may change",
            id="a job without elastic pods",
        ),
        pytest.param(
            {"jobs__0__arrives": {"every": 5, "within": 9}},
            "jobs[0].arrives: has both every and within; leave one of them out",
            id="two ways to arrive",
        ),
        pytest.param(
            {"jobs__0__work": {"steps": 5, "stepSeconds": 0}},
            "jobs[0].work.stepSeconds: must be more than 0",
            id="work that takes no time",
        ),
        pytest.param(
            {
                "jobs__0__work": {
                    "steps": 5,
                    "stepSeconds": 1,
                    "speed": [{"replicas": 4, "speed": 3}, {"replicas": 2, "speed": 2}],
                }
            },
            "jobs[0].work.speed[1].replicas: must be more than the 4 of the row before, found 2; sort the rows",
            id="a speed curve out of order",
        ),
        pytest.param(
            {"outages": [{"at": 1, "nodes": "nod"}]},
            "outages[0].nodes: there are no nodes called 'nod' (there are: node)",
            id="an outage of nodes that are not there",
        ),
        pytest.param(
            {"outages": [{"at": 1, "nodes": "node", "count": 3}]},
            "outages[0].count: there are only 2 of node, found 3",
            id="an outage of more nodes than there are",
        ),
        pytest.param(
            {"outages": [{"at": 9, "nodes": "node", "back": 3}]},
            "outages[0].back: must be later than at (9), found 3",
            id="nodes that are back before they are lost",
        ),
        pytest.param(
            {"measure": {"steady": [5, 3]}},
            "measure.steady: must be two times, from and to, such as [300, 500]",
            id="a window that ends before it begins",
        ),
        pytest.param(
            {"measure": {"resource": "memory"}},
            "measure.resource: no node offers memory (there is: cpu)",
            id="measuring what is not there",
        ),
        pytest.param(
            {"maxLoad": 1.5},
            "maxLoad: must be at most 1, the whole cluster; found 1.5",
            id="more than the whole cluster",
        ),
    ],
)
def test_a_scenario_that_is_wrong_says_what_would_be_right(changes, sentence):
    with pytest.raises(ManifestError) as caught:
        read(scenario(**changes))

    assert str(caught.value) == sentence


def test_everything_that_is_wrong_is_said_together():
    wrong = problems(scenario(until=-1, jobs__0__elastic__min=9, maxLoad=2))

    assert [problem.path for problem in wrong] == ["until", "jobs[0].elastic.min", "maxLoad"]


def test_the_scenario_of_the_manual_is_right():
    page = (ROOT / "docs" / "elasticity.md").read_text()
    document = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])

    assert problems(document) == []
