"""Cache values that are expensive to compute, up to a maximum size in bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """Thread-safe LRU cache. The newest value is kept even if it alone exceeds the limit."""

    def __init__(self, most_bytes: int, size_of: Callable[[Value], int]) -> None:
        self._most_bytes = most_bytes
        self._size_of = size_of
        self._held_bytes = 0
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._entries_lock = threading.Lock()

    def get(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Return the cached value of a key; compute and cache it if it is missing."""
        try:
            self._values.move_to_end(key)
            return self._values[key]
        except KeyError:
            pass
        # Compute without the lock, because it takes long and computing a value twice does no harm.
        value = compute()
        with self._entries_lock:
            known = self._values.setdefault(key, value)
            if known is value:
                self._held_bytes += self._size_of(value)
            while self._held_bytes > self._most_bytes and len(self._values) > 1:
                self._held_bytes -= self._size_of(self._values.popitem(last=False)[1])
        return known
