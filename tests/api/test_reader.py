"""Shapes: what fits, what does not, and in which words; the schema says the same."""

# ruff: noqa: RUF009 - `entry` makes a dataclass field

from dataclasses import dataclass, replace
from typing import Any, Literal

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api.examples import FULL, GONE, changed, sentences
from tests.api.mutations import JUNK, mutated

from trainwright.api import kubeflow, pytorch_job, schema, volcano_job
from trainwright.api.reader import (
    OneOf,
    Shape,
    Text,
    build,
    child,
    entry,
    is_unknown,
    shape_of,
    shapes,
    show,
    steps,
    walk,
)

PLATE = Text("a plate", "^[A-Z]+[0-9]*$", "large letters, then digits", longest=6)


@dataclass(frozen=True)
class Wheel:
    """A wheel."""

    size: int | None = entry("Its size.", minimum=1, maximum=9, required=True)


@dataclass(frozen=True)
class Cart:
    """A cart."""

    colour: Literal["red", "blue"] | None = entry("Its colour.")
    wheels: tuple[Wheel, ...] = entry("What it stands on.", default=())
    spare_wheel: Wheel | None = entry("One more.")
    owners: dict[str, Wheel] | None = entry("By name.", name="OWNERS")
    words: tuple[str, ...] = entry("What is written on it.", default=())
    load: Any = entry("What it carries.", shape=Shape("int-or-quantity"))
    port: Any = entry("Where it stands.", shape=Shape("int-or-string"))
    open: bool | None = entry("Whether one can get in.")
    weight: float | None = entry("What it weighs.")
    age: int | None = entry("In seconds.", wide=True)
    plate: str | None = entry("Its number.", shape=Shape("string", text=PLATE))
    bolts: tuple[int, ...] = entry("Their sizes.", shape=Shape("array", items=Shape("integer"), fewest=2), default=())


GOOD = {
    "colour": "red",
    "wheels": [{"size": 1}, {"size": 2}],
    "spareWheel": {"size": 9},
    "OWNERS": {"ann": {"size": 3}},
    "words": ["a", "b"],
    "load": "5Gi",
    "port": "http",
    "open": True,
    "weight": 1.5,
    "age": 2**40,
    "plate": "TW1",
    "bolts": [4, 5],
}


def test_what_fits_is_built():
    assert list(walk(shape_of(Cart), GOOD)) == []
    assert build(Cart, GOOD) == Cart(
        colour="red",
        wheels=(Wheel(1), Wheel(2)),
        spare_wheel=Wheel(9),
        owners={"ann": Wheel(3)},
        words=("a", "b"),
        load="5Gi",
        port="http",
        open=True,
        weight=1.5,
        age=2**40,
        plate="TW1",
        bolts=(4, 5),
    )


