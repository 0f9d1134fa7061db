"""`tw install` and `tw uninstall` where there is no cluster to ask: what is printed, and what is said beside it."""

import pytest
import yaml


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """Let there be no kubeconfig."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["--without", "webhook"], "did you mean 'webhooks'?", id="a part that is not there"),
        pytest.param(["--watch", "Team"], "'Team' cannot be a namespace", id="a name that is none"),
        pytest.param(["--watch", "a"], "--capacity cpu=64,memory=256Gi", id="an autoscaler that sees no nodes"),
        pytest.param(
            ["--without", "leader-election", "--replicas", "2"], "write --replicas 1", id="two without an election"
        ),
        pytest.param(
            ["--watch", "a", "--without", "autoscaler", "--install-crds"],
            "which --watch does without",
            id="kinds registered without the right to",
        ),
        pytest.param(["--plan", "--offline"], "leave --offline out", id="a plan without a cluster"),
    ],
)
def test_wishes_that_do_not_go_together_are_refused(tw, words, said):
    answer = tw("install", *words)

    assert answer.code == 2
    assert said in answer.err
    assert answer.out == ""


def test_without_a_cluster_everything_is_printed_and_that_is_said(tw):
    asked, offline = tw("install"), tw("install", "--offline")

    assert asked.out == offline.out
    assert "no cluster was asked what it has" in asked.err
    assert offline.err == ""


def test_a_cluster_that_was_named_must_answer(tw):
    answer = tw("install", "--kubeconfig", "/nowhere")

    assert answer.code == 125
    assert "there is no kubeconfig at /nowhere" in answer.err


def test_what_is_left_out_for_some_namespaces_is_said(tw):
    answer = tw("install", "--offline", "--watch", "a,b", "--without", "autoscaler")

    assert "an administrator adds the kinds with: tw install --without operator" in answer.err


def test_what_is_printed_to_be_deleted_was_printed_to_be_installed_or_made_by_the_operator(tw):
    installed = {(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(tw("install").out)}
    removed = {
        (each["kind"], each["metadata"]["name"])
        for each in yaml.safe_load_all(tw("uninstall", "--offline", "--force").out)
    }

    assert removed == {*installed, ("Lease", "trainwright")}
