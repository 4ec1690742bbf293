"""The operators and the numpy-like methods of Var. The functions that they stand for import Var, so they come later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minnow.expr.var import Var


def _binary(name: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def operator(self: Any, other: Any) -> Any:
        from minnow.expr import elementwise

        function = getattr(elementwise, name)
        return function(other, self) if swapped else function(self, other)

    operator.__doc__ = f"`{name}`, elementwise."
    return operator


def _unary(name: str) -> Callable[[Any], Any]:
    def operator(self: Any) -> Any:
        from minnow.expr import elementwise

        return getattr(elementwise, name)(self)

    return operator


class Operators:
    """`+ - * / // % ** & | ^ ~ == != < <= > >= []`, each as the function of that meaning."""

    __slots__ = ()

    __add__, __radd__ = _binary("add"), _binary("add", True)
    __sub__, __rsub__ = _binary("subtract"), _binary("subtract", True)
    __mul__, __rmul__ = _binary("multiply"), _binary("multiply", True)
    __truediv__, __rtruediv__ = _binary("divide"), _binary("divide", True)
    __floordiv__, __rfloordiv__ = _binary("floordiv"), _binary("floordiv", True)
    __mod__, __rmod__ = _binary("floormod"), _binary("floormod", True)
    __pow__, __rpow__ = _binary("pow"), _binary("pow", True)
    __and__, __rand__ = _binary("bitwise_and"), _binary("bitwise_and", True)
    __or__, __ror__ = _binary("bitwise_or"), _binary("bitwise_or", True)
    __xor__, __rxor__ = _binary("bitwise_xor"), _binary("bitwise_xor", True)
    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __neg__, __abs__ = _unary("negative"), _unary("abs")
    __invert__ = _unary("invert")

    def __pos__(self) -> Any:
        return self

    def __eq__(self, other: object) -> Any:
        from minnow.expr.elementwise import equal

        return False if other is None else equal(self, other)

    def __ne__(self, other: object) -> Any:
        from minnow.expr.elementwise import not_equal

        return True if other is None else not_equal(self, other)

    __hash__ = object.__hash__

    def __matmul__(self, other: Any) -> Any:
        import minnow.numpy

        return minnow.numpy.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        import minnow.numpy

        return minnow.numpy.matmul(other, self)

    def __getitem__(self, index: Any) -> Any:
        from minnow.expr.indexing import get_item

        return get_item(self, index)  # type: ignore[arg-type]

    def __setitem__(self, index: Any, value: Any) -> None:
        from minnow.expr.indexing import set_item

        set_item(self, index, value)  # type: ignore[arg-type]


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        import minnow.numpy

        return getattr(minnow.numpy, name)(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"`minnow.numpy.{name}` of it."
    return method


class Methods:
    """Methods that are the functions of `minnow.numpy` with this Var as first argument."""

    __slots__ = ()

    all, any = _method("all"), _method("any")
    argmax, argmin = _method("argmax"), _method("argmin")
    argpartition, argsort = _method("argpartition"), _method("argsort")
    clip, dot = _method("clip"), _method("dot")
    flatten, ravel = _method("ravel"), _method("ravel")
    max, min, mean = _method("max"), _method("min"), _method("mean")
    nonzero, prod, ptp = _method("nonzero"), _method("prod"), _method("ptp")
    repeat, reshape, round = _method("repeat"), _method("reshape"), _method("round")
    searchsorted, squeeze = _method("searchsorted"), _method("squeeze")
    std, sum, swapaxes = _method("std"), _method("sum"), _method("swapaxes")
    transpose, var = _method("transpose"), _method("var")

    def astype(self, dtype: Any = None) -> Var:
        """The elements in another type. Integers wrap around, as in numpy; floats are cut to whole numbers."""
        from minnow.expr.casting import cast

        return cast(self) if dtype is None else cast(self, dtype)

    def sort(self, axis: Any = -1, kind: Any = None, order: Any = None) -> Any:
        """`minnow.numpy.sort` of it: a new Var."""
        import minnow.numpy

        return minnow.numpy.sort(self, axis, kind, order)

    def fill(self, value: Any) -> None:
        """Sets all elements to a number."""
        self[...] = value  # type: ignore[index]

    @property
    def T(self) -> Any:
        """The axes in reverse order."""
        import minnow.numpy

        return minnow.numpy.transpose(self)
