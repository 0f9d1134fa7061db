"""Ports of one's own on 127.0.0.1."""

import socket

from trainwright.api.common import Job, RunPolicy
from trainwright.core.resources import POD
from trainwright.operator.loopback import LoopbackNet


def job(name):
    return Job(POD, "default", name, f"uid-{name}", (), RunPolicy(), (), None, {})


def test_a_replica_keeps_its_port_and_shares_it_with_nobody(tmp_path):
    with LoopbackNet(tmp_path) as net:
        first = net.endpoint(job("a"), "Worker", 0, 23456)

        assert net.endpoint(job("a"), "Worker", 0, 23456) == first
        assert first.host == "127.0.0.1"
        others = [net.endpoint(job("b"), "Worker", 0, 23456), net.endpoint(job("a"), "Worker", 1, 23456)]
        assert len({first.port, *(other.port for other in others)}) == 3


def test_two_homes_at_once_never_meet_and_a_closed_one_gives_back(tmp_path):
    with LoopbackNet(tmp_path) as one:
        with LoopbackNet(tmp_path) as two:
            theirs = two.endpoint(job("a"), "Worker", 0, 1).port
            assert one.endpoint(job("a"), "Worker", 0, 1).port != theirs
        with LoopbackNet(tmp_path) as three:
            assert three.endpoint(job("a"), "Worker", 0, 1).port == theirs


def test_a_port_in_use_on_the_host_is_passed_over(tmp_path):
    with LoopbackNet(tmp_path) as net:
        taken = net.endpoint(job("a"), "Worker", 0, 1).port
    with socket.socket() as somebody, LoopbackNet(tmp_path) as net:
        somebody.bind(("127.0.0.1", taken))
        assert net.endpoint(job("a"), "Worker", 0, 1).port != taken
