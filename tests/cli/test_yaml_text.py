"""What is written as YAML: to the byte what PyYAML writes, and what is read again."""

from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.cli.yaml_text import Writer, documents

CHOSEN = [
    *(
        "true",
        "No",
        "null",
        "~",
        "y",
        "",
        "=",
        "<<",
        "0",
        "12",
        "012",
        "1e3",
        "0x1f",
        "1_000",
        "12:30:45",
        "2020-01-01",
    ),
    *("a: b", "a #b", "a:", "- a", "'", "a/b.c-d", "trainwright.dev/job", "/etc", "é", "\t", "\x07", "x\u2028y"),
    *(
        "  x\ny",
        "x\n\n",
        "x\n \n y",
        "...\n",
        "\n",
        "words " * 40,
        "w" * 200,
        "-c\nfor i in 1 2 3; do\n  echo $i\ndone\n",
    ),
]
TEXTS = st.one_of(st.sampled_from(CHOSEN), st.text(max_size=30))
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS)
PARTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=20,
)
OBJECTS = st.dictionaries(TEXTS, PARTS, min_size=1, max_size=5)


def _block(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


class Plain(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        return True


Plain.add_representer(str, _block)


def by_pyyaml(value: Any) -> str:
    text: str = yaml.dump(value, Dumper=Plain, sort_keys=False, allow_unicode=True, width=120)
    return text[: -len("...\n")] if text.endswith("\n...\n") else text


@given(OBJECTS)
def test_an_object_is_written_as_pyyaml_writes_it(obj):
    assert Writer().document(obj) == by_pyyaml(obj)


@settings(max_examples=40)
@given(st.lists(OBJECTS, min_size=1, max_size=3), PARTS)
def test_objects_that_share_parts_are_written_as_if_they_did_not(objects, shared):
    sharing = [{**obj, "shared": shared, "deeper": [{"shared": shared}], "itself": obj} for obj in (*objects, *objects)]

    assert "".join(documents(sharing)) == "---\n".join(map(by_pyyaml, sharing))


def test_a_part_that_is_gone_is_not_taken_for_a_new_one_in_its_place():
    texts = list(documents({"labels": {"index": str(index)}} for index in range(1_000)))

    assert [yaml.safe_load(text)["labels"]["index"] for text in texts] == [str(index) for index in range(1_000)]


def test_a_script_reads_as_a_script():
    assert (
        Writer().document({"data": {"run.sh": "#!/bin/sh\necho $1\n"}})
        == "data:\n  run.sh: |\n    #!/bin/sh\n    echo $1\n"
    )
