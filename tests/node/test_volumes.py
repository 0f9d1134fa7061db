"""Volumes: what is written where, and what a container sees."""

import base64
from pathlib import Path

import pytest

from trainwright.node.base import Mount
from trainwright.node.refusals import Missing, Refused
from trainwright.node.sources import Facts, Found
from trainwright.node.tokens import Wish
from trainwright.node.volumes import Folders, Volumes, left_out, mounts, payload, references, wishes, write

SECRET = {"metadata": {"name": "key"}, "data": {"id": base64.b64encode(b"\x00raw").decode()}}
FOUND: Found = {
    ("ConfigMap", "conf"): {"metadata": {"name": "conf"}, "data": {"a": "1", "b": "2"}},
    ("Secret", "key"): SECRET,
}


def pod(*volumes, **container):
    return {
        "metadata": {"name": "p", "namespace": "ns", "labels": {"b": "2", "a": 'x"y'}},
        "spec": {"containers": [{"name": "main", **container}], "volumes": list(volumes)},
    }


FACTS = Facts(pod(resources={"limits": {"memory": "1Gi"}}), allocatable={"cpu": "4"})


@pytest.fixture
def folders(tmp_path):
    return Folders(tmp_path / "pod", tmp_path / "claims")


@pytest.mark.parametrize(
    ("volume", "files"),
    [
        pytest.param({"configMap": {"name": "conf"}}, {"a": (b"1", 0o644), "b": (b"2", 0o644)}, id="a ConfigMap"),
        pytest.param(
            {"secret": {"secretName": "key", "defaultMode": 0o400}}, {"id": (b"\x00raw", 0o400)}, id="a Secret"
        ),
        pytest.param(
            {"configMap": {"name": "conf", "items": [{"key": "a", "path": "x/y", "mode": 0o600}]}},
            {"x/y": (b"1", 0o600)},
            id="chosen keys at chosen paths",
        ),
        pytest.param({"configMap": {"name": "no", "optional": True}}, {}, id="an optional one missing"),
        pytest.param(
            {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            {"labels": (b'a="x\\"y"\nb="2"', 0o644)},
            id="labels, as Kubernetes writes them",
        ),
        pytest.param(
            {
                "downwardAPI": {
                    "items": [{"path": "m", "resourceFieldRef": {"containerName": "main", "resource": "limits.memory"}}]
                }
            },
            {"m": (b"1073741824", 0o644)},
            id="a resource",
        ),
        pytest.param(
            {
                "projected": {
                    "defaultMode": 0o440,
                    "sources": [
                        {"configMap": {"name": "conf", "items": [{"key": "a", "path": "c"}]}},
                        {"secret": {"name": "key"}},
                        {"serviceAccountToken": {"path": "token"}},
                    ],
                }
            },
            {"c": (b"1", 0o440), "id": (b"\x00raw", 0o400)},
            id="several in one",
        ),
        pytest.param({"emptyDir": {}}, None, id="a folder has none"),
    ],
)
def test_payload(volume, files):
    assert payload({"name": "v", **volume}, FACTS, FOUND) == files


def test_a_token_is_for_the_pod_alone():
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}
    volume = {"name": "v", "projected": {"sources": [source]}}

    assert list(wishes(pod(volume, {"name": "w", "emptyDir": {}}))) == [Wish(seconds=3607)]
    assert payload(volume, FACTS, FOUND, {Wish(seconds=3607): "t"}) == {"token": (b"t", 0o600)}


