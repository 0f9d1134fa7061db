"""Text to objects: values as kubectl reads them, a line for every path, plain words for what is broken."""

import pytest

from trainwright.api.manifest import parse


def told(text):
    """Return what is wrong with a text, as `line: sentence`."""
    return [f"{document.line_of(each)}: {each}" for document in parse(text) for each in document.problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("yes", True, id="yes is true"),
        pytest.param("Off", False, id="off is false"),
        pytest.param("y", True, id="even a single letter"),
        pytest.param("'yes'", "yes", id="in quotes it is text"),
        pytest.param("!!str yes", "yes", id="and with the tag of text"),
        pytest.param("~", None, id="a tilde is null"),
        pytest.param("", None, id="nothing is null"),
        pytest.param("0644", 420, id="a leading zero is octal"),
        pytest.param("0o644", 420, id="so is 0o"),
        pytest.param("08", 8, id="unless it cannot be"),
        pytest.param("0x1F", 31, id="hexadecimal"),
        pytest.param("-0b11", -3, id="binary"),
        pytest.param("1_000", 1000, id="digits in groups"),
        pytest.param("+5", 5, id="a plus"),
        pytest.param("2.0", 2, id="JSON does not tell 2.0 from 2"),
        pytest.param("1e3", 1000, id="nor 1e3 from 1000"),
        pytest.param("!!int 7", 7, id="the tag of a number"),
        pytest.param("0.5", 0.5, id="a fraction"),
        pytest.param(".5", 0.5, id="a fraction without zero"),
        pytest.param("18446744073709551615", 2**64 - 1, id="64 bits"),
        pytest.param("18446744073709551616", 2.0**64, id="more than 64 bits"),
        pytest.param("1e400", "1e400", id="more than a float"),
        pytest.param("12:30", "12:30", id="no sexagesimal numbers"),
        pytest.param("2024-01-01", "2024-01-01", id="dates are text"),
        pytest.param("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z", id="moments are text"),
        pytest.param("1.2.3", "1.2.3", id="versions are text"),
    ],
)
def test_scalars_are_read_as_kubectl_reads_them(text, value):
    (document,) = parse(f"key: {text}")

    assert document.problems == ()
    assert document.object == {"key": value}
    assert type((document.object or {})["key"]) is type(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", ["1: the file is empty; a manifest begins with apiVersion: and kind:"], id="an empty file"),
        pytest.param(
            "# nothing\n---\n---\n",
            ["1: the file is empty; a manifest begins with apiVersion: and kind:"],
            id="only comments",
        ),
        pytest.param(
            "a: 1\n---\n- b\n",
            ["3: expected a manifest, found a list; a manifest is a mapping that begins with apiVersion: and kind:"],
            id="a list",
        ),
        pytest.param(
            "5",
            ["1: expected a manifest, found 5; a manifest is a mapping that begins with apiVersion: and kind:"],
            id="a number",
        ),
        pytest.param("a:\n\tb: 1\n", ["2: the line is indented with a tab; use spaces"], id="a tab"),
        pytest.param("a:\n  - b\n\t- c\n", ["3: the line is indented with a tab; use spaces"], id="a tab in a list"),
        pytest.param("a: |\n\tb\n", ["2: the line is indented with a tab; use spaces"], id="a tab in a block"),
        pytest.param(
            "a: b: c\n",
            ["1: a ': ' stands where none can; put the value in quotes, or mend the indentation"],
            id="a colon in a value",
        ),
        pytest.param(
            "a:\n  b: 1\n c: 2\n",
            ["3: the indentation fits nothing above; align the line with the keys it belongs to"],
            id="a line between two levels",
        ),
        pytest.param(
            "- a\nb: 1\n",
            ["2: a list has begun above, but this line is no entry of it; mend the indentation"],
            id="a key in a list",
        ),
        pytest.param(
            "a: 1\nb: 'x\n\nc: 2\n", ["2: a quote is opened and never closed"], id="an open quote, where it is opened"
        ),
        pytest.param(
            "a: [1,\n  2\nb: 3\n",
            ["3: a '[' is opened and not closed before this line (it is on line 1)"],
            id="a bracket",
        ),
        pytest.param(
            "a: {b: 1\nc: 2\n", ["2: a '{' is opened and not closed before this line (it is on line 1)"], id="a brace"
        ),
        pytest.param("a: @b\n", ["1: a value cannot begin with @; put it in quotes"], id="a reserved character"),
        pytest.param(
            'a: "C:\\dir"\n',
            ["1: a backslash in double quotes must be doubled; or use single quotes"],
            id="a backslash",
        ),
        pytest.param(
            "a: b\nc: \x07\n",
            ["2: there is a control character, which YAML does not allow; remove it"],
            id="a control character",
        ),
        pytest.param(
            "a: \ud800\n",
            ["1: there is a character that is no valid Unicode; save the file as UTF-8"],
            id="a surrogate",
        ),
        pytest.param(
            "a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n",
            ["5: b.c: the key 'c' stands here a second time; the first is on line 3"],
            id="a key that stands twice",
        ),
        pytest.param(
            "1: a\non: b\n",
            [
                '1: 1: the key 1 is not text; put it in quotes: "1"',
                '2: true: the key on is not text, and read as true; put it in quotes: "on"',
            ],
            id="keys that are no text",
        ),
        pytest.param("? [a]\n: b\n", ["1: a key must be text, found a list"], id="a list as key"),
        pytest.param("~: b\n", ["1: a key must be text, found nothing (null)"], id="null as key"),
        pytest.param(
            "a: .nan\nb: [-.inf]\n",
            [
                "1: a: .nan is not a number that JSON knows; write a finite one",
                "2: b[0]: -.inf is not a number that JSON knows; write a finite one",
            ],
            id="numbers that JSON does not know",
        ),
        pytest.param(
            "a: !!python/object:os.system [x]\nb: !mine 5\nc: !!int x\n",
            [
                "1: a: the tag !!python/object:os.system means nothing in a manifest; leave it out",
                "2: b: the tag !mine means nothing in a manifest; leave it out",
                "3: c: 'x' is no !!int; leave the tag out",
            ],
            id="tags",
        ),
        pytest.param("a: *b\n", ["1: a: *b refers to &b, which does not stand before it"], id="an unknown alias"),
        pytest.param("a: &b\n  c: *b\n", ["2: a.c: *b contains itself"], id="an alias of itself"),
        pytest.param("a: {<<: 5}\n", ["1: a: << merges a mapping, found 5"], id="a merge of no mapping"),
        pytest.param("[" * 2000, ["1: more than 100 levels stand inside each other"], id="too many levels"),
        pytest.param(
            "%YAML 3.0\n---\na: 1\n", ["1: the %YAML line asks for a version that is not known; leave it out"]
        ),
    ],
)
def test_what_is_broken_is_told_in_plain_words(text, expected):
    assert told(text) == expected


