"""Cache values that cost much to compute, within a number of bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """Evicts the least recently used, and may be used from any thread. A value that alone exceeds the limit is kept."""

    def __init__(self, most_bytes: int, size_of: Callable[[Value], int]) -> None:
        self._most_bytes = most_bytes
        self._size_of = size_of
        self._held_bytes = 0
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Return the value of a key, computed if it is not cached."""
        try:
            self._values.move_to_end(key)
            return self._values[key]
        except KeyError:
            pass
        # Computing takes long, and computing twice does no harm, so there is no lock around it.
        value = compute()
        with self._lock:
            known = self._values.setdefault(key, value)
            if known is value:
                self._held_bytes += self._size_of(value)
            while self._held_bytes > self._most_bytes and len(self._values) > 1:
                self._held_bytes -= self._size_of(self._values.popitem(last=False)[1])
        return known