@pytest.mark.parametrize(
    ("volume", "error", "words"),
    [
        pytest.param({"configMap": {"name": "no"}}, Missing, "there is no ConfigMap 'no'", id="no such ConfigMap"),
        pytest.param(
            {"configMap": {"name": "conf", "items": [{"key": "z", "path": "z"}]}},
            Missing,
            "ConfigMap 'conf' has no key 'z'",
            id="key",
        ),
        pytest.param(
            {"configMap": {"name": "conf", "items": [{"key": "a", "path": "../a"}]}}, Refused, "leads out", id="escape"
        ),
        pytest.param({"nfs": {}}, Refused, r"spec.volumes\[0\] \(v\): nfs volumes are not mounted here", id="nfs"),
        pytest.param({"hostPath": {"path": "/no/such"}}, Missing, "/no/such does not exist", id="no such path"),
        pytest.param({"hostPath": {"path": "/etc", "type": "File"}}, Missing, "/etc is not a file", id="wrong type"),
        pytest.param({"hostPath": {"path": "/etc", "type": "Dir"}}, Refused, "unknown hostPath type 'Dir'", id="type"),
        pytest.param({"persistentVolumeClaim": {"claimName": "../x"}}, Refused, "leads out", id="claim"),
    ],
)
def test_what_cannot_be_made_says_so(volume, error, words, folders):
    with pytest.raises(error, match=words):
        Volumes(folders).prepare(pod({"name": "v", **volume}), FACTS, FOUND)


def test_files_have_contents_modes_and_the_usual_links(folders):
    volume = {"name": "v", "configMap": {"name": "conf", "items": [{"key": "a", "path": "d/x", "mode": 0o600}]}}

    source = Volumes(folders).prepare(pod(volume), FACTS, FOUND)["v"]

    assert (source / "d" / "x").read_text() == "1"
    assert (source / "d" / "x").stat().st_mode & 0o777 == 0o600
    assert (source / "d").is_symlink()
    assert (source / "d").readlink() == Path("..data/d")


def test_a_change_replaces_everything_in_one_step(tmp_path):
    write(tmp_path / "v", {"a": (b"1", 0o644), "gone": (b"x", 0o644)})
    before = (tmp_path / "v" / "..data").resolve()

    write(tmp_path / "v", {"a": (b"2", 0o644), "new": (b"y", 0o644)})

    assert {path.name for path in (tmp_path / "v").iterdir() if path.name[:2] != ".."} == {"a", "new"}
    assert (tmp_path / "v" / "a").read_text() == "2"
    assert not before.exists()


def test_nothing_is_written_when_nothing_changed(folders):
    volumes, wanted = Volumes(folders), pod({"name": "v", "configMap": {"name": "conf"}})
    source = volumes.prepare(wanted, FACTS, FOUND)["v"]
    before = (source / "..data").resolve()

    volumes.prepare(wanted, FACTS, FOUND)

    assert (source / "..data").resolve() == before


def test_folders_are_the_pods_the_claims_and_the_hosts(folders, tmp_path):
    wanted = pod(
        {"name": "disk", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "host", "hostPath": {"path": f"{tmp_path}/made", "type": "DirectoryOrCreate"}},
    )
    volumes = Volumes(folders)

    sources = volumes.prepare(wanted, FACTS, {})

    assert {name: path.relative_to(tmp_path) for name, path in sources.items()} == {
        "disk": Path("pod/volumes/disk"),
        "shm": Path("pod/volumes/shm"),
        "claim": Path("claims/data"),
        "host": Path("made"),
    }
    volumes.remove()
    assert {name for name, path in sources.items() if path.exists()} == {"claim", "host"}


def test_references_name_every_object():
    wanted = pod(
        {"name": "a", "configMap": {"name": "c"}},
        {"name": "b", "secret": {"secretName": "s"}},
        {"name": "p", "projected": {"sources": [{"configMap": {"name": "c2"}}, {"secret": {"name": "s2"}}]}},
        {"name": "e", "emptyDir": {}},
    )

    assert list(references(wanted)) == [("ConfigMap", "c"), ("Secret", "s"), ("ConfigMap", "c2"), ("Secret", "s2")]


def test_a_token_that_is_left_out_is_said():
    volume = {"name": "api", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}

    assert list(left_out(pod(volume))) == ["volume 'api' has no file 'token': no service account token is issued here"]


def test_the_token_that_every_pod_of_an_api_server_gets_is_not_missed():
    volume = {"name": "kube-api-access-x7x2p", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}

    assert not list(left_out(pod(volume)))


