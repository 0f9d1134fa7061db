"""What each agent of an elastic PyTorchJob is told."""

import pytest
from tests.frameworks.test_pytorch import Loopback, env
from tests.reconcile.making import manifest, read

QUICK = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3"


def elastic(policy, workers: int = 2, master: int = 0):
    return read(manifest(master=master, workers=workers, elastic=policy))


def test_a_worker_is_told_all_it_needs_to_join_and_to_survive():
    assert env(elastic({"minReplicas": 1, "maxReplicas": 3}), "Worker-1") == {
        "PYTHONUNBUFFERED": "1",
        "PET_NPROC_PER_NODE": "auto",
        "PET_RDZV_ENDPOINT": "j-worker-0:23456",
        "PET_RDZV_BACKEND": "c10d",
        "PET_NNODES": "1:3",
        "PET_MAX_RESTARTS": "100",
        "PET_RDZV_ID": "j-job-uid",
        "PET_RDZV_CONF": f"{QUICK},is_host=0",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }


def test_what_the_user_says_of_the_rendezvous_is_said_to_the_agents():
    policy = {
        "minReplicas": 1,
        "maxReplicas": 3,
        "rdzvBackend": "c10d",
        "rdzvPort": 1234,
        "rdzvHost": "localhost",
        "rdzvId": "rdzv-id",
        "rdzvConf": [{"key": "k", "value": "v"}, {"key": "k2", "value": "v2"}],
        "maxRestarts": 3,
    }

    told = env(elastic(policy), "Worker-0")

    assert told["PET_NNODES"] == "1:3"
    assert told["PET_RDZV_ENDPOINT"] == "localhost:1234"
    assert told["PET_RDZV_BACKEND"] == "c10d"
    assert told["PET_RDZV_ID"] == "rdzv-id"
    assert told["PET_MAX_RESTARTS"] == "3"
    assert told["PET_RDZV_CONF"] == f"k=v,k2=v2,{QUICK}"


@pytest.mark.parametrize(
    ("policy", "replica", "name", "value"),
    [
        pytest.param({}, "Worker-0", "PET_NNODES", "2:2", id="without a range the number of workers is both bounds"),
        pytest.param({"maxReplicas": 2}, "Worker-0", "PET_NNODES", "2:2", id="only a maximum is the minimum too"),
        pytest.param({"minReplicas": 2}, "Worker-0", "PET_NNODES", "2:2", id="only a minimum is the maximum too"),
        pytest.param({"standalone": True}, "Worker-0", "PET_STANDALONE", "1", id="standalone reads as a number"),
        pytest.param({}, "Worker-0", "PET_STANDALONE", None, id="standalone is only said when asked for"),
        pytest.param({"maxRestarts": 0}, "Worker-0", "PET_MAX_RESTARTS", "0", id="no restarts is an answer too"),
        pytest.param({}, "Worker-0", "PET_RDZV_CONF", f"{QUICK},is_host=1", id="worker 0 hosts the store"),
        pytest.param({}, "Worker-1", "PET_RDZV_CONF", f"{QUICK},is_host=0", id="nobody else hosts the store"),
        pytest.param({}, "Worker-0", "MASTER_ADDR", None, id="without a Master nobody is told of one"),
        pytest.param(
            {"rdzvConf": [{"key": "last_call_timeout", "value": "9"}]},
            "Worker-1",
            "PET_RDZV_CONF",
            "last_call_timeout=9,keep_alive_interval=1,keep_alive_max_attempt=3,is_host=0",
            id="what the user sets is not set again",
        ),
        pytest.param(
            {"rdzvHost": "store", "rdzvBackend": "etcd"}, "Worker-0", "PET_RDZV_CONF", QUICK, id="no host with etcd"
        ),
        pytest.param({"standalone": True}, "Worker-0", "PET_RDZV_CONF", QUICK, id="no host when everyone is alone"),
    ],
)
def test_elastic(policy, replica, name, value):
    assert env(elastic(policy), replica).get(name) == value


def test_a_master_is_told_both_and_counted_as_an_agent():
    told = env(elastic({"minReplicas": 1, "maxReplicas": 3}, master=1), "Master-0")

    assert told["PET_NNODES"] == "2:4"
    assert told["MASTER_ADDR"] == "j-master-0"
    assert told["PET_RDZV_ENDPOINT"] == "j-worker-0:23456"
    assert told["PET_RDZV_CONF"].endswith("is_host=0")


def test_a_home_without_names_says_where_to_meet():
    assert env(elastic({}), "Worker-1", Loopback())["PET_RDZV_ENDPOINT"] == "127.0.0.1:20000"


def test_a_job_made_again_does_not_meet_its_predecessor():
    obj = manifest(workers=1, elastic={})
    again = {**obj, "metadata": {**obj["metadata"], "uid": "another"}}

    assert env(read(obj), "Worker-0")["PET_RDZV_ID"] != env(read(again), "Worker-0")["PET_RDZV_ID"]
