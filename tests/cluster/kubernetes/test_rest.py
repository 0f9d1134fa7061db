"""Requests: what is repeated, what never is, and what a refusal becomes."""

import asyncio

import msgspec
import pytest
from tests.cluster.kubernetes.server import Request, failure, serve
from tests.cluster.kubernetes.serving import (
    QUICK,
    answers,
    breaks,
    cluster_at,
    in_turn,
    never,
    raw,
    refuses,
    rest_to,
)

from trainwright.cluster.kubernetes import OutcomeUnknown, Patience, Refused, Unreachable, User
from trainwright.cluster.kubernetes.errors import refusal, status_error
from trainwright.cluster.kubernetes.rest import segment
from trainwright.cluster.queue import Backoff
from trainwright.core.errors import (
    AlreadyExists,
    BadRequest,
    ClusterError,
    Conflict,
    Ending,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    Unauthorized,
)
from trainwright.core.resources import CONFIG_MAP


class TestRefusals:
    @pytest.mark.parametrize(
        ("code", "reason", "kind"),
        [
            (400, "BadRequest", BadRequest),
            (401, "Unauthorized", Unauthorized),
            (403, "Forbidden", Forbidden),
            (404, "NotFound", NotFound),
            (405, "MethodNotAllowed", Refused),
            (409, "AlreadyExists", AlreadyExists),
            (409, "Conflict", Conflict),
            (410, "Expired", Expired),
            (410, "Gone", Expired),
            (422, "Invalid", Invalid),
            (429, "TooManyRequests", Refused),
            (500, "InternalError", Refused),
            (503, "ServiceUnavailable", Refused),
        ],
    )
    def test_the_servers_own_words(self, code, reason, kind):
        error = refusal(code, msgspec.json.encode(failure(code, reason, "in its own words")))
        assert type(error) is kind
        assert (error.code, str(error)) == (code, "in its own words")
        assert reason == "Gone" or error.reason == reason

    def test_a_namespace_that_is_being_deleted_is_told_apart(self):
        causes = [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]
        error = status_error({**failure(403, "Forbidden", "it is being terminated"), "details": {"causes": causes}})
        assert type(error) is Ending

    @pytest.mark.parametrize(
        ("body", "says"),
        [(b"Bad gateway\n", "Bad gateway"), (b"", "answered 502 without a word"), (b'{"a": 1}', '{"a": 1}')],
    )
    def test_who_is_no_api_server(self, body, says):
        error = refusal(502, body)
        assert says in str(error)
        assert error.code == 502

    def test_one_refusal_does_not_change_the_others(self):
        refusal(507, b"x")
        assert (ClusterError.code, Refused("x", 1, "y").code) == (500, 1)

    def test_a_status_without_code(self):
        assert status_error({"message": "x"}).code == 500


