"""The least traffic of tiny computations, by search over all schedules: a red-blue pebble game in which sums go in any order.

Inputs lie in slow memory. A result is born in fast memory, grows by operations in any order, may be stored, forgotten and
loaded again; what is not an output may be forgotten when it has been used, or if `again` also before that, and made anew. Loads
and stores cost 1 each; all elements are of one size. Two things are done without loss of generality: an element leaves only
when there is no room, and an operation into a result that must be stored anyway is done at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """result ⊕= f(operands), where operands are inputs or whole results."""

    result: str
    operands: tuple[str, ...]


State = tuple[int, int, int, int, tuple[int, ...]]  # fast, dirty, in slow memory (bits); done; operations in the slow copies


def least_traffic(operations: Sequence[Operation], outputs: Sequence[str], capacity: int, *, again: bool = False) -> int:
    """A* search over the states of the game, by what must still be loaded and stored at least."""
    results = sorted({op.result for op in operations})
    names = [*results, *sorted({name for op in operations for name in op.operands} - set(results))]
    bit = {name: 1 << number for number, name in enumerate(names)}
    into = [bit[op.result] for op in operations]
    needs = [sum(bit[name] for name in op.operands) for op in operations]
    of = [sum(1 << n for n, op in enumerate(operations) if op.result == name) for name in results]
    uses = [sum(1 << n for n, op in enumerate(operations) if name in op.operands) for name in names]
    out = sum(bit[name] for name in outputs)
    everything = (1 << len(operations)) - 1

    def ready(n: int, fast: int, done: int) -> bool:
        if needs[n] & ~fast:
            return False
        return all(not needs[n] >> r & 1 or of[r] & ~done == 0 for r in range(len(results)))

    def eager(state: State) -> State:
        fast, dirty, slow, done, kept = state
        for n in range(len(operations)):
            if not done >> n & 1 and into[n] & dirty and ready(n, fast, done):
                return eager((fast, dirty, slow, done | 1 << n, kept))
        return state

    def left(state: State) -> int:
        fast, _, slow, done, kept = state
        loads = sum(1 for k in range(len(results), len(names)) if not fast >> k & 1 and uses[k] & ~done)
        stores = sum(1 for r in range(len(results)) if out >> r & 1 and not (slow >> r & 1 and kept[r] == of[r]))
        return loads + stores

    def moves(state: State) -> Iterator[tuple[int, State]]:
        fast, dirty, slow, done, kept = state
        for r in range(len(results)):
            if dirty >> r & 1:
                yield 1, (fast, dirty & ~(1 << r), slow | 1 << r, done, (*kept[:r], done & of[r], *kept[r + 1 :]))
        for n in range(len(operations)):  # into a clean result
            if not done >> n & 1 and into[n] & fast & ~dirty and ready(n, fast, done):
                yield 0, (fast, dirty | into[n], slow, done | 1 << n, kept)
        if fast.bit_count() == capacity:
            for k in range(len(names)):
                if not fast >> k & 1:
                    continue
                if k >= len(results) or not dirty >> k & 1:
                    lost = of[k] & ~(kept[k] if slow >> k & 1 else 0) if k < len(results) else 0
                    if not lost:
                        yield 0, (fast & ~(1 << k), dirty, slow, done, kept)
                elif not out >> k & 1 and uses[k] & ~done == 0:
                    yield 0, (fast & ~(1 << k), dirty & ~(1 << k), slow, done, kept)
                elif again:
                    yield 0, (fast & ~(1 << k), dirty & ~(1 << k), slow, done & ~of[k] | (kept[k] if slow >> k & 1 else 0), kept)
            return
        for k in range(len(names)):
            if fast >> k & 1:
                continue
            if k >= len(results):
                if uses[k] & ~done:
                    yield 1, (fast | 1 << k, dirty, slow, done, kept)
            elif slow >> k & 1:
                if of[k] & ~done or uses[k] & ~done:
                    yield 1, (fast | 1 << k, dirty, slow, done, kept)
            elif of[k] & done == 0 and any(of[k] >> n & 1 and ready(n, fast, done) for n in range(len(operations))):
                yield 0, (fast | 1 << k, dirty | 1 << k, slow, done, kept)

    start: State = (0, 0, 0, 0, (0,) * len(results))
    best, queue, number = {start: 0}, [(left(start), 0, 0, start)], 1
    while queue:
        _, _, cost, state = heapq.heappop(queue)
        if cost > best[state]:
            continue
        if state[3] == everything and left(state) == 0:
            return cost
        for price, after in moves(state):
            after = eager(after)
            if cost + price < best.get(after, 1 << 30):
                best[after] = cost + price
                heapq.heappush(queue, (cost + price + left(after), number, cost + price, after))
                number += 1
    raise ValueError(f"nothing can be computed in {capacity} elements")
