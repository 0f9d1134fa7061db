"""Whatever comes and goes, the sizes of jobs come to rest within their ranges, and every change is accounted for."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cluster import virtual
from tests.operator.scaling_world import World, node, pod, pytorch_job, training_job, volcano_job, world

from trainwright.core.errors import NotFound
from trainwright.core.resources import POD

MAKERS = (pytorch_job, volcano_job, training_job)
RANGES = ((1, 8), (2, 4), (3, 6))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.sampled_from(range(3)), st.sampled_from(RANGES), st.booleans()),
        st.tuples(st.just("finish"), st.integers(0, 5)),
        st.tuples(st.just("others come"), st.integers(1, 3)),
        st.tuples(st.just("others go")),
        st.tuples(st.just("wait"), st.sampled_from([0.5, 3, 40])),
    ),
    min_size=1,
    max_size=10,
)


class Life:
    """A world to which a list of steps happens."""

    def __init__(self, w: World) -> None:
        self.w = w
        self.ranges: dict[str, tuple[int, int]] = {}
        self.others = 0

    async def submit(self, maker: int, span: tuple[int, int], large: bool) -> None:
        name = f"j{len(self.ranges)}"
        self.ranges[name] = span
        await self.w.submit(MAKERS[maker](name, *span, span[1] if large else span[0]))

    async def finish(self, number: int) -> None:
        if number < len(self.ranges):
            await self.w.finish(f"j{number}")

    async def others_come(self, cpu: int) -> None:
        self.others += 1
        await self.w.submit(pod(f"web-{self.others}", str(cpu)))

    async def others_go(self) -> None:
        try:
            await self.w.cluster.delete(POD, "shop", f"web-{self.others}", grace=0)
        except NotFound:
            return
        self.others -= 1

    async def wait(self, seconds: float) -> None:
        await self.w.wait(seconds)

    async def check(self) -> None:
        """Nothing changes any more; sizes are in their ranges; what is beyond a minimum has room; histories add up."""
        await self.w.wait(600)
        sizes = await self.w.sizes()
        await self.w.wait(600)
        assert await self.w.sizes() == sizes, "the sizes do not come to rest"
        for name, (least, most) in self.ranges.items():
            assert least <= sizes[name] <= most
            changes = [change.split("-") for change in await self.w.history(name)]
            assert [to for _, to in changes[:-1]] == [start for start, _ in changes[1:]], "a change is missing"
            assert not changes or changes[-1][1] == str(sizes[name])
            pods = await self._pods(name)
            waiting = [each for each in pods if not each["spec"].get("nodeName")]
            ending = [each for each in pods if each["status"]["phase"] == "Succeeded"]
            assert not waiting or ending or sizes[name] == least, "a pod beyond the minimum has no room"

    async def _pods(self, name: str) -> list[dict[str, dict[str, object]]]:
        pods = (await self.w.cluster.list(POD, "default")).items
        return [each for each in pods if each["metadata"]["name"].startswith(f"{name}-")]


@settings(max_examples=30, deadline=None)
@given(STEPS)
def test_any_life_comes_to_rest(steps):
    async def played() -> None:
        async with world(node(cpu="5"), node("m", "4")) as opened:
            life = Life(opened)
            for verb, *words in steps:
                await getattr(life, verb.replace(" ", "_"))(*words)
            await life.check()

    virtual.run(played())