class TestRepeats:
    @pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "PUT", "DELETE"])
    @pytest.mark.parametrize(
        ("status", "headers"), [(429, {}), (429, {"Retry_After": "0"}), (503, {"Retry_After": "0"})]
    )
    async def test_what_was_not_carried_out_is_repeated(self, method, status, headers):
        busy = refuses(status, "TooManyRequests", **headers)
        async with serve(in_turn(busy, busy, answers(200, b'"done"'))) as serving, rest_to(serving.url) as rest:
            assert await rest.request(method, "/x", body={"a": 1}) == "done"
            assert [request.body for request in serving.seen] == [b'{"a":1}'] * 3
            assert serving.connections == 1

    @pytest.mark.parametrize("method", ["GET", "PATCH", "PUT"])
    @pytest.mark.parametrize("trouble", [breaks, refuses(500, "InternalError"), raw(b"HTTP/1.1 200 O")])
    async def test_what_may_be_carried_out_twice_is_repeated(self, method, trouble):
        async with serve(in_turn(trouble, answers(200, b'"done"'))) as serving, rest_to(serving.url) as rest:
            assert await rest.request(method, "/x") == "done"

    @pytest.mark.parametrize("method", ["POST", "DELETE"])
    @pytest.mark.parametrize("trouble", [breaks, raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")])
    async def test_what_may_not_is_sent_once(self, method, trouble):
        async with serve(trouble) as serving, rest_to(serving.url) as rest:
            with pytest.raises(OutcomeUnknown, match=f"{method} /x: .*; it may have been carried out"):
                await rest.request(method, "/x", body={})
            assert len(serving.seen) == 1

    async def test_nor_after_a_servers_trouble(self):
        async with serve(refuses(500, "InternalError", "etcd")) as serving, rest_to(serving.url) as rest:
            with pytest.raises(Refused, match="etcd"):
                await rest.request("POST", "/x", body={})
            assert len(serving.seen) == 1

    async def test_nor_when_time_is_up(self):
        async with serve(never) as serving, rest_to(serving.url) as rest:
            with pytest.raises(OutcomeUnknown, match=r"no answer within 0\.02 s"):
                await rest.request("POST", "/x", body={}, timeout=0.02)
            assert len(serving.seen) == 1
            assert rest.connections() == (0, 0)

    async def test_nor_on_a_connection_that_served_before(self):
        async with serve(in_turn(answers(200), breaks)) as serving, rest_to(serving.url) as rest:
            await rest.request("POST", "/x", body={})
            with pytest.raises(OutcomeUnknown):
                await rest.request("POST", "/x", body={})
            assert len(serving.seen) == 2

    async def test_an_idle_connection_that_breaks_is_nobodys_trouble(self):
        """The next try is at once: a patience that would wait for ever is never asked."""
        patience = Patience(backoff=Backoff(first=1e6, longest=1e6))
        async with (
            serve(in_turn(answers(200), breaks, answers(200, b'"yes"'))) as serving,
            rest_to(serving.url, patience=patience) as rest,
        ):
            await rest.request("GET", "/x")
            assert await rest.request("GET", "/x") == "yes"

    async def test_it_gives_up(self):
        async with serve(refuses(503, "ServiceUnavailable", "etcd is away")) as serving, rest_to(serving.url) as rest:
            with pytest.raises(Refused, match="etcd is away"):
                await rest.request("GET", "/x")
            assert len(serving.seen) == QUICK.tries

    async def test_a_server_that_is_away_for_long_is_not_waited_for(self):
        async with serve(refuses(429, "TooManyRequests", Retry_After="60")) as serving, rest_to(serving.url) as rest:
            with pytest.raises(Refused):
                await rest.request("GET", "/x")
            assert len(serving.seen) == 1

    async def test_a_refusal_is_said_once(self):
        async with serve(refuses(409, "Conflict")) as serving, rest_to(serving.url) as rest:
            with pytest.raises(Conflict):
                await rest.request("PATCH", "/x", body={})
            assert len(serving.seen) == 1

    async def test_a_cancelled_wait_sends_nothing_more(self):
        async with serve(refuses(429, "TooManyRequests", Retry_After="1")) as serving, rest_to(serving.url) as rest:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await rest.request("GET", "/x")
            assert len(serving.seen) == 1


class TestDeletion:
    async def test_of_the_very_one_is_repeated(self):
        async with serve(in_turn(breaks, answers(200))) as serving, cluster_at(serving.url) as cluster:
            await cluster.delete(CONFIG_MAP, "a", "b", uid="u")
            assert len(serving.seen) == 2

    async def test_gone_on_the_second_try_was_our_first(self):
        async with serve(in_turn(breaks, refuses(404, "NotFound"))) as serving, cluster_at(serving.url) as cluster:
            await cluster.delete(CONFIG_MAP, "a", "b", uid="u")

    async def test_gone_on_the_first_try_was_not(self):
        async with serve(refuses(404, "NotFound")) as serving, cluster_at(serving.url) as cluster:
            with pytest.raises(NotFound):
                await cluster.delete(CONFIG_MAP, "a", "b", uid="u")

    async def test_gone_after_a_request_that_was_refused_was_not_either(self):
        trouble = refuses(429, "TooManyRequests")
        async with serve(in_turn(trouble, refuses(404, "NotFound"))) as serving, cluster_at(serving.url) as cluster:
            with pytest.raises(NotFound):
                await cluster.delete(CONFIG_MAP, "a", "b", uid="u")

    async def test_by_name_alone_it_is_not_repeated(self):
        async with serve(breaks) as serving, cluster_at(serving.url) as cluster:
            with pytest.raises(OutcomeUnknown):
                await cluster.delete(CONFIG_MAP, "a", "b")
            assert len(serving.seen) == 1


class TestCredentials:
    async def test_a_new_token_is_tried_once(self, tmp_path):
        (tmp_path / "token").write_text("old")

        async def check(request: Request) -> None:
            if request.headers["authorization"] == "Bearer new":
                await request.answer(200, b'"in"')
                return
            (tmp_path / "token").write_text("new")
            await request.refuse(401, "Unauthorized")

        async with serve(check) as serving, rest_to(serving.url, User(token_file=tmp_path / "token")) as rest:
            assert await rest.request("POST", "/x", body={}) == "in"
            assert len(serving.seen) == 2

    async def test_a_token_that_stays_refused(self, tmp_path):
        (tmp_path / "token").write_text("same")
        async with (
            serve(refuses(401, "Unauthorized", "who are you?")) as serving,
            rest_to(serving.url, User(token_file=tmp_path / "token")) as rest,
        ):
            with pytest.raises(Unauthorized, match="who are you"):
                await rest.request("GET", "/x")
            assert len(serving.seen) == 1

    async def test_one_that_cannot_be_renewed_is_a_passing_fault(self, tmp_path):
        path = tmp_path / "token"
        path.write_text("t")
        async with serve(refuses(401, "Unauthorized")) as serving, rest_to(serving.url, User(token_file=path)) as rest:
            path.unlink()
            with pytest.raises(Unauthorized, match="cannot read the token"):
                await rest.request("GET", "/x")

    async def test_in_somebody_elses_name(self):
        user = User(token="t", impersonate=(("Impersonate-User", "jane"), ("Impersonate-Group", "a")))
        async with serve(answers(200)) as serving, rest_to(serving.url, user) as rest:
            await rest.request("GET", "/x")
        headers = serving.seen[0].headers
        assert (headers["authorization"], headers["impersonate-user"]) == ("Bearer t", "jane")
        assert headers["user-agent"].startswith("trainwright/")


class TestWords:
    async def test_a_query_is_quoted(self):
        async with serve(answers(200)) as serving, rest_to(f"{serving.url}/base") as rest:
            await rest.request("GET", "/x", query={"labelSelector": "a in (b, c)&d"})
            await rest.request("GET", "/x", query=[("command", "a"), ("command", "b c")])
        assert serving.seen[0].query == {"labelSelector": "a in (b, c)&d"}
        assert serving.seen[0].path == "/base/x"
        assert serving.seen[1].words["command"] == ["a", "b c"]

    @pytest.mark.parametrize("name", ["", ".", "..", "a/b", "%2e"])
    def test_what_cannot_be_part_of_a_path(self, name):
        with pytest.raises(BadRequest):
            segment(name, "name")

    def test_the_rest_is_quoted(self):
        assert segment("a b\r\nc?d", "name") == "a%20b%0D%0Ac%3Fd"

    async def test_an_answer_that_is_no_json(self):
        async with serve(answers(200, b"<html>")) as serving, rest_to(serving.url) as rest:
            with pytest.raises(Unreachable, match="the answer is no JSON"):
                await rest.request("GET", "/x")

    async def test_a_warning_is_logged_once(self, caplog):
        async with serve(answers(200, Warning='299 - "unknown field"')) as serving, rest_to(serving.url) as rest:
            for _ in range(3):
                await rest.request("POST", "/x", body={})
        assert caplog.text.count("unknown field") == 1

    async def test_writes_say_who_writes(self):
        obj = b'{"metadata": {"name": "b", "managedFields": []}}'
        async with serve(answers(200, obj)) as serving, cluster_at(serving.url, field_validation="Strict") as cluster:
            created = await cluster.create(CONFIG_MAP, {"metadata": {"name": "b", "namespace": "a"}})
            await cluster.patch(CONFIG_MAP, "a", "b", {"data": {}})
        assert created == {"metadata": {"name": "b"}}
        for request in serving.seen:
            assert request.query == {"fieldManager": "trainwright", "fieldValidation": "Strict"}
        assert msgspec.json.decode(serving.seen[0].body)["kind"] == "ConfigMap"
        assert serving.seen[1].headers["content-type"] == "application/merge-patch+json"