def test_what_does_not_fit_is_left_out():
    bad = {
        "colour": "green",
        "wheels": [5, {"size": "x"}],
        "OWNERS": {"ann": None},
        "words": "a",
        "open": 1,
        "age": True,
        "plate": "tw",
    }

    assert build(Cart, bad) == Cart(wheels=(Wheel(),), owners={})
    assert build(Cart, None) == build(Cart, []) == Cart()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param([], [": expected a mapping, found a list"], id="not a mapping"),
        pytest.param(dict.fromkeys(GOOD), [], id="null is as good as nothing"),
        pytest.param({"wheels": [None]}, ["wheels[0]: expected a mapping, found nothing (null)"], id="null in a list"),
        pytest.param(
            {"OWNERS": {"b": None}}, ["OWNERS.b: expected a mapping, found nothing (null)"], id="null in a map"
        ),
        pytest.param({"wheels": [{}]}, ["wheels[0].size: missing; its size"], id="something is missing"),
        pytest.param({"wheels": [{"size": None}]}, ["wheels[0].size: missing; its size"], id="null is missing"),
        pytest.param({"wheels": [{"size": 10}]}, ["wheels[0].size: must be at most 9, found 10"], id="too much"),
        pytest.param({"wheels": [{"size": 0}]}, ["wheels[0].size: must be at least 1, found 0"], id="too little"),
        pytest.param({"wheels": [{"size": 2.0}]}, ["wheels[0].size: expected a whole number, found 2.0"], id="a float"),
        pytest.param(
            {"wheels": [{"size": True}]}, ["wheels[0].size: expected a whole number, found true"], id="a bool"
        ),
        pytest.param(
            {"wheels": {"size": 1}},
            ["wheels: expected a list, found a mapping; put '- ' in front of each entry"],
            id="a mapping instead of a list",
        ),
        pytest.param(
            {"words": "python train.py"},
            ['words: expected a list, found \'python train.py\'; write ["python", "train.py"]'],
            id="text instead of a list of texts",
        ),
        pytest.param(
            {"words": ["--epochs", 3]},
            ['words[1]: expected text, found 3; put it in quotes: "3"'],
            id="a number among texts",
        ),
        pytest.param(
            {"words": [None]},
            ['words[0]: expected text, found nothing (null); write "" for an empty text'],
            id="no text",
        ),
        pytest.param(
            {"colour": "Red"}, ["colour: must be one of red, blue; found 'Red'; did you mean 'red'?"], id="an enum"
        ),
        pytest.param({"colour": []}, ["colour: expected text, found a list"], id="an enum of another type"),
        pytest.param(
            {"load": "5GB"},
            ["load: '5GB' is not a quantity; write a number with an optional suffix, such as 500m, 2 or 4Gi"],
            id="a quantity",
        ),
        pytest.param({"port": 1.5}, ["port: expected a whole number or text, found 1.5"], id="int or string"),
        pytest.param(
            {"open": "True"}, ["open: expected true or false, found 'True'; write true without quotes"], id="a word"
        ),
        pytest.param({"weight": "x"}, ["weight: expected a number, found 'x'"], id="a number"),
        pytest.param({"age": 2**63}, [f"age: must be at most {2**63 - 1}, found {2**63}"], id="64 bits"),
        pytest.param(
            {"plate": "tw1"}, ["plate: 'tw1' cannot be a plate; write large letters, then digits"], id="a pattern"
        ),
        pytest.param(
            {"plate": "TW12345"},
            ["plate: 'TW12345' cannot be a plate; write large letters, then digits"],
            id="too long",
        ),
        pytest.param(
            {"plate": 5},
            ["plate: expected text, found 5; write large letters, then digits"],
            id="no text for a pattern",
        ),
        pytest.param({"bolts": [4]}, ["bolts: there must be at least 2, found 1"], id="too few"),
        pytest.param({"bolts": []}, ["bolts: there must be at least 2, found none"], id="none"),
        pytest.param(
            {"spareWhel": {}},
            [
                (
                    "spareWhel: unknown field 'spareWhel'; did you mean 'spareWheel'? (there are: OWNERS, age, bolts, "
                    "colour, load, open, plate, port, spareWheel, weight, wheels, words)"
                )
            ],
            id="a misspelt field",
        ),
        pytest.param(
            {"OWNERS": {"a.b/c": {"sise": 1}}},
            [
                "OWNERS[a.b/c].sise: unknown field 'sise'; did you mean 'size'? (there are: size)",
                "OWNERS[a.b/c].size: missing; its size",
            ],
            id="a key with dots stands in brackets",
        ),
    ],
)
def test_what_does_not_fit_is_told(value, expected):
    assert [f"{each.path}: {each.message}" for each in walk(shape_of(Cart), value)] == expected


FOREIGN = shapes("""
Box: name!:str size:0.. kind:A|B
  parts:[Part] labels:{str}
Part: amount:quantity lid:Box2 any:any
Box2: weight:num
""")["Box"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(
            {"name": "x", "parts": [{"amount": 0.5, "lid": {"weight": 1}, "any": []}], "kind": "A"},
            [],
            id="all is well",
        ),
        pytest.param(
            {"name": "x", "siez": 1},
            ["siez: unknown field 'siez'; did you mean 'size'? (there are: kind, labels, name, parts, size)"],
            id="a misspelling is an error",
        ),
        pytest.param(
            {"name": "x", "zzz": 1},
            ["warning: zzz: unknown field 'zzz'; it is passed on as it is"],
            id="a field nobody has heard of is passed on",
        ),
        pytest.param(
            {"size": -1, "kind": "C", "labels": {"a": 1}},
            [
                "size: must be at least 0, found -1",
                "kind: must be one of A, B; found 'C'",
                'labels.a: expected text, found 1; put it in quotes: "1"',
                "name: missing",
            ],
            id="types and bounds hold",
        ),
    ],
)
def test_tables_of_foreign_types(value, expected):
    assert sentences(list(walk(FOREIGN, value))) == expected