def test_a_bomb_of_aliases_is_refused_before_it_goes_off():
    levels = "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(12))

    (document,) = parse(f"a0: &a0 [x, x, x, x, x, x, x, x, x]\n{levels}")

    assert document.object is None
    assert [problem.message for problem in document.problems] == ["the aliases stand for more than 200000 values"]


def test_anchors_and_merges_are_followed():
    (document,) = parse(
        "base: &base {a: 1, b: 2}\nmore: &more {c: 3}\nall:\n  <<: [*base, *more]\n  b: 4\nsame: *base\n"
    )

    assert document.object == {
        "base": {"a": 1, "b": 2},
        "more": {"c": 3},
        "all": {"b": 4, "a": 1, "c": 3},
        "same": {"a": 1, "b": 2},
    }
    assert (document.line("all.b"), document.line("all.c"), document.line("same"), document.line("same.a")) == (
        5,
        2,
        6,
        1,
    )


def test_one_broken_document_does_not_hide_the_others():
    documents = parse("a: 1\n---\nb: 'x\n---\nc:\n\td: 1\n...\n---\ne: 5\n")

    assert [document.object for document in documents] == [{"a": 1}, None, None, {"e": 5}]
    assert [document.line("") for document in documents] == [1, 2, 4, 9]
    assert [document.line_of(each) for document in documents for each in document.problems] == [3, 6]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: 1\r\n---\r\nb: 2\r\n", id="Windows line ends"),
        pytest.param("\ufeffa: 1\n---\nb: 2\n", id="a byte order mark"),
        pytest.param("---\na: 1\n---\n# nothing here\n---\nb: 2\n---\n", id="empty documents"),
        pytest.param("%YAML 1.1\n---\na: 1\n...\n%YAML 1.1\n---\nb: 2\n", id="directives"),
        pytest.param('{"a": 1}\n---\n{\n\t"b":\t2\n}\n', id="JSON, indented with tabs"),
        pytest.param("apiVersion: v1\nkind: List\nitems:\n- a: 1\n- b: 2\n", id="a List, as kubectl prints it"),
        pytest.param("--- {a: 1}\n--- # two\nb: 2\n", id="values behind the marker"),
    ],
)
def test_documents_are_found(text):
    documents = parse(text)

    assert [document.object for document in documents] == [{"a": 1}, {"b": 2}]
    assert not any(document.problems for document in documents)


TEXT = """\
# a comment
apiVersion: kubeflow.org/v1
metadata:
  annotations:
    example.com/why.not: because
spec:
  pytorchReplicaSpecs:
    Worker:
      template:
        spec:
          containers:
          - name: pytorch
            command:
            - python
            - train.py
          - {name: log,
             image: busybox}
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", 2),
        ("metadata.annotations[example.com/why.not]", 5),
        ("spec.pytorchReplicaSpecs.Worker", 8),
        ("spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].command", 13),
        ("spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].command[1]", 15),
        ("spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].image", 12),
        ("spec.pytorchReplicaSpecs.Worker.template.spec.containers[1].image", 17),
        ("spec.pytorchReplicaSpecs.Worker.template.spec.containers[7].image", 11),
        ("spec.pytorchReplicaSpecs.Master.template.spec", 7),
        ("spec.pytorchReplicaSpecs.Worker.template.spec.containers[x]", 11),
        ("nowhere[0].at.all", 2),
    ],
)
def test_a_path_leads_to_its_line_or_to_the_nearest_above(path, line):
    (document,) = parse(TEXT)

    assert document.line(path) == line
