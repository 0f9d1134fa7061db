"""Whatever stands in a manifest: a sentence, never a traceback."""

import copy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api.mutations import EXAMPLES, mutated, texts

from trainwright import admission
from trainwright.api import manifest
from trainwright.core.errors import ManifestError
from trainwright.kinds import KINDS, kind_of

many = settings(max_examples=2000, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
some = settings(many, max_examples=500)
every_kind = pytest.mark.parametrize("name", EXAMPLES)
seeds = st.integers(0, 2**32)


@every_kind
@many
@given(seed=seeds)
def test_a_mutated_manifest_is_admitted_or_refused_in_words(name, seed):
    obj = mutated(seed, name)
    before = copy.deepcopy(obj)

    problems = admission.review(obj)

    if any(problem.severity == "error" for problem in problems):
        with pytest.raises(ManifestError):
            admission.admit(obj)
    else:
        admitted = admission.admit(obj).object
        kind = kind_of(admitted)
        assert kind is None or kind.read(admitted).roles
        assert not [problem for problem in admission.review(admitted) if problem.severity == "error"]
    assert all(problem.message for problem in problems)
    assert obj == before


@every_kind
@some
@given(seed=seeds)
def test_defaults_are_filled_in_once(name, seed):
    (kind,) = (kind for kind in KINDS if kind.name == name)
    obj = mutated(seed, name)
    before = copy.deepcopy(obj)

    once = kind.default(obj)

    assert kind.default(once) == once
    assert obj == before


@every_kind
@some
@given(one=seeds, other=seeds)
def test_an_update_from_anything_to_anything_is_reviewed(name, one, other):
    problems = admission.review(mutated(one, name), mutated(other, name))

    assert all(problem.message for problem in problems)


@some
@given(texts())
def test_broken_text_is_read_as_far_as_it_goes(text):
    lines = text.count("\n") + 1
    for document in manifest.parse(text):
        assert document.object is not None or document.problems
        problems = [*document.problems, *(admission.review(document.object) if document.object is not None else ())]
        assert all(1 <= document.line_of(problem) <= lines for problem in problems)