def test_nor_is_it_refused_where_nothing_can_be_mounted(tmp_path):
    name = "kube-api-access-x7x2p"
    wanted = pod({"name": name, "projected": {"sources": []}}, volumeMounts=[{"name": name, "mountPath": "/s"}])

    found = mounts(wanted["spec"]["containers"][0], "", wanted, {name: tmp_path}, {})

    assert found == (Mount(tmp_path, "/s", read_only=True, optional=True),)


@pytest.mark.parametrize(
    ("mount", "expected"),
    [
        pytest.param({"mountPath": "/data"}, ("", "/data", False), id="a folder"),
        pytest.param({"mountPath": "/data/"}, ("", "/data", False), id="a slash too many"),
        pytest.param({"mountPath": "/data", "readOnly": True}, ("", "/data", True), id="read only"),
        pytest.param({"mountPath": "/d", "subPath": "in/side"}, ("in/side", "/d", False), id="a folder inside, made"),
        pytest.param({"mountPath": "/d", "subPathExpr": "$(P)"}, ("pod-1", "/d", False), id="named by a variable"),
    ],
)
def test_mounts(mount, expected, tmp_path):
    wanted = pod({"name": "v", "emptyDir": {}}, volumeMounts=[{"name": "v", **mount}])
    source, target, read_only = expected

    found = mounts(wanted["spec"]["containers"][0], "spec.containers[0]", wanted, {"v": tmp_path}, {"P": "pod-1"})

    assert found == (Mount(tmp_path / source, target, read_only),)


def test_written_volumes_are_read_only_and_a_sub_path_is_the_file_itself(folders):
    wanted = pod(
        {"name": "v", "configMap": {"name": "conf"}},
        volumeMounts=[{"name": "v", "mountPath": "/c"}, {"name": "v", "mountPath": "/f", "subPath": "a"}],
    )
    sources = Volumes(folders).prepare(wanted, FACTS, FOUND)

    whole, single = mounts(wanted["spec"]["containers"][0], "", wanted, sources, {})

    assert whole.read_only
    assert single.source.is_file()
    assert single.source.read_text() == "1"


def test_outer_mounts_come_first(tmp_path):
    wanted = pod(
        {"name": "v", "emptyDir": {}},
        volumeMounts=[{"name": "v", "mountPath": "/a/b/c"}, {"name": "v", "mountPath": "/a"}],
    )

    found = mounts(wanted["spec"]["containers"][0], "", wanted, {"v": tmp_path}, {})

    assert [mount.target for mount in found] == ["/a", "/a/b/c"]


def test_shared_memory_needs_no_mount(tmp_path):
    wanted = pod(
        {"name": "v", "emptyDir": {"medium": "Memory"}},
        volumeMounts=[{"name": "v", "mountPath": "/dev/shm"}, {"name": "v", "mountPath": "/cache"}],
    )

    found = mounts(wanted["spec"]["containers"][0], "", wanted, {"v": tmp_path}, {})

    assert [mount.target for mount in found] == ["/cache"]


def test_a_folder_at_its_own_path_needs_no_mount(tmp_path):
    wanted = pod(
        {"name": "v", "hostPath": {"path": str(tmp_path)}}, volumeMounts=[{"name": "v", "mountPath": str(tmp_path)}]
    )

    assert mounts(wanted["spec"]["containers"][0], "", wanted, {"v": tmp_path}, {}) == ()


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        pytest.param({"name": "no", "mountPath": "/x"}, "there is no volume 'no'", id="no such volume"),
        pytest.param({"name": "v", "mountPath": "x"}, "'x' is not absolute", id="a relative path"),
        pytest.param({"name": "v", "mountPath": "/x", "subPath": "../y"}, "leads out", id="a sub path that escapes"),
        pytest.param({"name": "v", "mountPath": "/x", "subPath": "link"}, "leads out", id="a link that escapes"),
    ],
)
def test_mounts_that_make_no_sense_are_refused(mount, words, tmp_path):
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "link").symlink_to("/etc")
    wanted = pod({"name": "v", "emptyDir": {}}, volumeMounts=[mount])

    with pytest.raises(Refused, match=words):
        mounts(wanted["spec"]["containers"][0], "spec.containers[0]", wanted, {"v": tmp_path / "v"}, {})
