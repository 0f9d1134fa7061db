"""The way out for downloads, asked as programs ask it."""

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator

import pytest
from tests.node.test_sandbox import ENV, net_works, run, serve  # noqa: F401 - a fixture among them

from trainwright.node.base import Exit, Mount, SandboxSpec
from trainwright.node.net import NetIsolation
from trainwright.node.proxy import PORT, Proxy, Upstream, proxy_environment, upstream


@contextlib.asynccontextmanager
async def web(answer: str = "hello") -> AsyncIterator[tuple[int, list[str]]]:
    """A web server on the host that remembers what it was asked."""
    heard: list[str] = []

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            heard.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\n\r\n{answer}".encode())
        writer.close()

    server = await asyncio.start_server(reply, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], heard


@contextlib.asynccontextmanager
async def proxy(**options) -> AsyncIterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    async with Proxy(listener, **{"environ": {}, **options}):
        yield listener.getsockname()[1]


async def ask(port: int, text: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text.encode())
    writer.write_eof()
    answer = (await reader.read()).decode()
    writer.close()
    return answer


async def test_a_plain_request_is_passed_on_without_the_proxys_own_headers():
    async with web() as (port, heard), proxy() as way:
        target = f"http://127.0.0.1:{port}/simple/?q=1"
        answer = await ask(way, f"GET {target} HTTP/1.1\r\nHost: x\r\nProxy-Connection: keep-alive\r\n\r\n")
        assert answer.endswith("hello")
        assert heard == ["GET /simple/?q=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"]


async def test_a_tunnel_carries_both_directions():
    async with web() as (port, heard), proxy() as way:
        request = "GET / HTTP/1.1\r\nHost: y\r\n\r\n"
        answer = await ask(way, f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n{request}")
        assert answer.startswith("HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK")
        assert heard == [request]


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        pytest.param("GET / HTTP/1.1\r\n\r\n", "400 Bad Request", id="not a request to a proxy"),
        pytest.param("GET ftp://host/ HTTP/1.1\r\n\r\n", "400 Bad Request", id="another protocol"),
        pytest.param("nonsense\r\n\r\n", "400 Bad Request", id="nonsense"),
        pytest.param("CONNECT 127.0.0.1:99999 HTTP/1.1\r\n\r\n", "400 Bad Request", id="no such port"),
        pytest.param("CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n", "502 Bad Gateway", id="nobody there"),
        pytest.param("CONNECT no-such-host.invalid:443 HTTP/1.1\r\n\r\n", "502 Bad Gateway", id="no such name"),
    ],
)
async def test_what_cannot_be_is_refused(request_text, status):
    async with proxy() as way:
        assert (await ask(way, request_text)).startswith(f"HTTP/1.1 {status}\r\n")


async def test_an_upstream_proxy_of_the_agent_is_used():
    async with web() as (port, heard):
        environ = {"HTTP_PROXY": f"http://me:s%20t@127.0.0.1:{port}", "no_proxy": "direct.test"}
        async with proxy(environ=environ) as way:
            assert (await ask(way, "GET http://far.test/x HTTP/1.1\r\nHost: far.test\r\n\r\n")).endswith("hello")
    assert heard[0].splitlines()[:-1] == [
        "GET http://far.test/x HTTP/1.1",
        "Proxy-Authorization: Basic bWU6cyB0",
        "Host: far.test",
        "Connection: close",
    ]


@pytest.mark.parametrize(
    ("scheme", "host", "environ", "found"),
    [
        pytest.param("https", "a.b", {}, None, id="no proxy"),
        pytest.param("https", "a.b", {"https_proxy": "http://p:8080"}, Upstream("p", 8080), id="a proxy"),
        pytest.param("https", "a.b", {"http_proxy": "http://p:8080"}, None, id="only for the other scheme"),
        pytest.param("http", "a.b", {"ALL_PROXY": "p:8080"}, Upstream("p", 8080), id="for all, without scheme"),
        pytest.param("http", "a.b", {"http_proxy": "p:1", "no_proxy": "x, .b"}, None, id="a suffix that is direct"),
        pytest.param(
            "http", "ab", {"http_proxy": "p:1", "no_proxy": "b"}, Upstream("p", 1), id="not a suffix of a word"
        ),
        pytest.param("http", "a.b", {"http_proxy": "p:1", "no_proxy": "*"}, None, id="everything direct"),
        pytest.param("http", "a.b", {"http_proxy": "socks5://p:1"}, None, id="a proxy we do not speak to"),
    ],
)
def test_upstream(scheme, host, environ, found):
    assert upstream(scheme, host, environ) == found


def test_variables_come_in_both_cases_and_spare_grpc():
    values = proxy_environment("10.77.0.1:3128", ["job-worker-0", "10.77.0.0/16"])
    assert values == {
        "http_proxy": "http://10.77.0.1:3128",
        "https_proxy": "http://10.77.0.1:3128",
        "no_proxy": "localhost,127.0.0.1,::1,job-worker-0,10.77.0.0/16",
        "HTTP_PROXY": "http://10.77.0.1:3128",
        "HTTPS_PROXY": "http://10.77.0.1:3128",
        "NO_PROXY": "localhost,127.0.0.1,::1,job-worker-0,10.77.0.0/16",
        "grpc_proxy": "",
    }


GET = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"


async def test_a_pod_downloads_through_the_agent(net_works, tmp_path):  # noqa: F811
    if not net_works:
        pytest.skip("namespaces are refused on this machine")
    hosts = tmp_path / "hosts"
    async with NetIsolation() as isolation, web("from outside") as (port, _):
        listener, address = await isolation.listen(PORT)
        async with Proxy(listener, inside=isolation.inside, environ={"http_proxy": f"127.0.0.1:{port}"}):
            hosts.touch()
            pods = [await isolation.open(SandboxSpec(n, n, (Mount(hosts, "/etc/hosts"),))) for n in "ab"]
            hosts.write_text(f"127.0.0.1 localhost\n{pods[1].address} job-worker-1\n")
            await serve(pods[1], "0.0.0.0", 80, "from a pod", tmp_path, head="HTTP/1.0 200 OK\r\n\r\n")
            env = ENV | proxy_environment(f"{address}:{PORT}") | {"no_proxy": ""}

            async def got(url: str) -> tuple[Exit, str]:
                return await run(pods[0], sys.executable, "-c", GET, url, env=env)

            assert await got("http://far.test/") == (Exit(0), "from outside\n")
            assert await got("http://job-worker-1/") == (Exit(0), "from a pod\n"), "a name only pods know"
            assert await got(f"http://{pods[1].address}/") == (Exit(0), "from a pod\n")
            for url in (f"http://127.0.0.1:{port}/", f"http://localhost:{port}/"):
                assert (await got(url))[0] == Exit(1), "its own loopback, not the host's"
