"""Credentials: read again when they rotate, asked for again before they run out, and never in a hurry for nothing."""

import asyncio
import base64
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from tests.cluster.kubernetes.serving import certificates, pem, until

from trainwright.cluster.kubernetes import Access, Material, Server, User
from trainwright.cluster.kubernetes.auth import Auth, exec_info, read_credential
from trainwright.cluster.kubernetes.kubeconfig import Plugin
from trainwright.core.errors import HomeError

V1 = "client.authentication.k8s.io/v1"
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
PLAIN = Server("http://x")


class Clock:
    """Time as the test says."""

    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds - 1000.0)


def auth(user: User, clock: Clock | None = None, server: Server = PLAIN) -> Auth:
    clock = clock or Clock()
    return Auth(Access(server, user), clock=clock, now=clock.now, environ={"PATH": "/usr/bin:/bin", "KEPT": "yes"})


@pytest.mark.parametrize(
    ("user", "shown"),
    [
        pytest.param(User(), "", id="nobody"),
        pytest.param(User(token="abc"), "Bearer abc", id="a token"),
        pytest.param(User(username="jane", password="a:b"), "Basic amFuZTphOmI=", id="name and password"),
    ],
)
async def test_what_is_shown(user, shown):
    assert (await auth(user).credential()).authorization == shown


class TestTokenFiles:
    async def test_it_is_read_again_after_a_minute(self, tmp_path):
        clock, path = Clock(), tmp_path / "token"
        path.write_text("one\n")
        it = auth(User(token_file=path), clock)
        assert (await it.credential()).authorization == "Bearer one"
        path.write_text("two\n")
        assert (await it.credential()).authorization == "Bearer one"
        clock.seconds += 61
        assert it.fresh() is None
        assert (await it.credential()).authorization == "Bearer two"

    async def test_it_is_read_at_once_when_the_server_refuses(self, tmp_path):
        path = tmp_path / "token"
        path.write_text("one")
        it = auth(User(token_file=path))
        refused = await it.credential()
        assert not await it.after_refusal(refused)
        path.write_text("two")
        assert await it.after_refusal(await it.credential())
        assert (await it.credential()).authorization == "Bearer two"

    async def test_a_fixed_token_has_no_second_try(self):
        it = auth(User(token="one"))
        assert not await it.after_refusal(await it.credential())

    @pytest.mark.parametrize("text", ["", "a\nb"])
    async def test_a_file_without_token(self, tmp_path, text):
        (tmp_path / "token").write_text(text)
        with pytest.raises(HomeError, match="holds no token"):
            await auth(User(token_file=tmp_path / "token")).credential()

    async def test_no_file(self, tmp_path):
        with pytest.raises(HomeError, match="cannot read the token"):
            await auth(User(token_file=tmp_path / "token")).credential()


def plugin(folder: Path, script: str, **options: object) -> Plugin:
    """Write a plugin that counts how often it runs."""
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return Plugin(str(path), V1, interactive="Never", **options)  # type: ignore[arg-type]


def printing(**status: str) -> str:
    answer = {"apiVersion": V1, "kind": "ExecCredential", "status": status}
    return f"echo '{msgspec.json.encode(answer).decode()}'"


