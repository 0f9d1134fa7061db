"""Whatever is seen of a job, something is said, on one line, that names the job."""

from hypothesis import given
from hypothesis import strategies as st
from tests.reconcile.making import manifest
from tests.why.making import LATER, event, lived, node, other, pod, said, seen

from trainwright.why import SITUATIONS, judge

JOBS = st.sampled_from(
    [
        manifest(1, 2),
        manifest(workers=3, policy="Never"),
        manifest(workers=3, policy="ExitCode", backoffLimit=2, activeDeadlineSeconds=90),
        manifest(workers=2, elastic={"minReplicas": 1, "maxReplicas": 3}),
        manifest(workers=2, suspend=True),
    ]
)
PHASES = st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])
MARKS = st.sampled_from(["", "=1", "=139", "=137+2", "+3", "!", "=3!"])
REASONS = st.sampled_from(
    ["FailedCreatePod", "Unhealthy", "Killing", "Preempted", "OOMKilling", "NotScaled", "Waiting", "NameTaken"]
)


@st.composite
def looks(draw: st.DrawFn) -> str:
    """Draw what the pods of a job look like at one moment."""
    roles = ("master-0", "worker-0", "worker-1", "worker-2")
    there = draw(st.sets(st.sampled_from(roles)))
    return " ".join(f"{name}:{draw(PHASES)}{draw(MARKS)}" for name in sorted(there))


@given(
    JOBS, st.lists(looks(), min_size=1, max_size=3), st.lists(REASONS), st.booleans(), st.sampled_from(["run", "kept"])
)
def test_something_is_said(job, steps, reasons, printed, home):
    pods = [pod(words) for words in steps[-1].split()]
    output = {each["metadata"]["uid"]: said("step 1", ago=400.0 * index) for index, each in enumerate(pods)}
    facts = seen(
        lived(job, *steps),
        *pods,
        now=LATER,
        events=tuple(event(reason, f"a probe\nsaid {reason}", "j-worker-0") for reason in reasons),
        nodes=(node(), node("n2", ready=False)),
        others=(other("a-0", "7", job="a"),),
        output=output if printed else {},
        home=home,
    )

    verdict = judge(facts)

    assert verdict.situation in SITUATIONS
    assert "j" in verdict.sentence.replace("-", " ").replace(":", " ").split()
    assert not any("\n" in line for line in (verdict.sentence, *verdict.evidence, *verdict.next))
