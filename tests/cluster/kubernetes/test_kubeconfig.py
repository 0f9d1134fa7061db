"""Kubeconfig files: merged as kubectl merges them, every way to say who one is, and what is wrong with a broken one."""

import base64
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.cluster.kubernetes.kubeconfig import Access, Material, Plugin, Server, User, in_cluster, load
from trainwright.core.errors import HomeError

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


def config(path: Path, *, cluster: object = None, user: object = None, name: str = "main", **more: object) -> Path:
    """Write a kubeconfig with one context."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster or {"server": f"https://{name}:6443"}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"{name}-space"}}],
        **more,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content))
    return path


def read(folder: Path, **entries: Any) -> Access:
    return load(str(config(folder / "config", **entries)), environ={})


class TestWhere:
    def test_the_file_that_is_named(self, tmp_path):
        path = config(tmp_path / "named")
        access = load(str(path), environ={"KUBECONFIG": "/no/such/file"})
        assert (access.server.url, access.namespace, access.context) == ("https://main:6443", "main-space", "main")

    def test_the_home_of_the_user(self, tmp_path):
        config(tmp_path / ".kube" / "config")
        assert load(environ={"HOME": str(tmp_path)}).context == "main"

    def test_a_file_of_the_environment_comes_before_the_home(self, tmp_path):
        config(tmp_path / ".kube" / "config")
        path = config(tmp_path / "other", name="other")
        assert load(environ={"HOME": str(tmp_path), "KUBECONFIG": str(path)}).context == "other"

    def test_a_named_file_that_is_not_there(self, tmp_path):
        with pytest.raises(HomeError, match="there is no kubeconfig at"):
            load(str(tmp_path / "absent"), environ={})

    def test_nothing_anywhere(self, tmp_path):
        with pytest.raises(HomeError, match="name one with --kubeconfig"):
            load(environ={"HOME": str(tmp_path)})


class TestMerge:
    def files(self, folder: Path) -> dict[str, str]:
        first = config(folder / "first", user={"token": "first"})
        second = config(folder / "second", name="second", user={"token": "second"})
        third = config(folder / "third", cluster={"server": "https://hidden"}, user={"token": "hidden"})
        return {"KUBECONFIG": f"{first}:{folder / 'absent'}::{second}:{third}"}

    def test_the_first_current_context_holds(self, tmp_path):
        assert load(environ=self.files(tmp_path)).context == "main"

    def test_the_first_to_name_something_holds(self, tmp_path):
        access = load(environ=self.files(tmp_path))
        assert (access.server.url, access.user.token) == ("https://main:6443", "first")

    def test_a_later_file_adds(self, tmp_path):
        access = load(context="second", environ=self.files(tmp_path))
        assert (access.server.url, access.user.token) == ("https://second:6443", "second")

    def test_a_context_may_join_what_stands_in_two_files(self, tmp_path):
        joined = [{"name": "joined", "context": {"cluster": "second", "user": "main"}}]
        files = self.files(tmp_path)["KUBECONFIG"]
        path = config(tmp_path / "fourth", contexts=joined)
        access = load(context="joined", environ={"KUBECONFIG": f"{files}:{path}"})
        assert (access.server.url, access.user.token) == ("https://second:6443", "first")
        assert access.namespace == "default"

    def test_paths_are_beside_the_file_that_names_them(self, tmp_path):
        config(tmp_path / "a" / "config", name="a")
        user = {"tokenFile": "tokens/one", "client-certificate": "/abs/c", "client-key": "k"}
        config(tmp_path / "b" / "config", name="b", user=user)
        access = load(context="b", environ={"KUBECONFIG": f"{tmp_path}/a/config:{tmp_path}/b/config"})
        assert access.user.token_file == tmp_path / "b" / "tokens" / "one"
        assert access.user.certificate == Material(Path("/abs/c"))
        assert access.user.key == Material(tmp_path / "b" / "k")


class TestServer:
    @pytest.mark.parametrize(
        ("cluster", "server"),
        [
            pytest.param({"server": "https://x/"}, Server("https://x"), id="a slash at the end"),
            pytest.param({"server": "https://x/k8s/c1"}, Server("https://x/k8s/c1"), id="a path, as gateways have"),
            pytest.param(
                {"server": "https://x", "certificate-authority-data": base64.b64encode(b"pem").decode()},
                Server("https://x", Material(data=b"pem")),
                id="an authority in the file",
            ),
            pytest.param(
                {"server": "https://x", "insecure-skip-tls-verify": True},
                Server("https://x", insecure=True),
                id="insecure, because it says so",
            ),
            pytest.param(
                {"server": "https://x", "insecure-skip-tls-verify": "true"},
                Server("https://x"),
                id="not insecure because of a word",
            ),
            pytest.param(
                {"server": "https://x", "tls-server-name": "y", "proxy-url": "http://p:1"},
                Server("https://x", tls_name="y", proxy="http://p:1"),
                id="another name, and a proxy",
            ),
        ],
    )
    def test_read(self, tmp_path, cluster, server):
        assert read(tmp_path, cluster=cluster).server == server

    def test_data_wins_over_a_file(self, tmp_path):
        cluster = {"server": "https://x", "certificate-authority": "f", "certificate-authority-data": "cGVt"}
        assert read(tmp_path, cluster=cluster).server.ca == Material(data=b"pem")


class TestUser:
    @pytest.mark.parametrize(
        ("entry", "user"),
        [
            pytest.param({}, User(), id="nobody"),
            pytest.param({"token": " abc\n"}, User(token="abc"), id="a token"),
            pytest.param({"username": "u", "password": "p"}, User(username="u", password="p"), id="name and password"),
            pytest.param(
                {"as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"x/y": ["1"]}},
                User(
                    impersonate=(
                        ("Impersonate-User", "jane"),
                        ("Impersonate-Uid", "7"),
                        ("Impersonate-Group", "a"),
                        ("Impersonate-Group", "b"),
                        ("Impersonate-Extra-x%2Fy", "1"),
                    )
                ),
                id="in somebody else's name",
            ),
            pytest.param(
                {"exec": {"apiVersion": V1, "command": "login", "interactiveMode": "Never", "args": ["--eks", 1]}},
                User(plugin=Plugin("login", V1, args=("--eks", "1"), interactive="Never")),
                id="a plugin",
            ),
            pytest.param(
                {"exec": {"apiVersion": V1BETA1, "command": "login", "env": [{"name": "A", "value": "b"}]}},
                User(plugin=Plugin("login", V1BETA1, env={"A": "b"}, interactive="IfAvailable")),
                id="an older plugin, which need not say whether it asks",
            ),
        ],
    )
    def test_read(self, tmp_path, entry, user):
        assert read(tmp_path, user=entry).user == user

    def test_a_plugin_with_a_path_is_beside_the_file(self, tmp_path):
        entry = {"exec": {"apiVersion": V1BETA1, "command": "./bin/login"}}
        plugin = read(tmp_path, user=entry).user.plugin
        assert plugin
        assert plugin.command == str(tmp_path / "bin" / "login")


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        (
            {"cluster": {"server": "host:6443"}},
            r"cluster 'main': server: found 'host:6443', expected https://HOST:PORT",
        ),
        (
            {"cluster": {"server": "unix:api.sock"}},
            r"found 'unix:api.sock', expected https://HOST:PORT or unix:///PATH",
        ),
        ({"cluster": {"server": "https://x", "certificate-authority-data": "?"}}, "authority-data is not base64"),
        (
            {"cluster": {"server": "https://x", "certificate-authority": "f", "insecure-skip-tls-verify": True}},
            "exclude each other",
        ),
        (
            {"cluster": {"server": "https://x", "proxy-url": "socks5://p"}},
            "proxy-url: found 'socks5://p', expected http",
        ),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "auth-provider 'gcp' was removed from Kubernetes in 1.26"),
        ({"user": {"client-certificate": "c"}}, "client-certificate is given but client-key is not"),
        ({"user": {"client-key": "c"}}, "client-key is given but client-certificate is not"),
        ({"user": {"token": "t", "username": "u"}}, "token and username exclude each other"),
        (
            {"user": {"token": "t", "exec": {"apiVersion": V1BETA1, "command": "x"}}},
            "token and exec exclude each other",
        ),
        ({"user": {"token": "a\nb"}}, "cannot stand in an HTTP header"),
        ({"user": {"as-groups": ["a"]}}, "need as: whom to act for"),
        ({"user": {"exec": {"apiVersion": "v1alpha1", "command": "x"}}}, "exec.apiVersion: found 'v1alpha1', expected"),
        ({"user": {"exec": {"apiVersion": V1BETA1}}}, "exec.command is missing"),
        ({"user": {"exec": {"apiVersion": V1, "command": "x"}}}, "interactiveMode: found '', expected Never"),
        ({"current-context": "mian"}, r"context 'mian' is not there; did you mean 'main'\? \(there are: main\)"),
        ({"current-context": ""}, "no current-context is set; name a context"),
        ({"clusters": []}, r"context 'main': cluster 'main' is not there \(there are no clusters\)"),
        ({"users": []}, "context 'main': user 'main' is not there"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, entries, says):
    with pytest.raises(HomeError, match=says):
        read(tmp_path, **entries)


@pytest.mark.parametrize(("text", "says"), [("a: [", "is no YAML"), ("- a", "is no kubeconfig")])
def test_a_file_that_is_none(tmp_path, text, says):
    (tmp_path / "config").write_text(textwrap.dedent(text))
    with pytest.raises(HomeError, match=says):
        load(str(tmp_path / "config"), environ={})


class TestInCluster:
    ENVIRON = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}  # noqa: RUF012

    def account(self, folder: Path) -> Path:
        for name in ("token", "ca.crt", "namespace"):
            (folder / name).write_text(f"{name}\n")
        return folder

    def test_a_pod_has_an_account(self, tmp_path):
        access = in_cluster(self.ENVIRON, self.account(tmp_path))
        assert access.server == Server("https://10.0.0.1:443", Material(tmp_path / "ca.crt"))
        assert access.user == User(token_file=tmp_path / "token")
        assert access.namespace == "namespace"

    def test_an_address_with_colons_is_bracketed(self, tmp_path):
        access = in_cluster({**self.ENVIRON, "KUBERNETES_SERVICE_HOST": "fd00::1"}, self.account(tmp_path))
        assert access.server.url == "https://[fd00::1]:443"

    def test_a_pod_without_account_says_so(self, tmp_path):
        with pytest.raises(HomeError, match="this pod has no API access"):
            in_cluster(self.ENVIRON, tmp_path)

    def test_a_kubeconfig_comes_first(self, tmp_path):
        path = config(tmp_path / "config")
        assert load(environ={**self.ENVIRON, "KUBECONFIG": str(path)}).context == "main"