def written(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def runs(folder: Path) -> int:
    return (folder / "runs").read_text().count("run")


class TestPlugins:
    async def test_it_runs_once_until_its_token_runs_out(self, tmp_path):
        clock = Clock()
        it = auth(
            User(plugin=plugin(tmp_path, printing(token="abc", expirationTimestamp="2030-01-01T12:10:00Z"))), clock
        )
        for _ in range(3):
            assert (await it.credential()).authorization == "Bearer abc"
        assert runs(tmp_path) == 1
        clock.seconds += 595
        await it.credential()
        assert runs(tmp_path) == 2

    async def test_many_who_need_it_at_once_run_it_once(self, tmp_path):
        it = auth(User(plugin=plugin(tmp_path, printing(token="abc"))))
        await asyncio.gather(*(it.credential() for _ in range(10)))
        assert runs(tmp_path) == 1

    async def test_many_who_are_refused_at_once_run_it_once_more(self, tmp_path):
        it = auth(User(plugin=plugin(tmp_path, printing(token="abc"))))
        refused = await it.credential()
        await asyncio.gather(*(it.after_refusal(refused) for _ in range(10)))
        assert runs(tmp_path) == 2

    async def test_without_end_a_token_holds_until_it_is_refused(self, tmp_path):
        clock = Clock()
        it = auth(User(plugin=plugin(tmp_path, printing(token="abc"))), clock)
        await it.credential()
        clock.seconds += 1e6
        assert it.fresh()

    async def test_a_stale_token_does_not_run_it_for_every_request(self, tmp_path):
        it = auth(User(plugin=plugin(tmp_path, printing(token="abc", expirationTimestamp="2001-01-01T00:00:00Z"))))
        await it.credential()
        assert it.fresh()

    async def test_it_is_told_what_it_needs(self, tmp_path):
        script = f'echo "$KUBERNETES_EXEC_INFO $KEPT $MORE $1" > {tmp_path}/told\n{printing(token="t")}'
        user = User(plugin=plugin(tmp_path, script, args=("first",), env={"MORE": "more"}))
        await auth(user).credential()
        info, *rest = (tmp_path / "told").read_text().split(" ")
        assert msgspec.json.decode(info) == {
            "apiVersion": V1,
            "kind": "ExecCredential",
            "spec": {"interactive": False},
        }
        assert " ".join(rest) == "yes more first\n"

    def test_it_may_be_told_of_the_cluster(self):
        server = Server("https://x", Material(data=b"pem"), tls_name="y", proxy="http://p", exec_config={"a": 1})
        info = msgspec.json.decode(exec_info(Plugin("x", V1, cluster_info=True), server, interactive=True))
        assert info["spec"] == {
            "interactive": True,
            "cluster": {
                "server": "https://x",
                "tls-server-name": "y",
                "certificate-authority-data": base64.b64encode(b"pem").decode(),
                "proxy-url": "http://p",
                "config": {"a": 1},
            },
        }

    async def test_certificates_too(self, tmp_path):
        script = printing(
            clientCertificateData=pem("client.pem").decode().replace("\n", "\\n"),
            clientKeyData=pem("client.key").decode().replace("\n", "\\n"),
        ).replace("\\\\n", "\\n")
        script = script.replace("echo", "printf '%s\\n'")
        it = auth(
            User(plugin=plugin(tmp_path, script)), server=Server("https://x", Material(certificates() / "ca.pem"))
        )
        credential = await it.credential()
        assert credential.certificate == pem("client.pem")
        assert credential.authorization == ""
        assert await it.context() is await it.context()

    @pytest.mark.parametrize(
        ("script", "says"),
        [
            pytest.param("exit 3", "exited with code 3 instead of printing credentials", id="it fails"),
            pytest.param("echo hello", "printed no JSON", id="it says something else"),
            pytest.param("echo '{}'", "printed no ExecCredential", id="it prints something else"),
            pytest.param(
                """echo '{"kind": "ExecCredential", "apiVersion": "v2", "status": {"token": "x"}}'""",
                "printed apiVersion 'v2', expected",
                id="it prints another version",
            ),
            pytest.param(printing(), "neither a token nor a client certificate", id="it prints nothing of use"),
            pytest.param(printing(clientKeyData="k", token="t"), "only one of", id="it prints half a pair"),
        ],
    )
    async def test_what_is_wrong_is_said(self, tmp_path, script, says):
        with pytest.raises(HomeError, match=says):
            await auth(User(plugin=plugin(tmp_path, script))).credential()

    async def test_one_that_is_not_there_comes_with_its_hint(self):
        with pytest.raises(HomeError, match=r"cannot run no-such-plugin.*\ninstall it so"):
            await auth(User(plugin=Plugin("no-such-plugin", V1, hint="install it so"))).credential()

    async def test_one_that_must_ask_needs_a_terminal(self):
        with pytest.raises(HomeError, match="this is no terminal"):
            await auth(User(plugin=Plugin("true", V1, interactive="Always"))).credential()

    async def test_a_cancelled_wait_ends_it(self, tmp_path):
        task = asyncio.create_task(
            auth(User(plugin=plugin(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 60"))).credential()
        )
        await until(lambda: written(tmp_path / "pid") != "")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with pytest.raises(ProcessLookupError):
            os.kill(int(written(tmp_path / "pid")), 0)

    def test_a_token_that_breaks_the_line_is_refused(self):
        answer = {"apiVersion": V1, "kind": "ExecCredential", "status": {"token": "a\r\nHost: b"}}
        with pytest.raises(HomeError, match="cannot stand in an HTTP header"):
            read_credential(Plugin("x", V1), msgspec.json.encode(answer), 0.0, NOON)


class TestCertificates:
    async def test_they_are_loaded_again_when_the_files_change(self, tmp_path):
        for name in ("ca.pem", "client.pem", "client.key"):
            (tmp_path / name).write_bytes(pem(name))
        user = User(certificate=Material(tmp_path / "client.pem"), key=Material(tmp_path / "client.key"))
        it = auth(user, server=Server("https://x", Material(tmp_path / "ca.pem")))
        first = await it.context()
        assert await it.context() is first
        assert not await it.after_refusal(await it.credential())
        (tmp_path / "ca.pem").write_bytes(pem("ca.pem") + b"\n")
        assert await it.after_refusal(await it.credential())
        assert await it.context() is not first

    async def test_plain_http_has_none(self):
        assert await auth(User()).context() is None

    @pytest.mark.parametrize(
        ("server", "user", "says"),
        [
            (Server("https://x", Material(data=b"pem")), User(), "no certificate in PEM form"),
            (Server("https://x", Material(Path("/no/such/ca"))), User(), "cannot read /no/such/ca"),
            (
                Server("https://x"),
                User(certificate=Material(data=b"x"), key=Material(data=b"y")),
                "the client certificate and its key cannot be used",
            ),
        ],
    )
    async def test_what_is_wrong_is_said(self, server, user, says):
        with pytest.raises(HomeError, match=says):
            await auth(user, server=server).context()
