"""`tw simulate`: its table, its JSON, its pictures, and how bad input is answered."""

import json
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner
from tests.simulate.scenarios import scenario

from trainwright.autoscaler import POLICIES
from trainwright.cli.simulate import command
from trainwright.core.errors import BadRequest, ManifestError, NotFound

PROMISED = {
    "pending_s",
    "strict_ready_s",
    "jobs_up",
    "jain",
    "jain_integral",
    "utilisation",
    "utilisation_steady",
    "utilisation_off_peak",
    "background_shortfall_pod_s",
    "background_max_after_600s",
    "resizes",
    "completed",
}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "two-nodes.yaml"
    path.write_text(yaml.safe_dump(scenario(description="a small one")))
    return str(path)


def said(*words):
    result = CliRunner().invoke(command, words)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_the_table_has_a_column_for_each_policy_and_a_line_for_each_job(file):
    lines = said(file).splitlines()

    assert lines[0] == "two-nodes: a small one"
    assert lines[3].split() == list(POLICIES)
    assert any(line.startswith("job fully up after, mean") for line in lines)
    assert sum(line.startswith("job-0 ") for line in lines) == len(POLICIES)


def test_job_by_job(file):
    assert "FULLY UP" in said(file, "--jobs", "--policy", "static")


def test_json_has_every_figure_and_why_each_job_was_resized(file):
    answer = json.loads(said(file, "-o", "json", "--seed", "1", "--seed", "2"))

    assert answer["seeds"] == [1, 2]
    assert list(answer["policies"]) == list(POLICIES)
    for figures in answer["policies"].values():
        assert set(figures) >= PROMISED
        assert 0 <= figures["utilisation"] <= 1
    changes = answer["policies"]["fulfilment"]["changes"]
    assert [(change["job"], change["before"], change["after"]) for change in changes] == [("job-0", 1, 4)]
    assert changes[0]["reason"]


@pytest.mark.parametrize("end", [".svg", ".html"])
def test_a_picture_is_drawn(file, tmp_path, end):
    picture = tmp_path / f"picture{end}"
    said(file, "--plot", str(picture))

    text = picture.read_text()
    root = ElementTree.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])
    assert {title.text for title in root.iter(f"{SVG}title")} == {"job-0"}
    assert set(POLICIES) <= {text.text for text in root.iter(f"{SVG}text")}


def test_a_page_has_the_table_and_the_picture(file):
    page = said(file, "-o", "html", "--policy", "static")

    assert "<td>utilisation</td>" in page
    assert "<svg" in page


def test_a_value_is_changed_on_the_way(file):
    answer = json.loads(said(file, "-o", "json", "--policy", "fulfilment", "--set", "jobs.0.elastic.max=2"))

    assert answer["policies"]["fulfilment"]["changes"][0]["after"] == 2


def test_a_file_may_be_standard_input():
    result = CliRunner().invoke(command, ["-", "--policy", "static"], input=yaml.safe_dump(scenario()))

    assert "jobs completed" in result.output


@pytest.mark.parametrize(
    ("words", "error", "sentence"),
    [
        pytest.param(
            ["edl-case1"],
            NotFound,
            "no file and no scenario 'edl-case1'; did you mean 'edl-case-1'?",
            id="a misspelt name",
        ),
        pytest.param(
            ["FILE", "--set", "jobs.0.elastic.min=9"], ManifestError, "is more than max (4)", id="a wrong value"
        ),
        pytest.param(["FILE", "--set", "job.0.count=2"], BadRequest, "did you mean 'jobs'?", id="a misspelt path"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(file, words, error, sentence):
    with pytest.raises(error) as caught:
        said(*(file if word == "FILE" else word for word in words))

    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param(["--policy", "fulfillment"], "did you mean 'fulfilment'?", id="a misspelt policy"),
        pytest.param(["--plot", "a.png"], "neither .svg nor .html", id="a picture of another kind"),
        pytest.param(["--seed", "-1"], "-1 is not in the range", id="a negative seed"),
    ],
)
def test_a_wrong_flag_says_what_would_be_right(file, words, sentence):
    assert sentence in said(file, *words)


def test_a_problem_names_its_line(tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text("until: 10\nnodes:\n- {name: a, offers: {cpu: 0}}\njobs: []\n")

    with pytest.raises(ManifestError) as caught:
        said(str(path))

    assert str(caught.value).startswith(f"{path}:3: nodes[0].offers.cpu: must be more than 0")


@pytest.mark.parametrize(
    "text", ["", "a: 1\n---\nb: 2\n", "- 1\n", "jobs: [\n"], ids=["nothing", "two", "a list", "broken"]
)
def test_a_file_that_is_no_scenario_is_refused(tmp_path, text):
    path = tmp_path / "wrong.yaml"
    path.write_text(text)

    with pytest.raises(ManifestError):
        said(str(path))
