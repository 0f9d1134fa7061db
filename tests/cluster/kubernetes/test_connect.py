"""Ways to the server: TLS that knows whom it talks to, client certificates, and proxies."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest
from tests.cluster.kubernetes.server import serve
from tests.cluster.kubernetes.serving import QUICK, answers, certificates, pem, server_tls

from trainwright.cluster.kubernetes import Access, Material, Rest, Server, Unreachable, User
from trainwright.cluster.kubernetes.connect import proxy_from
from trainwright.cluster.unix import reachable


def ca() -> Material:
    return Material(certificates() / "ca.pem")


async def ask(server: Server, user: User | None = None) -> object:
    async with Rest(Access(server, user or User()), patience=QUICK, connect_timeout=2) as rest:
        return await rest.request("GET", "/version")


class TestTls:
    async def test_a_server_of_our_authority(self):
        async with serve(answers(200, b'"yes"'), server_tls()) as serving:
            assert await ask(Server(serving.url, ca())) == "yes"

    async def test_a_server_of_no_authority_we_know(self):
        async with serve(answers(200), server_tls()) as serving:
            with pytest.raises(Unreachable, match=r"is not to be trusted: .*; check certificate-authority"):
                await ask(Server(serving.url))
            assert serving.connections <= 1  # asking again would not help

    async def test_insecure_because_we_were_told(self):
        async with serve(answers(200, b'"yes"'), server_tls()) as serving:
            assert await ask(Server(serving.url, insecure=True)) == "yes"

    @pytest.mark.parametrize(("name", "right"), [("kubernetes.test", True), ("kubernetes.other", False)])
    async def test_a_certificate_for_another_name(self, name, right):
        async with serve(answers(200, b'"yes"'), server_tls()) as serving:
            server = Server(serving.url, ca(), tls_name=name)
            if right:
                assert await ask(server) == "yes"
                return
            with pytest.raises(Unreachable, match="not to be trusted"):
                await ask(server)

    @pytest.mark.parametrize("inline", [True, False], ids=["in the kubeconfig", "in files"])
    async def test_a_client_certificate(self, inline):
        def material(name: str) -> Material:
            return Material(data=pem(name)) if inline else Material(certificates() / name)

        user = User(certificate=material("client.pem"), key=material("client.key"))
        async with serve(answers(200, b'"yes"'), server_tls(ask_client=True)) as serving:
            assert await ask(Server(serving.url, ca()), user) == "yes"

    async def test_a_server_that_wants_one_we_do_not_have(self):
        async with serve(answers(200), server_tls(ask_client=True)) as serving:
            with pytest.raises(Unreachable):
                await ask(Server(serving.url, ca()))

    async def test_nobody_there(self):
        async with serve(answers(200)) as serving:
            url = serving.url
        with pytest.raises(Unreachable, match=r"GET /version: cannot connect to 127\.0\.0\.1:\d+"):
            await ask(Server(url))


class TestUnixSockets:
    @pytest.mark.parametrize("folder", ["near", "f" * 120], ids=["a short path", "one longer than a socket may have"])
    async def test_a_server_on_this_machine(self, folder, tmp_path):
        heads = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"yes"')
            await writer.drain()
            writer.close()

        path = tmp_path / folder / "api.sock"
        path.parent.mkdir()
        with reachable(str(path)) as short:
            server = await asyncio.start_unix_server(answer, short)
        async with server:
            assert await ask(Server(f"unix://{path}")) == "yes"

        assert heads[0].startswith("GET /version HTTP/1.1\r\nHost: localhost\r\n")

    async def test_nobody_there(self, tmp_path):
        with pytest.raises(Unreachable, match=rf"GET /version: cannot connect to {tmp_path}/api\.sock: No such file"):
            await ask(Server(f"unix://{tmp_path}/api.sock"))

    def test_no_proxy_is_asked(self):
        assert (
            proxy_from(Server("unix:///run/api.sock"), {"UNIX_PROXY": "http://p:1", "HTTPS_PROXY": "http://p:1"}) == ""
        )


@dataclass
class Proxy:
    """A proxy, and what it was asked."""

    url: str
    asked: list[str] = field(default_factory=list)


@contextlib.asynccontextmanager
async def proxying(answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> AsyncIterator[Proxy]:
    """Run an HTTP proxy that knows CONNECT."""
    proxy = Proxy("")
    tasks: set[asyncio.Task[None]] = set()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        tasks.add(task)
        try:
            proxy.asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
            host, _, port = proxy.asked[-1].split()[1].rpartition(":")
            writer.write(answer)
            await writer.drain()
            if b" 200 " in answer:
                there, back = await asyncio.open_connection(host, int(port))
                try:
                    await asyncio.gather(copy(reader, back), copy(there, writer))
                finally:
                    back.transport.abort()
        finally:
            writer.transport.abort()
            tasks.discard(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        for task in [*tasks]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(3):
            await asyncio.sleep(0)  # what was aborted is gone a step later


class TestProxies:
    async def test_the_way_leads_through_it(self):
        async with serve(answers(200, b'"yes"'), server_tls()) as serving, proxying() as proxy:
            assert await ask(Server(serving.url, ca(), proxy=proxy.url)) == "yes"
        assert proxy.asked[0].startswith(f"CONNECT 127.0.0.1:{serving.port} HTTP/1.1\r\n")
        assert "Authorization" not in proxy.asked[0]

    async def test_it_is_told_who_we_are(self):
        async with serve(answers(200, b'"yes"')) as serving, proxying() as proxy:
            url = proxy.url.replace("http://", "http://jane:p%40ss@")
            assert await ask(Server(serving.url, proxy=url)) == "yes"
        assert "Proxy-Authorization: Basic amFuZTpwQHNz\r\n" in proxy.asked[0]

    async def test_it_refuses(self):
        async with serve(answers(200)) as serving, proxying(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n") as proxy:
            with pytest.raises(Unreachable, match="answered 403 to CONNECT"):
                await ask(Server(serving.url, proxy=proxy.url))

    @pytest.mark.parametrize(
        ("url", "environ", "proxy"),
        [
            pytest.param("https://k8s.example.com", {}, "", id="none is set"),
            pytest.param("https://k8s.example.com", {"HTTPS_PROXY": "http://p:3128"}, "http://p:3128", id="one is set"),
            pytest.param("https://k8s.example.com", {"https_proxy": "p:3128"}, "http://p:3128", id="in small letters"),
            pytest.param("https://k8s.example.com", {"HTTP_PROXY": "http://p"}, "", id="one for plain HTTP"),
            pytest.param("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p"}, "", id="never to this machine"),
            pytest.param("https://localhost", {"HTTPS_PROXY": "http://p"}, "", id="nor by its name"),
            pytest.param("https://k8s.example.com", {"HTTPS_PROXY": "p", "NO_PROXY": "*"}, "", id="not for any"),
            pytest.param(
                "https://k8s.example.com", {"HTTPS_PROXY": "p", "NO_PROXY": "a, example.com"}, "", id="not in a domain"
            ),
            pytest.param(
                "https://k8s.example.com", {"HTTPS_PROXY": "p", "NO_PROXY": ".example.com"}, "", id="with a dot"
            ),
            pytest.param(
                "https://notexample.com", {"HTTPS_PROXY": "p", "NO_PROXY": "example.com"}, "http://p", id="another one"
            ),
            pytest.param("https://10.1.2.3", {"HTTPS_PROXY": "p", "NO_PROXY": "10.0.0.0/8"}, "", id="not in a network"),
            pytest.param(
                "https://11.1.2.3", {"HTTPS_PROXY": "p", "NO_PROXY": "10.0.0.0/8"}, "http://p", id="another network"
            ),
            pytest.param("https://h:6443", {"HTTPS_PROXY": "p", "NO_PROXY": "h:6443"}, "", id="not at a port"),
            pytest.param("https://h:6443", {"HTTPS_PROXY": "p", "NO_PROXY": "h:443"}, "http://p", id="another port"),
        ],
    )
    def test_the_environment_may_name_one(self, url, environ, proxy):
        assert proxy_from(replace(Server(""), url=url), environ) == proxy