@pytest.mark.parametrize(
    ("path", "step", "below"),
    [
        ("", "spec", "spec"),
        ("spec", "tasks", "spec.tasks"),
        ("spec.tasks", 1, "spec.tasks[1]"),
        ("limits", "nvidia.com/gpu", "limits[nvidia.com/gpu]"),
        ("", "", "[]"),
    ],
)
def test_paths(path, step, below):
    assert child(path, step) == below
    assert steps(below) == [*steps(path), str(step)]


def test_values_are_shown_in_one_line():
    assert show("x" * 1000) == "'" + "x" * 59 + "…"
    values: tuple[Any, ...] = (None, True, {}, [], 1.5, "a")
    assert [show(each) for each in values] == [
        *("nothing (null)", "true", "a mapping", "a list", "1.5", "'a'"),
    ]


# The schema


def pruned(value):
    """Return a value as an API server sees it: entries that are null are gone."""
    if isinstance(value, dict):
        return {key: pruned(below) for key, below in value.items() if below is not None}
    return [pruned(item) for item in value] if isinstance(value, list) else value


def fits(shape, value):
    return not [problem for problem in walk(shape, value) if not is_unknown(problem)]


def unrelated(shape: Shape) -> Shape:
    """Return a shape as JSON Schema can say it: what relates fields to each other is said in CEL."""
    return replace(
        shape,
        fields={name: unrelated(below) for name, below in shape.fields.items()},
        values=shape.values and unrelated(shape.values),
        items=shape.items and unrelated(shape.items),
        ordered=(),
        one_of=None,
    )


quick = settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
SPEC = shape_of(pytorch_job.Spec)
VALIDATOR = jsonschema_rs.validator_for(schema.schema(SPEC))
SPECS = {"PyTorchJob": unrelated(SPEC), "Job": unrelated(shape_of(volcano_job.Spec))}
VALIDATORS = {kind: jsonschema_rs.validator_for(schema.schema(shape)) for kind, shape in SPECS.items()}
scraps = st.recursive(
    # To JSON Schema 1e300 is a whole number; to Go and to us it is none.
    st.sampled_from([each for each in JUNK if not isinstance(each, dict | list) and each != 1e300])
    | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from([*GOOD, "size", "x"]), below),
    max_leaves=6,
)


@pytest.mark.parametrize("kind", SPECS)
@settings(quick, max_examples=1000)
@given(seed=st.integers(0, 2**32))
def test_schema_and_reader_accept_the_same_jobs(kind, seed):
    spec = pruned(mutated(seed, kind).get("spec"))

    assert VALIDATORS[kind].is_valid(spec) == fits(SPECS[kind], spec)


@quick
@given(st.sampled_from(list(GOOD)), scraps)
def test_schema_and_reader_accept_the_same_values(key, value):
    cart = pruned({**GOOD, key: value})

    assert jsonschema_rs.is_valid(schema.schema(shape_of(Cart)), cart) == fits(shape_of(Cart), cart)


@quick
@given(st.text("0123456789.+-eEmMkKGinu \n", max_size=8))
def test_schema_and_reader_accept_the_same_quantities(text):
    shape = Shape("int-or-quantity")

    assert jsonschema_rs.is_valid(schema.schema(shape), text) == fits(shape, text)


