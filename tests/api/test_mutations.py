"""Whatever stands in a manifest: a sentence, never a traceback."""

import copy

import pytest
from hypothesis import HealthCheck, given, settings
from tests.api.mutations import objects, texts

from trainwright import admission
from trainwright.api import manifest, pytorch_job
from trainwright.core.errors import ManifestError

many = settings(max_examples=2000, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
some = settings(many, max_examples=500)


@many
@given(objects())
def test_a_mutated_manifest_is_admitted_or_refused_in_words(obj):
    before = copy.deepcopy(obj)

    problems = admission.review(obj)

    if any(problem.severity == "error" for problem in problems):
        with pytest.raises(ManifestError):
            admission.admit(obj)
    else:
        admitted = admission.admit(obj).object
        assert admitted["kind"] != "PyTorchJob" or pytorch_job.read(admitted).total >= 1
        assert not [problem for problem in admission.review(admitted) if problem.severity == "error"]
    assert all(problem.message for problem in problems)
    assert obj == before


@some
@given(objects())
def test_defaults_are_filled_in_once(obj):
    before = copy.deepcopy(obj)

    once = pytorch_job.default(obj)

    assert pytorch_job.default(once) == once
    assert obj == before


@some
@given(objects(), objects())
def test_an_update_from_anything_to_anything_is_reviewed(obj, old):
    problems = admission.review(obj, old)

    assert all(problem.message for problem in problems)


@some
@given(texts())
def test_broken_text_is_read_as_far_as_it_goes(text):
    lines = text.count("\n") + 1
    for document in manifest.parse(text):
        assert document.object is not None or document.problems
        problems = [*document.problems, *(admission.review(document.object) if document.object is not None else ())]
        assert all(1 <= document.line_of(problem) <= lines for problem in problems)
