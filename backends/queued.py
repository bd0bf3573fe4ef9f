"""A loaded kernel on a device that has one queue, whose work is done in order: OpenCL, WebGPU, Metal.

Calls from several threads take turns, and a call may pass one array twice as long as neither place is written.

    function(sizes, [x, out])            NumPy arrays: copied there and, where they are written, back
    function(sizes, [put(x), put(out)])  arrays that stay there: returns before the work is done
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tang_verified.backends.device import Call, Checked, DeviceArray

Array = np.ndarray[Any, Any]


class QueuedFunction:
    """What a runtime gives for it: copies (`put`, `get`), a buffer of a DeviceArray's kind, and a way to start all launches."""

    def __init__(
        self,
        checked: Checked,
        put: Callable[[Array], DeviceArray],
        get: Callable[[DeviceArray], Array],
        allocate: Callable[[str, tuple[int, ...]], Any],
        start: Callable[[Call, list[Any]], None],
    ) -> None:
        self.name, self._checked = checked.plan.name, checked
        self._put, self._get, self._allocate, self._start = put, get, allocate, start
        self._lock = threading.Lock()  # the queue, a kernel's arguments and its scratch are shared by all callers
        self._scratch: tuple[Call | None, list[Any]] = (None, [])

    def __call__(self, sizes: Sequence[int], arrays: Sequence[Any]) -> None:
        """Run on arrays in the plan's order, scratch left out."""
        call = self._checked.at(tuple(map(int, sizes)))
        self._checked.arrays(call, arrays)
        moved = [array if isinstance(array, DeviceArray) else self._put(array) for array in arrays]
        with self._lock:
            passed, scratch = iter(array.buffer for array in moved), iter(self._kept(call))
            self._start(call, [next(scratch if binding.scratch else passed) for binding in self._checked.plan.bindings])
        for binding, array, there in zip(self._checked.passed, arrays, moved, strict=True):
            if binding.written and there is not array and array.size:
                array[...] = self._get(there)

    def _kept(self, call: Call) -> list[Any]:
        """The scratch arrays of the last call's sizes; their content is undefined."""
        if self._scratch[0] is None or self._scratch[0].sizes != call.sizes:
            self._scratch = (None, [])  # the old ones are released first
            bindings = zip(self._checked.plan.bindings, call.shapes, strict=True)
            self._scratch = (call, [self._allocate(binding.dtype, shape) for binding, shape in bindings if binding.scratch])
        return self._scratch[1]