def parts(node):
    yield node
    below = [*node.get("properties", {}).values(), node.get("items"), node.get("additionalProperties")]
    for each in below:
        if each is not None:
            yield from parts(each)


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(schema.document(pytorch_job.Spec, kubeflow.Status, "A job."), id="PyTorchJob"),
        pytest.param(schema.document(volcano_job.Spec, volcano_job.Status, "A job."), id="Job"),
    ],
)
def test_the_schema_is_structural(document):

    for part in parts(document):
        assert not {"$ref", "nullable", "oneOf", "allOf", "not", "default"} & set(part)
        typed = part.get("type") in ("object", "array", "string", "integer", "number", "boolean")
        assert typed or part.get("x-kubernetes-int-or-string") or part.get("x-kubernetes-preserve-unknown-fields")
        assert not ("properties" in part and "additionalProperties" in part)
        assert part.get("type") != "integer" or part["format"] in ("int32", "int64")
        assert part.get("type") != "array" or "items" in part
    jsonschema_rs.meta.validate(document)


def test_the_schema_of_a_job():
    spec = schema.document(pytorch_job.Spec, kubeflow.Status)["properties"]["spec"]
    roles, policy = spec["properties"]["pytorchReplicaSpecs"], spec["properties"]["runPolicy"]

    assert spec["required"] == ["pytorchReplicaSpecs"]
    assert roles["additionalProperties"]["properties"] == {
        "replicas": {
            "description": "How many pods the role has.",
            "type": "integer",
            "format": "int32",
            "minimum": 1,
            "maximum": 150_000,
        },
        "template": {
            "description": "The pod template, with a container named 'pytorch'.",
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "restartPolicy": {
            "description": "What happens when a container ends.",
            "type": "string",
            "enum": ["Always", "OnFailure", "Never", "ExitCode"],
        },
    }
    assert policy["properties"]["activeDeadlineSeconds"]["format"] == "int64"
    queue = policy["properties"]["schedulingPolicy"]["properties"]["queue"]
    assert queue["x-kubernetes-validations"] == [{"rule": "self == oldSelf", "message": "field is immutable"}]


RELATED = Shape(
    "object",
    fields={name: Shape("integer") for name in ("min-size", "max-size", "a", "b")},
    ordered=(("min-size", "max-size"),),
    one_of=OneOf(("a", "b"), "which letter it is", "a or b"),
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"a": 1, "min-size": 2, "max-size": 2}, [], id="fields that go together"),
        pytest.param({"a": 1, "min-size": 9}, [], id="a bound alone"),
        pytest.param(
            {"a": 1, "min-size": 3, "max-size": 2},
            ["spec.min-size: 3 is more than max-size (2); lower it, or raise max-size"],
            id="bounds that cross",
        ),
        pytest.param({}, ["spec: says nothing about which letter it is; write one of a or b"], id="none of them"),
        pytest.param(
            {"a": 1, "b": 2}, ["spec: has a and b, which exclude each other; write one of a or b"], id="both of them"
        ),
        pytest.param({"a": 1, "b": None}, [], id="null is none"),
    ],
)
def test_fields_that_are_related(value, expected):
    assert sentences(list(walk(RELATED, value, "spec"))) == expected


def test_what_relates_fields_is_a_rule_in_the_same_words():
    ordered, none, several = schema.schema(RELATED)["x-kubernetes-validations"]

    assert ordered["fieldPath"] == "['min-size']"
    assert ordered["rule"].endswith("self.min__dash__size <= self.max__dash__size")
    assert ordered["messageExpression"] == (
        "'%d is more than max-size (%d); lower it, or raise max-size'"
        ".format([self.min__dash__size, self.max__dash__size])"
    )
    assert none["message"] == "says nothing about which letter it is; write one of a or b"
    assert several["messageExpression"].startswith("'has ' + (")
    assert several["messageExpression"].endswith(" + ', which exclude each other; write one of a or b'")


def test_a_quantity_that_takes_bare_fractions_is_no_schema():
    with pytest.raises(ValueError, match="use int-or-quantity"):
        schema.schema(Shape("quantity"))


def test_unknown_fields_are_no_matter_of_the_schema():
    spec = changed(FULL, {"spec.elasticPolicy.unheard": 5, "spec.nprocPerNode": GONE})["spec"]

    assert VALIDATOR.is_valid(spec)
    assert [is_unknown(problem) for problem in walk(SPEC, spec)] == [True]
