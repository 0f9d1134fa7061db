"""The published EDL experiments against what is wanted of our policy, and how long a simulated day takes.

Run with `.venv/bin/python benchmarks/simulate.py`; docs/elasticity.md quotes it and says what stands in the way of
more.
"""

import time
from dataclasses import dataclass
from importlib.resources import files

import yaml

from trainwright.autoscaler import POLICIES
from trainwright.simulate import Figures, Scenario, average, read, simulate

SEEDS = range(1, 6)


@dataclass(frozen=True)
class Bar:
    """One figure that is wanted, and what released EDL had on the real cluster."""

    scenario: str
    figure: str
    measured: str
    wanted: float
    at_least: bool
    times_static: bool = False


BARS = (
    Bar("edl-case-1", "pending_s", "47", 10, at_least=False),
    Bar("edl-case-1", "strict_ready_s", "116", 15, at_least=False),
    Bar("edl-case-1", "jobs_up", "14.5", 20, at_least=True),
    Bar("edl-case-1", "jain", "0.44", 0.98, at_least=True),
    Bar("edl-case-1", "utilisation_steady", "0.863", 0.863, at_least=True),
    Bar("edl-case-2", "utilisation", "0.834", 0.85, at_least=True),
    Bar("edl-case-2", "utilisation_off_peak", "0.792", 0.83, at_least=True),
    Bar("edl-case-2", "background_shortfall_pod_s", "18 x static", 8, at_least=False, times_static=True),
    Bar("edl-case-2-quick-exit", "background_shortfall_pod_s", "-", 2, at_least=False, times_static=True),
    Bar("edl-case-2", "background_max_after_600s", "175 to 398", 400, at_least=True),
)


def shipped(name: str) -> Scenario:
    return read(yaml.safe_load((files("trainwright.simulate") / "scenarios" / f"{name}.yaml").read_text()))


def figures(name: str) -> dict[str, Figures]:
    scenario = shipped(name)
    return {policy: average([simulate(scenario, policy, seed) for seed in SEEDS]) for policy in POLICIES}


def bars() -> None:
    found = {name: figures(name) for name in dict.fromkeys(bar.scenario for bar in BARS)}
    print(f"{'':53}{'real EDL':>12}{'wanted':>10}" + "".join(f"{policy:>12}" for policy in POLICIES))
    for bar in BARS:
        values = {policy: getattr(each, bar.figure) for policy, each in found[bar.scenario].items()}
        if bar.times_static:
            values = {policy: value / values["static"] for policy, value in values.items()}
        ours = values["fulfilment"]
        met = ours >= bar.wanted if bar.at_least else ours <= bar.wanted
        row = "".join(f"{value:12.3f}" for value in values.values())
        wanted = f"{'>=' if bar.at_least else '<='} {bar.wanted:g}"
        print(f"{bar.scenario:22}{bar.figure:31}{bar.measured:>12}{wanted:>10}{row}{'' if met else '  short'}")


def day() -> None:
    scenario = shipped("thousand-jobs")
    for policy in POLICIES:
        began = time.process_time()
        result = simulate(scenario, policy, 1)
        took = time.process_time() - began
        print(f"24 h, 1,000 jobs, 500 nodes, {policy:12}{took:6.1f} s CPU, {result.figures.rounds:,.0f} rounds")


if __name__ == "__main__":
    bars()
    day()
