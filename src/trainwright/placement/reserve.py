"""What may be taken of one node, or of one quota, without anybody ahead in the queue ever missing it.

How long pods run is unknown, so any of those that hold something now may end next, alone or with any others, and those
ahead in the queue may come and go as well. A gang A that is ahead starts as soon as it fits beside whoever is left of
them, S. Somebody who takes f now and stays does A no harm if, for every S, A that fits beside S also fits beside S and
f together. The sums that pods may come to are few, so the one that comes closest to keeping A out is found by adding
up: with `ceiling` = offered - A, and `most` the largest sum of some of the others that is not above it, f may be
ceiling - most of each resource that A asks for at all. That is less than what is free: on a node of 10 with two pods of
4 and A waiting for 6 nobody may take the 2 that are free, since A starts when one of the two ends.

Once f is taken it is one of those who may stay, and every limit is less by f. It need not be worked out again: a sum
that includes f is f more than one that did not, and those were at least the limit away from keeping A out.
"""

from collections.abc import Iterable, Sequence
from math import gcd

from trainwright.placement.amounts import Amounts
from trainwright.placement.fit import CHOSEN_BY

_STEPS = 1 << 18
"""Sums are told apart in at most so many steps; of finer amounts every sum up to their total counts as possible."""


class Reserve:
    """What those ahead need of one node or quota, while the queue is gone through."""

    def __init__(self, offered: Amounts, held: Iterable[Amounts]) -> None:
        """Begin with nobody ahead; `held` is what each pod has that is there."""
        self._offered = offered
        self._pods = list(held)
        self._sums: dict[str, _Sums] = {}
        self._limits: dict[str, int] = {}
        self._for: dict[str, str] = {}
        """Whom each of the limits is for."""

    def within(self, free: Amounts) -> Amounts:
        """Return how much of what is free may be taken."""
        if not self._limits:
            return free
        return {name: min(value, self._limits.get(name, value)) for name, value in free.items()}

    def kept_for(self, needs: Amounts) -> str:
        """Return who needs what some others would take; nothing if nobody does."""
        return next((who for name, who in self._for.items() if needs.get(name, 0) > self._limits[name]), "")

    def take(self, needs: Amounts) -> None:
        """Count a pod in that starts now."""
        self._add(needs)
        for name in self._limits:
            self._limits[name] -= needs.get(name, 0)

    def keep_for(self, who: str, pods: Sequence[Amounts], *, only_here: bool = True) -> None:
        """Let pods that wait come first: whoever is behind takes only what they can never miss.

        Unless they can be only here, nobody takes any of what decides where they go, and of the rest what would be
        left if all were here together.
        """
        for name in {name for needs in pods for name in needs}:
            needed = sum(needs.get(name, 0) for needs in pods)
            if needed <= 0 or self._limits.get(name) == 0:
                continue
            ceiling = self._offered.get(name, 0) - needed
            if only_here:
                limit = ceiling - self._summed(name).most(ceiling)
            else:
                limit = 0 if name in CHOSEN_BY else ceiling - self._summed(name).total
            if name not in self._limits or limit < self._limits[name]:
                self._limits[name], self._for[name] = max(0, limit), who
        for needs in pods:
            self._add(needs)

    def _add(self, needs: Amounts) -> None:
        self._pods.append(needs)
        for name, sums in self._sums.items():
            sums.add(needs.get(name, 0))

    def _summed(self, name: str) -> "_Sums":
        if name not in self._sums:
            self._sums[name] = _Sums(self._offered.get(name, 0))
            for needs in self._pods:
                self._sums[name].add(needs.get(name, 0))
        return self._sums[name]


class _Sums:
    """What any of several amounts come to together, up to what is offered."""

    def __init__(self, offered: int) -> None:
        self._offered = offered
        self._amounts: list[int] = []
        self._unit = 0
        self._reached = 1
        """Bit n: some of them come to n units."""

    def add(self, amount: int) -> None:
        """Count one more amount in; what is more than offered is beside nobody."""
        if not 0 < amount <= self._offered:
            return
        self._amounts.append(amount)
        unit = gcd(self._unit, amount)
        if unit == self._unit:
            self._reach(amount)
        else:
            self._unit, self._reached = unit, 1
            for each in self._amounts:
                self._reach(each)

    def most(self, ceiling: int) -> int:
        """Return the largest sum that is not above the ceiling."""
        if ceiling <= 0 or not self._amounts:
            return 0
        if self._is_too_fine:
            return min(ceiling, self.total)
        below = self._reached & ((1 << ceiling // self._unit + 1) - 1)
        return (below.bit_length() - 1) * self._unit

    @property
    def total(self) -> int:
        """Return what all of them come to."""
        return sum(self._amounts)

    @property
    def _is_too_fine(self) -> bool:
        return self._offered // self._unit > _STEPS

    def _reach(self, amount: int) -> None:
        if not self._is_too_fine:
            everything = (1 << self._offered // self._unit + 1) - 1
            self._reached |= (self._reached << amount // self._unit) & everything
