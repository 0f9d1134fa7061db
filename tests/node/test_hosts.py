"""/etc/hosts: what resolves here is what would resolve on a cluster."""

import asyncio
import time
from typing import Any

import pytest

from trainwright.node.hosts import HostsFiles, hostname, hosts, rewrite


def pod(name, ip="", *, namespace="ns", labels=None, ready=True, phase="Running", deleted=False, **spec):
    meta = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", "labels": labels or {"job": "j"}}
    if deleted:
        meta["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": meta,
        "spec": spec,
        "status": {"phase": phase, "conditions": conditions, **({"podIP": ip} if ip else {})},
    }


def service(name, selector=None, *, namespace="ns", unready=False, **spec):
    selector = {"job": "j"} if selector is None else selector
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": unready, **spec},
    }


def resolve(text):
    """What each name stands for, without localhost and the reverse lines."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        address, *names = line.split("#")[0].split() or [""]
        if address.startswith("10."):
            for name in names:
                found.setdefault(name, []).append(address)
    return found


def same(names, addresses):
    return dict.fromkeys(names, addresses)


ME = pod("me", "10.0.0.1", labels={"x": "y"})
FULL = "svc.cluster.local"


@pytest.mark.parametrize(
    ("services", "pods", "names"),
    [
        pytest.param([], [pod("other", "10.0.0.2")], {}, id="a pod's name alone does not resolve"),
        pytest.param(
            [service("job")],
            [pod("a", "10.0.0.2"), pod("b", "10.0.0.3")],
            same(("job", "job.ns", "job.ns.svc", f"job.ns.{FULL}"), ["10.0.0.2", "10.0.0.3"]),
            id="a Service's name stands for all its pods, in every form",
        ),
        pytest.param(
            [service("job")],
            [pod("a", "10.0.0.2", hostname="a", subdomain="job")],
            same([f"{n}{s}" for n in ("job", "a.job") for s in ("", ".ns", ".ns.svc", f".ns.{FULL}")], ["10.0.0.2"]),
            id="hostname and subdomain make a name of a pod's own",
        ),
        pytest.param([], [pod("a", "10.0.0.2", hostname="a", subdomain="job")], {}, id="but not without the Service"),
        pytest.param(
            [service("job")],
            [pod("a", "10.0.0.2", subdomain="job")],
            same(("job", "job.ns", "job.ns.svc", f"job.ns.{FULL}"), ["10.0.0.2"]),
            id="nor without the hostname",
        ),
        pytest.param([service("job")], [pod("a", "10.0.0.2", ready=False)], {}, id="an unready pod is left out"),
        pytest.param(
            [service("job", unready=True)],
            [pod("a", "10.0.0.2", ready=False)],
            same(("job", "job.ns", "job.ns.svc", f"job.ns.{FULL}"), ["10.0.0.2"]),
            id="unless the Service publishes it",
        ),
        pytest.param([service("job")], [pod("a", "10.0.0.2", deleted=True)], {}, id="so is one that is being deleted"),
        pytest.param([service("job", unready=True)], [pod("a")], {}, id="one without address"),
        pytest.param(
            [service("job", unready=True)], [pod("a", "10.0.0.2", phase="Failed")], {}, id="one that has ended"
        ),
        pytest.param([service("job", {"no": "no"})], [pod("a", "10.0.0.2")], {}, id="one that is not selected"),
        pytest.param(
            [service("job", {"job": "j", "role": "r"})], [pod("a", "10.0.0.2")], {}, id="one that is half selected"
        ),
        pytest.param([service("job", {})], [pod("a", "10.0.0.2")], {}, id="a Service without selector says nothing"),
        pytest.param([service("job", type="ExternalName")], [pod("a", "10.0.0.2")], {}, id="nor does an ExternalName"),
        pytest.param(
            [service("job", clusterIP="10.96.0.1")],
            [pod("a", "10.0.0.2")],
            same(("job", "job.ns", "job.ns.svc", f"job.ns.{FULL}"), ["10.0.0.2"]),
            id="one with a cluster IP behaves as one without",
        ),
        pytest.param(
            [service("job", namespace="far")],
            [pod("a", "10.0.0.2", namespace="far")],
            same(("job.far", "job.far.svc", f"job.far.{FULL}"), ["10.0.0.2"]),
            id="another namespace needs the qualified forms",
        ),
        pytest.param(
            [service("job"), service("job", namespace="far")],
            [pod("a", "10.0.0.2"), pod("a", "10.0.0.9", namespace="far")],
            {
                **same(("job", "job.ns", "job.ns.svc", f"job.ns.{FULL}"), ["10.0.0.2"]),
                **same(("job.far", "job.far.svc", f"job.far.{FULL}"), ["10.0.0.9"]),
            },
            id="the same names in two namespaces do not meet",
        ),
    ],
)
def test_names(services, pods, names):
    found = resolve(hosts(services, [*pods, ME], ME))

    assert found.pop("me") == ["10.0.0.1"]
    assert found == names


@pytest.mark.parametrize(
    ("spec", "line", "name"),
    [
        pytest.param({}, "10.0.0.1\tme\n", "me", id="the pod's name"),
        pytest.param({"hostname": "h"}, "10.0.0.1\th\n", "h", id="the hostname"),
        pytest.param(
            {"hostname": "h", "subdomain": "s"}, f"10.0.0.1\th.s.ns.{FULL}\th\n", "h", id="the full name first"
        ),
        pytest.param({"subdomain": "s"}, f"10.0.0.1\tme.s.ns.{FULL}\tme\n", "me", id="with the pod's name as host"),
        pytest.param(
            {"hostname": "h", "subdomain": "s", "setHostnameAsFQDN": True},
            f"10.0.0.1\th.s.ns.{FULL}\th\n",
            f"h.s.ns.{FULL}",
            id="the full name as host name, when asked",
        ),
    ],
)
def test_own_line_and_host_name(spec, line, name):
    me = pod("me", "10.0.0.1", **spec)

    assert line in hosts([], [me], me)
    assert hostname(me) == name


def test_the_file_begins_with_localhost():
    assert hosts([], [ME], ME).splitlines()[1:3] == [
        "127.0.0.1\tlocalhost",
        "::1\tlocalhost ip6-localhost ip6-loopback",
    ]


def test_a_reverse_lookup_of_a_mapped_address_finds_the_first_name():
    a = pod("a", "10.0.0.2", hostname="a", subdomain="job")

    assert f"::ffff:10.0.0.2\ta.job.ns.{FULL}\n" in hosts([service("job")], [a], ME)


def test_host_aliases_are_added():
    me = pod("me", "10.0.0.1", hostAliases=[{"ip": "10.9.9.9", "hostnames": ["x", "y"]}])

    assert resolve(hosts([], [me], me))["y"] == ["10.9.9.9"]


def test_a_file_is_rewritten_in_place(tmp_path):
    file = tmp_path / "hosts"
    rewrite(file, "a long first text")
    inode = file.stat().st_ino

    rewrite(file, "short")

    assert (file.read_text(), file.stat().st_ino) == ("short", inode)


async def test_files_follow_pods_and_services(tmp_path):
    services: list[Any] = [service("job", unready=True)]
    a, b = (pod(name, ready=False, hostname=name, subdomain="job") for name in "ab")
    keeper = HostsFiles(lambda: services, lambda: [a])  # the API does not show b yet, and no address of a
    running = asyncio.create_task(keeper.run())

    await keeper.add(a, "10.0.0.1", tmp_path / "a")
    await keeper.add(b, "10.0.0.2", tmp_path / "b")

    for name in "ab":
        found = resolve((tmp_path / name).read_text())
        assert (found["a.job"], found["b.job"]) == (["10.0.0.1"], ["10.0.0.2"])
    keeper.remove(b["metadata"]["uid"])
    await keeper.add(a, "10.0.0.1", tmp_path / "a")
    assert "b.job" not in resolve((tmp_path / "a").read_text())
    running.cancel()


async def test_the_api_server_has_a_name_where_pods_can_reach_it(tmp_path):
    keeper = HostsFiles(list, list, "10.0.0.254")
    running = asyncio.create_task(keeper.run())

    await keeper.add(pod("a"), "10.0.0.1", tmp_path / "a")

    found = resolve((tmp_path / "a").read_text())
    for name in ("kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"):
        assert found[name] == ["10.0.0.254"]
    running.cancel()


def test_two_hundred_pods_cost_little():
    pods = [
        pod(f"j{j}-{i}", f"10.0.{j}.{i}", labels={"job": f"j{j}"}, hostname=f"j{j}-{i}", subdomain=f"j{j}")
        for j in range(50)
        for i in range(4)
    ]
    services = [service(f"j{j}", {"job": f"j{j}"}) for j in range(50)]
    begun = time.perf_counter()

    hosts(services, pods, pods[0])

    assert time.perf_counter() - begun < 0.2
