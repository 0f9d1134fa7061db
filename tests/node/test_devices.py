"""GPUs: who gets which."""

import pytest

from trainwright.node.devices import Devices, gpu_ids
from trainwright.node.refusals import Refused


@pytest.mark.parametrize(
    ("count", "caller", "ids"),
    [
        pytest.param(2, {}, ["0", "1"], id="numbered"),
        pytest.param(0, {}, [], id="none"),
        pytest.param(2, {"CUDA_VISIBLE_DEVICES": "5, 7"}, ["5", "7"], id="those the caller sees"),
        pytest.param(1, {"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}, ["GPU-a"], id="no more than offered"),
        pytest.param(4, {"CUDA_VISIBLE_DEVICES": "5"}, ["5"], id="no more than there are"),
    ],
)
def test_gpu_ids(count, caller, ids):
    assert gpu_ids(count, caller) == ids


def container(name, gpus=0, **more):
    limits = {"nvidia.com/gpu": gpus} if gpus else {}
    return {"name": name, "resources": {"limits": limits}, **more}


def pod(*containers, inits=()):
    return {"spec": {"containers": list(containers), "initContainers": list(inits)}}


@pytest.mark.parametrize(
    ("ids", "wanted", "values"),
    [
        pytest.param("", pod(container("a")), {"a": None}, id="no GPUs, none wanted: nothing is said"),
        pytest.param("01", pod(container("a")), {"a": ""}, id="GPUs, none wanted: none is seen"),
        pytest.param("012", pod(container("a", 1), container("b", 2)), {"a": "0", "b": "1,2"}, id="each its own"),
        pytest.param(
            "01", pod(container("a", 1), inits=[container("i", 2)]), {"a": "0", "i": "0,1"}, id="init steps share"
        ),
        pytest.param(
            "01",
            pod(container("a", 1), inits=[container("s", 1, restartPolicy="Always")]),
            {"a": "1", "s": "0"},
            id="sidecars do not",
        ),
    ],
)
def test_take(ids, wanted, values):
    assert Devices(list(ids)).take("u", wanted) == values


def test_what_was_given_back_can_be_had_again():
    devices = Devices(["0"])
    devices.take("a", pod(container("c", 1)))

    with pytest.raises(Refused, match=r"1 nvidia\.com/gpu asked for, but only 0 of this node's 1 are free"):
        devices.take("b", pod(container("c", 1)))
    devices.give_back("a")

    assert devices.take("b", pod(container("c", 1))) == {"c": "0"}
