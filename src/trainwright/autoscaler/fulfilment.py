"""The score of a job, the order of jobs, and the policy made of them: everybody equally far from minimum to maximum.

The policy takes these steps, each of which sees what the ones before it have planned:

1. pods of others that wait get room, then minimums that are not met, whole or not at all, then some more pods of
   others, if many wait: what is not free is taken from the most fulfilled;
2. above the load that is allowed, the most fulfilled shrink;
3. free room goes to the least fulfilled, a unit at a time;
4. who got none of it now, and is further behind than one unit, gets room made by those ahead; while pods are stopping,
   places on small nodes leave a round later than those on larger ones, if there are enough of these.

A job moves in one direction per round. In step 4 those who give stay at least as fulfilled as the one who gets, so that
scores only ever become more even, and the steps end. Room that is still held by pods that are stopping is planned for
and given when it is free: until then the job it is meant for does not grow, and nobody else gets it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from trainwright.autoscaler.base import Cluster, ElasticJob, Plan
from trainwright.autoscaler.draft import Claimed, Draft, Gang, Row, Taken
from trainwright.autoscaler.room import NO_NODE, Shape, Vector, fits, slots, subtract
from trainwright.placement import show

WINDOW = 16
"""How many of the most fulfilled are compared when it matters where room is made."""
EFFORT = 64
"""How many units may have to leave together so that one job catches up by one."""
CROWD = 3
"""For every so many pods of others that have to wait, room is made for one more."""
FINEST = 4096
"""In how many steps a job grows at most: with a wider range, a step is more than one unit."""


def score(minimum: int, maximum: int, size: int) -> float:
    """Return how far a job is from its minimum (0) to its maximum (1)."""
    if maximum <= minimum:
        return 1.0
    return (size - minimum) / (maximum - minimum)


def order(jobs: Sequence[ElasticJob]) -> list[ElasticJob]:
    """Return the elastic jobs, the least fulfilled first; of equals the one with fewer GPUs, less cpu, less memory."""
    rows = Draft(Cluster(()), jobs).ranked()
    rows.sort(key=lambda row: (score(row.low, row.high, row.job.size), row.rank))
    return [row.job for row in rows]


def fulfilment(cluster: Cluster, jobs: Sequence[ElasticJob]) -> Plan:
    """Bring all jobs equally far, after others' pods and everybody's minimum."""
    draft = Draft(cluster, jobs)
    if draft.others or draft.gangs:
        donors = _Donors(draft.ranked(), _fulfilled)
        late = _yield_to_others(draft, donors)
        awaited = _meet_minimums(draft, donors, in_turn=cluster.in_turn)
        if cluster.in_turn:
            awaited |= {resource for shape in +late if _is_offered(draft, shape) for resource in _scarce(draft, shape)}
        _expect_more(draft, donors, late)
        _hold_back(draft, awaited)
    for shape, count in draft.promised:
        draft.claim(shape, count)
    if min(draft.spare, default=0) < 0:
        _relieve(draft, cluster)
    _share_free_room(draft)
    _even_out(draft)
    return draft.plan()


def _fulfilled(row: Row) -> float:
    return (row.size - row.low) / (row.high - row.low)


def _after_loss(row: Row) -> float:
    return (row.size - 1 - row.low) / (row.high - row.low)


def _unit(row: Row) -> float:
    """Return how much of its range one unit is."""
    return 1 / (row.high - row.low)


def _after_gain(row: Row) -> float:
    return (row.size + 1 - row.low) / (row.high - row.low)


class _Donors:
    """Jobs that can give units up, those first that a measure puts highest; of equals the hungriest first."""

    def __init__(self, rows: Iterable[Row], measure: Callable[[Row], float]) -> None:
        self._measure = measure
        self._filed: dict[Row, int] = {}
        """The size at which each job has been put in last; what was put in before does not count."""
        self._heap: list[tuple[float, int, int, Row]] = []
        for row in rows:
            self.put(row)

    def top(self) -> Row | None:
        """Return the first of them, if there is any."""
        while self._heap:
            _, _, size, row = self._heap[0]
            if size == row.size == self._filed.get(row) and not row.gained:
                return row
            if self._filed.get(row) == size and row.gives:
                self._filed[row] = row.size
                heapreplace(self._heap, (-self._measure(row), -row.rank, row.size, row))
            else:
                heappop(self._heap)
        return None

    def pop(self) -> Row | None:
        """Return the first of them and leave it out until it is put back."""
        row = self.top()
        if row:
            heappop(self._heap)
            del self._filed[row]
        return row

    def put(self, row: Row) -> None:
        """Count a job in, as it is now; to be said whenever its size has changed."""
        if row.gives and self._filed.get(row) != row.size:
            self._filed[row] = row.size
            heappush(self._heap, (-self._measure(row), -row.rank, row.size, row))

    def window(self) -> list[Row]:
        """Return those about as high as the first: taking one unit from it would put them first."""
        rows: list[Row] = []
        while len(rows) < WINDOW and (row := self.top()):
            if rows and self._measure(row) < _after_loss(rows[0]):
                break
            rows.append(row)
            self.pop()
        for row in rows:
            self.put(row)
        return rows


# Step 1: those who wait


def _yield_to_others(draft: Draft, donors: _Donors) -> Counter[Shape]:
    """Make room for pods that are not ours; return how many of each shape have to wait for it."""
    late: Counter[Shape] = Counter()
    for shape, count in _hungriest_first(Counter(draft.others)):
        late[shape] = count - _give_way(draft, donors, shape, count)
    return late


def _expect_more(draft: Draft, donors: _Donors, late: Counter[Shape]) -> None:
    """Make room for some more of the pods of others that have to wait, since such pods come in crowds."""
    for shape, count in _hungriest_first(late):
        _give_way(draft, donors, shape, count // CROWD)


def _hungriest_first(counts: Counter[Shape]) -> list[tuple[Shape, int]]:
    return sorted(counts.items(), key=lambda each: each[0].hunger, reverse=True)


def _give_way(draft: Draft, donors: _Donors, shape: Shape, count: int) -> int:
    """Make room for so many pods, if it can be had; return for how many it is free now."""
    claims = draft.claim(shape, count)
    left = count - sum(claim.times for claim in claims)
    while left > 0 and _make_room(draft, donors, shape, left, "pods of others wait for room"):
        left -= sum(claim.times for claim in draft.claim(shape, left))
    return sum(claim.times for claim in claims if claim.now)


def _meet_minimums(draft: Draft, donors: _Donors, *, in_turn: bool) -> set[int]:
    """Reserve what jobs lack to their minimum, first come first served.

    Where pods are placed in turn, nobody passes one that waits: return the resources for which somebody does.
    """
    awaited: set[int] = set()
    refused: dict[tuple[tuple[Shape, int], ...], str] = {}
    left = draft.obtainable()
    for gang in draft.gangs:
        job, missing = gang.row.job, tuple(gang.missing)
        if any(_asks(shape, awaited) for shape, _ in missing):
            draft.waiting[job.key] = f"its minimum of {gang.row.low} is not met: it waits for its turn"
            continue
        if missing not in refused:  # room only becomes less: what did not fit does not fit later in the round
            refusal = _refusal(draft, gang, left) or _reserve(draft, donors, gang)
            if not refusal:
                _count(gang, left, -1)
                continue
            refused[missing] = refusal
        draft.waiting[job.key] = f"its minimum of {gang.row.low} is not met: {refused[missing]}"
        if in_turn and _fits_alone(draft, gang):
            awaited |= {resource for shape, _ in missing for resource in _scarce(draft, shape)}
    return awaited


def _hold_back(draft: Draft, awaited: Collection[int]) -> None:
    """Let nobody grow who asks for what a minimum waits for: their pods would only wait behind it."""
    for row in draft.rows:
        if _asks(row.shape, awaited):
            row.cap = min(row.cap, max(row.size, row.low))


def _asks(shape: Shape, resources: Collection[int]) -> bool:
    return any(resource in resources for resource, _ in shape.needs)


def _scarce(draft: Draft, shape: Shape) -> set[int]:
    """Return what pods of a shape may wait for; places for pods are never what is short."""
    return {resource for resource, _ in shape.needs} - {
        resource for name, resource in draft.resources() if name == "pods"
    }


def _is_offered(draft: Draft, shape: Shape) -> bool:
    """Say whether any node would hold a pod if it were empty."""
    names = {resource: name for name, resource in draft.resources()}
    needs = [(names[resource], amount) for resource, amount in shape.needs]
    return any(all(node.offers.get(name, 0) >= amount for name, amount in needs) for node in draft.room.nodes)


def _fits_alone(draft: Draft, gang: Gang) -> bool:
    """Say whether what a gang lacks is no more than all nodes offer."""
    wanted = [0] * len(draft.room.offered)
    _count(gang, wanted, 1)
    return all(need <= offered for need, offered in zip(wanted, draft.room.offered, strict=True))


def _count(gang: Gang, amounts: Vector, sign: int) -> None:
    """Add what a gang lacks to amounts, or take it away."""
    for shape, count in gang.missing:
        subtract(amounts, shape.needs, -sign * count)


def _refusal(draft: Draft, gang: Gang, had: Vector) -> str:
    """Say what is short in sum, even if everybody shrank to their minimum."""
    wanted = [0] * len(had)
    _count(gang, wanted, 1)
    for name, resource in draft.resources():
        if wanted[resource] > had[resource]:
            offered = show(name, draft.room.offered[resource])
            needs, can_be_had = show(name, wanted[resource]), show(name, max(0, had[resource]))
            return f"it needs {name} {needs}, but only {can_be_had} of {offered} can be had"
    return ""


def _reserve(draft: Draft, donors: _Donors, gang: Gang) -> str:
    """Give a gang room as a whole, or say what is in the way and leave no trace."""
    row = gang.row
    taken: list[Taken] = []
    claims: list[Claimed] = []
    for shape, count in gang.missing:
        left = count if shape.needs else 0
        while left > 0:
            got = draft.claim(shape, left)
            claims += got
            left -= sum(claim.times for claim in got)
            if left <= 0:
                break
            room = _make_room(draft, donors, shape, left, f"job {row.job.key}'s minimum of {row.low} is not met")
            if not room:
                _undo(draft, donors, claims, taken)
                return f"no node can be freed for a pod with {draft.words(shape)}"
            taken += room
    row.size = max(row.size, row.low)
    row.granted = max(row.granted, row.low)
    if not all(claim.now for claim in claims):
        row.ready = False
        draft.waiting[row.job.key] = f"its minimum of {row.low} waits until pods that are stopping have left"
    return ""


def _undo(draft: Draft, donors: _Donors, claims: Iterable[Claimed], taken: Sequence[Taken]) -> None:
    for claim in claims:
        draft.unclaim(claim)
    for each in reversed(taken):
        draft.give_back(each)
        donors.put(each.row)


def _make_room(draft: Draft, donors: _Donors, shape: Shape, wanted: int, cause: str) -> list[Taken]:
    """Take units from the most fulfilled until one node holds a pod; return them, or nothing if no node ever will."""
    taken: list[Taken] = []
    while window := donors.window():
        best = _best_hole(draft, window, shape, wanted)
        if best is None and not taken and not _possible(draft, shape):
            return []
        row = best or window[0]
        taken.append(draft.take(row, cause))
        donors.put(row)
        if best:
            return _needed(draft, donors, taken, taken[-1].node)
    _undo(draft, donors, (), taken)
    return []


def _best_hole(draft: Draft, window: Sequence[Row], shape: Shape, wanted: int) -> Row | None:
    """Return whose next unit leaves a hole for the most of the wanted pods, with the least left over."""
    key, amount = shape.scarcest
    best: tuple[int, int] | None = None
    chosen = None
    for row in window:
        node = draft.last(row)
        if node == NO_NODE:
            continue
        hole = _widened(draft.room.hole(node), row.shape)
        count = slots(shape.needs, hole, wanted)
        measure = (-count, hole[key] - count * amount)
        if count and (best is None or measure < best):
            best, chosen = measure, row
    return chosen


def _needed(draft: Draft, donors: _Donors, taken: list[Taken], node: int) -> list[Taken]:
    """Give back what was taken on the way and does not help the node that was chosen in the end."""
    kept: list[Taken] = []
    helping: set[Row] = set()
    for each in reversed(taken):  # who helps must also lose the units that leave before the one that helps
        if each.node == node or each.row in helping:
            helping.add(each.row)
            kept.append(each)
        else:
            draft.give_back(each)
            donors.put(each.row)
    return kept[::-1]


def _possible(draft: Draft, shape: Shape) -> bool:
    """Say whether a node could hold a pod if everybody shrank to their minimum."""
    holes: dict[int, Vector] = {}
    for row in draft.rows:
        if not row.gives:
            continue
        for place in row.places[row.low : row.size]:
            node = draft.room.number(place)
            if node != NO_NODE:
                hole = holes[node] if node in holes else list(draft.room.hole(node))
                holes[node] = _widened(hole, row.shape)
    return any(fits(shape.needs, hole) for hole in holes.values())


def _widened(hole: Vector, shape: Shape) -> Vector:
    wider = list(hole)
    subtract(wider, shape.needs, -1)
    return wider


# Step 2: the load


def _relieve(draft: Draft, cluster: Cluster) -> None:
    """Shrink the most fulfilled until no more is used than allowed, or nobody is above their minimum."""
    for name, resource in draft.resources():
        if draft.spare[resource] >= 0:
            continue
        cause = f"more than {cluster.max_load:.0%} of the {name} is in use"
        donors = _Donors(draft.ranked(), _fulfilled)
        while draft.spare[resource] < 0 and (row := donors.pop()):
            if any(each == resource for each, _ in row.shape.needs) and draft.last(row) != NO_NODE:
                draft.take(row, cause)
                donors.put(row)


# Step 3: free room


def _share_free_room(draft: Draft) -> None:
    """Give free room to the least fulfilled, unit by unit."""
    growing = [row for row in draft.rows if _may_grow(row)]
    full = {shape for shape in {row.shape for row in growing} if not _holds_one(draft, shape)}
    growing = [row for row in growing if row.shape not in full]
    if not growing:
        return
    draft.ranked()
    heap = [(_fulfilled(row), row.rank, row) for row in growing]
    heapify(heap)
    while heap:
        row = heap[0][2]
        if row.shape in full or not _grow(draft, row):
            full.add(row.shape)
            heappop(heap)
        elif row.size >= row.cap:
            heappop(heap)
        else:
            heapreplace(heap, (_fulfilled(row), row.rank, row))


def _may_grow(row: Row) -> bool:
    job = row.job
    return row.size < row.cap and row.size >= row.low and not row.causes and not job.resizing and not job.resting


def _holds_one(draft: Draft, shape: Shape) -> bool:
    if not shape.needs:
        return bool(draft.room.nodes)
    return draft.affords(shape) and (draft.room.find_now(shape) != NO_NODE or draft.room.find_later(shape) != NO_NODE)


def _grow(draft: Draft, row: Row) -> bool:
    """Give a job its next unit, or its next step of units; say whether there was room."""
    shape = row.shape
    if not shape.needs:
        return _settle(row, row.cap - row.size, now=True)
    if not draft.affords(shape):
        return False
    node, now = draft.room.find_now(shape), True
    if node == NO_NODE:
        node, now = draft.room.find_later(shape), False
    if node == NO_NODE:
        return False
    if row.high - row.low < FINEST:
        draft.claim_one(node, shape, now=now)
        return _settle(row, 1, now=now)
    step = min(1 + (row.high - row.low) // FINEST, row.cap - row.size)
    step = slots(shape.counted, draft.unlimited, slots(shape.needs, draft.spare, step))
    return _settle(row, draft.claim_on(node, shape, step, now=now).times, now=now)


def _settle(row: Row, units: int, *, now: bool) -> bool:
    if now and row.ready and row.granted == row.size:
        row.granted += units
    row.size += units
    row.gained = True
    return True


# Step 4: those behind and those ahead


def _even_out(draft: Draft) -> None:
    """Let those ahead make room for those behind, as long as nobody falls behind whom they make room for.

    While pods are stopping, jobs are probably still coming. Their fixed pods take what is free first, and the scheduler
    puts them on small nodes, where a fixed pod beside units wastes most. So places on larger nodes become free first.
    """
    if draft.room.stopping and _hand_over_larger(draft):
        return
    _make_way(draft)


def _hand_over_larger(draft: Draft) -> bool:
    """Let those ahead hand over places that are not on small nodes; say whether it comes to one for each of them."""
    behind, ahead = _apart(draft)
    larger = {shape: draft.larger_nodes(shape) for shape in {row.shape for row in behind}}
    alike = {shape: _Donors(rows, _after_loss) for shape, rows in _by_shape(ahead).items() if larger.get(shape)}
    heap = [(_after_gain(row), row.rank, row) for row in behind if row.shape in alike]
    heapify(heap)
    level = _level({*behind, *ahead})
    given = 0
    while heap:
        gain, _, row = heap[0]
        donors = alike[row.shape]
        while (giver := donors.top()) and draft.last(giver) not in larger[row.shape]:
            donors.pop()  # it keeps this place for now, and those below it with it
        if not _swap(draft, donors, row, max(gain, level)):
            heappop(heap)
            continue
        given += 1
        _file_again(heap, row)
    return 0 < len(ahead) <= given


def _level(rows: Collection[Row]) -> float:
    """Return how fulfilled all would be if they were equally so: who is above it gives up units in any case."""
    return sum(sorted(map(_fulfilled, rows))) / max(1, len(rows))  # sorted: the order of sums must not matter


def _make_way(draft: Draft) -> None:
    """Let those ahead give up places, wherever they are, for those behind."""
    behind, ahead = _apart(draft)
    if not behind:
        return
    donors = _Donors(draft.rows, _after_loss)
    alike = {shape: _Donors(rows, _after_loss) for shape, rows in _by_shape(ahead).items()}
    heap = [(_after_gain(row), row.rank, row) for row in behind]
    heapify(heap)
    stuck: set[Shape] = set()
    while heap:
        gain, _, row = heap[0]
        giver = donors.top()
        if giver is None or _after_loss(giver) < gain:
            return  # whoever comes next would gain even more
        swapped = row.shape in alike and _swap(
            draft, alike[row.shape], row, max(gain, _after_loss(giver) - _unit(giver))
        )
        if not swapped and (row.shape in stuck or not _catch_up(draft, donors, row, gain)):
            stuck.add(row.shape)
            heappop(heap)
            continue
        _file_again(heap, row)


def _apart(draft: Draft) -> tuple[list[Row], list[Row]]:
    """Return those behind and those ahead; nobody if a unit from the first to the last would make nothing more even."""
    behind = [row for row in draft.rows if _may_grow(row) and row.granted <= max(row.job.size, row.low)]
    ahead = [row for row in draft.rows if row.gives]
    if not behind or not ahead or min(map(_after_gain, behind)) > max(map(_after_loss, ahead)):
        return [], []
    draft.ranked()
    return behind, ahead


def _file_again(heap: list[tuple[float, int, Row]], row: Row) -> None:
    """Put the first of a heap where it belongs with one unit more, or leave it out if it may have no more."""
    if row.size < row.cap:
        heapreplace(heap, (_after_gain(row), row.rank, row))
    else:
        heappop(heap)


def _by_shape(rows: Iterable[Row]) -> dict[Shape, list[Row]]:
    groups: dict[Shape, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.shape, []).append(row)
    return groups


def _swap(draft: Draft, alike: _Donors, row: Row, least: float) -> bool:
    """Take a unit from a job whose units ask for the same, if one is about as far ahead as anybody."""
    giver = alike.top()
    if giver is None or _after_loss(giver) < least or not draft.hand_over(giver, row):
        return False
    return _settle(row, 1, now=False)


def _catch_up(draft: Draft, donors: _Donors, row: Row, gain: float) -> bool:
    """Have others make room for one unit of a job; say whether they could."""
    taken: list[Taken] = []
    node = NO_NODE
    while node == NO_NODE and len(taken) < EFFORT and (giver := donors.pop()):
        if _after_loss(giver) < gain:
            donors.put(giver)
            break
        taken.append(draft.take(giver, row))
        donors.put(giver)
        last = taken[-1].node
        if last != NO_NODE and fits(row.shape.needs, draft.room.hole(last)) and draft.affords(row.shape):
            node = last
    if node == NO_NODE:
        _undo(draft, donors, (), taken)
        return False
    kept = _needed(draft, donors, taken, node)
    if not draft.affords(row.shape):
        _undo(draft, donors, (), kept)
        return False
    draft.claim_one(node, row.shape, now=False)
    return _settle(row, 1, now=False)
