"""Dataclasses whose methods are written when one of them is first used.

Python compiles six methods for each frozen dataclass, which takes nearly a millisecond, and a command imports hundreds
of classes of which it uses a few. The methods are those of the standard library.
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> type | Callable[[type], type]:
        """Do the same as `dataclasses.dataclass`, with the options that this project uses."""
        return _make(cls) if cls is not None else lambda each: _make(each, **options)


_METHODS = ("__init__", "__repr__", "__eq__", "__hash__")


def _make(cls: Any, *, frozen: bool = False, slots: bool = False, eq: bool = True, kw_only: bool = False) -> Any:
    doc, own = cls.__doc__, vars(cls)
    has_hash = own.get("__hash__") is not None
    names = [name for name in _METHODS if name not in own and (eq or name in {"__init__", "__repr__"})]
    cls.__doc__ = doc or cls.__name__  # Without one, Python writes it from the signature, which needs the methods.
    # The standard library would compile two methods of frozen classes. Only heirs must be declared frozen to it.
    is_heir = any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:])
    made = dataclasses.dataclass(
        cls, init=False, repr=False, eq=False, frozen=frozen and is_heir, slots=slots, kw_only=kw_only
    )
    made.__doc__ = doc
    if frozen:
        _freeze(made, has_slots=slots)
    if eq and not frozen and not has_hash:
        made.__hash__ = None
        names = [name for name in names if name != "__hash__"]
    for name in names:
        setattr(made, name, _Unwritten(made, name))
    return made


def _freeze(cls: Any, *, has_slots: bool) -> None:
    names = frozenset(each.name for each in dataclasses.fields(cls))

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__dataclass_params__.frozen = True
    cls.__setattr__, cls.__delattr__ = set_attribute, delete_attribute
    if has_slots:
        cls.__getstate__, cls.__setstate__ = _state, _set_state


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


class _Unwritten:
    """A method that is not written yet. The first access writes all methods of the class."""

    __slots__ = ("_cls", "_name")

    def __init__(self, cls: type, name: str) -> None:
        self._cls, self._name = cls, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        _write_methods(self._cls)
        return vars(self._cls)[self._name].__get__(instance, owner)


def _write_methods(cls: Any) -> None:
    fields = [(each.name, each.type, each) for each in dataclasses.fields(cls)]
    hooks = {"__post_init__": cls.__post_init__} if hasattr(cls, "__post_init__") else {}
    frozen = cls.__dataclass_params__.frozen
    written = vars(dataclasses.make_dataclass(cls.__name__, fields, namespace=hooks, frozen=frozen))
    for name in _METHODS:
        if isinstance(vars(cls).get(name), _Unwritten):
            method = written[name]
            method.__qualname__ = f"{cls.__qualname__}.{name}"
            setattr(cls, name, method)
