"""Arithmetic, comparisons, logic, casts and special functions of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch_oracle import check, model_of  # noqa: E402

from minnow.schema.errors import UnsupportedError  # noqa: E402

inf, nan = float("inf"), float("nan")
SPECIAL = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-3, 3.7, -3.2, 1e10, inf, -inf, nan]


def _x(*shape: int, dtype: Any = torch.float32) -> Any:
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape) + 1)) * 3
    return x.to(dtype)


def _special(dtype: Any = torch.float32) -> Any:
    return torch.tensor(SPECIAL, dtype=dtype)


def _several(functions: list[Callable[..., Any]]) -> Callable[..., tuple[Any, ...]]:
    """All of the functions of the same arguments, as one program."""

    def run(*args: Any) -> tuple[Any, ...]:
        return tuple(f(*args) for f in functions)

    return run


ROUNDING = [torch.floor, torch.ceil, torch.round, torch.trunc, torch.fix]
UNARY = [
    torch.abs, torch.neg, torch.sign, torch.sgn, torch.square, torch.exp, torch.exp2, torch.expm1, torch.log,
    torch.log2, torch.log10, torch.log1p, torch.sqrt, torch.rsqrt, torch.reciprocal, torch.atan, torch.sinh,
    torch.cosh, torch.tanh, torch.asinh, torch.acosh, torch.atanh, torch.asin, torch.acos, torch.erf, torch.erfc,
    torch.sigmoid, torch.frac, torch.deg2rad, torch.rad2deg, torch.nan_to_num, torch.relu, torch.positive,
    torch.angle, torch.logit, torch.special.entr, torch.special.ndtr,
]  # fmt: skip
TESTS = [torch.isnan, torch.isinf, torch.isfinite, torch.isposinf, torch.isneginf, torch.isreal, torch.signbit]
BINARY = [
    torch.add, torch.sub, torch.mul, torch.div, torch.floor_divide, torch.remainder, torch.fmod, torch.maximum,
    torch.minimum, torch.fmax, torch.fmin, torch.atan2, torch.hypot, torch.copysign, torch.heaviside, torch.xlogy,
    torch.logaddexp, torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge, torch.logical_and, torch.logical_or,
    torch.logical_xor, torch.isclose, torch.special.xlog1py, torch.true_divide,
]  # fmt: skip


@pytest.mark.parametrize("functions", [UNARY, ROUNDING, TESTS], ids=["math", "rounding", "tests"])
def test_one_operand(functions: list[Any]) -> None:
    check(_several(functions), _x(3, 5))
    check(_several(functions), _special(), engine=False)
    check(_several(functions), _x(2, 0, 3), engine=False, roads=["export"])


@pytest.mark.parametrize("f", [*UNARY[:30], *ROUNDING, *TESTS], ids=lambda f: f.__name__)
def test_one_operand_that_is_not_finite(f: Any) -> None:
    check(f, _special(), roads=["trace"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int32, torch.uint8, torch.bool], ids=str)
def test_one_operand_of_another_type(dtype: Any) -> None:
    refused = {
        torch.bool: {torch.abs, torch.neg, torch.relu, torch.positive, torch.frac, torch.angle, torch.nan_to_num}
    }
    skip = refused.get(dtype, set()) | ({torch.frac} if not dtype.is_floating_point else set())
    skip |= {torch.floor, torch.ceil, torch.round, torch.trunc, torch.fix} if dtype is torch.bool else set()
    functions = [f for f in (*UNARY, *ROUNDING, *TESTS) if f not in skip]
    x = torch.tensor([[0, 1, 2], [3, 1, 0]]) if not dtype.is_floating_point else _x(3, 5)
    check(_several(functions), x.to(dtype), engine=False, tolerance=None if dtype is not torch.float64 else 1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "pair",
    [(_x(3, 5), _x(5)), (_x(7, 1), _x(1, 3)), (_special()[:, None], _special())],
    ids=["broadcast", "outer", "special"],
)
def test_two_operands(pair: tuple[Any, Any]) -> None:
    x, y = pair
    check(_several([f for f in BINARY if f is not torch.special.xlog1py]), x, y, engine=False)
    for f in BINARY:
        check(f, x, y, roads=["trace"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "pair",
    [
        (torch.int32, torch.int64), (torch.uint8, torch.int8), (torch.bool, torch.int16), (torch.int64, torch.float16),
        (torch.float16, torch.float32), (torch.float32, torch.float64), (torch.bool, torch.bool),
    ],
    ids=str,
)  # fmt: skip
def test_the_type_of_two_operands(pair: tuple[Any, Any]) -> None:
    x, y = torch.tensor([[3, 0, 7], [1, 2, 5]]).to(pair[0]), torch.tensor([2, 1, 3]).to(pair[1])
    functions = [torch.add, torch.mul, torch.div, torch.fmax, torch.eq, torch.lt, torch.where]
    run = _several([f if f is not torch.where else (lambda a, b: torch.where(a > 1, a, b)) for f in functions])
    check(run, x, y)
    check(lambda a, b: (a + b, a * 2.5, a / 3, a * b, a > b, torch.where(a > 0, b, a)), x, y[0])


SCALARS: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: torch.add(x, 3, alpha=2) + True,
    "rsub": lambda x: torch.rsub(x, 5, alpha=3) + (1 - x),
    "div": lambda x: torch.div(x, 0.7, rounding_mode="floor") + torch.div(x, 0.7, rounding_mode="trunc"),
    "divided": lambda x: 2 / x,
    "power": lambda x: (x**2, x**3, x**-1, x**-2, x**1, x**0, 2**x, x.abs() ** 0.5, x.abs() ** -0.5, x.abs() ** 1.7),
    "float_power": lambda x: torch.float_power(x, 2),
    "remainder": lambda x: (torch.remainder(x, -0.7), torch.remainder(2.5, x), torch.fmod(x, 0.7), x % 3, x // 0.3),
    "clamp": lambda x: (x.clamp(-1, 1.5), x.clamp(min=0), x.clamp(max=0.25), x.clamp(2, 1), x.clip(-1, None)),
    "limits": lambda x: (torch.clamp_min(x, 0.3), torch.clamp_max(x, 0.3), x.clamp(x * 0 - 1, x * 0 + 0.5)),
    "nan_to_num": lambda x: torch.nan_to_num(x, 7.0, 8.0, -9.0),
    "round": lambda x: (torch.round(x, decimals=2), torch.round(x * 100, decimals=-1), torch.round(x, decimals=0)),
    "addcmul": lambda x: (torch.addcmul(x, x, x.mean(0), value=0.5), torch.addcdiv(x, x.mean(0), x, value=-2)),
    "lerp": lambda x: (torch.lerp(x, x.mean(0), 0.3), torch.lerp(x, x.mean(0), 0.8), torch.lerp(x, x * 2, x.amax(0))),
    "compare": lambda x: (x > 1, x < 1, x == 0, x != 0.5, x <= 2, x >= -1),
    "logic": lambda x: (torch.logical_not(x), torch.logical_and(x, x > 1), ~(x > 0), (x > 0) & (x < 1) ^ (x < 2)),
    "where": lambda x: (torch.where(x > 0, x, 0.5), torch.where(x > 0, 1, x), torch.where(x > 0, 1.0, 2.0)),
    "masked_fill": lambda x: (x.masked_fill(x > 0, -inf), torch.nn.functional.threshold(x, 0.5, 2.0)),
    "isclose": lambda x: (torch.isclose(x, x + 1e-3, rtol=1e-2), torch.isclose(x, x, equal_nan=True)),
    "sinc": lambda x: (torch.sinc(x), torch.logit(x, 0.1), torch.ldexp(x, x * 0 + 3), torch.logaddexp2(x, x.mean(0))),
    "casts": lambda x: (x.to(torch.float64), x.half(), x.int(), x.long(), x.bool(), x.byte(), x.type_as(x > 0)),
    "copies": lambda x: (x.clone(), x.detach(), x.contiguous(), x.real, torch.resolve_conj(x), x.cpu()),
    "dropout": lambda x: (torch.dropout(x, 0.5, False), torch.nn.functional.alpha_dropout(x, 0.5)),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SCALARS)
def test_with_numbers(name: str) -> None:
    def run(x: Any) -> Any:
        made = SCALARS[name](x)
        return tuple(made) if isinstance(made, tuple) else made

    x = _x(3, 5).abs() + 0.01 if name in ("casts",) else _x(3, 5)
    check(run, x)


INTEGERS: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: (x + 2, x * 2.5, x / 2, x // 2, x % 3, -x, x**2, torch.fmod(x, 3), x // -3, x % -3),
    "bits": lambda x: (x & 6, x | 1, x ^ 3, ~x, x << 1, x >> 1, torch.bitwise_and(x, x + 1)),
    "wide shifts": lambda x: (x << (x.abs() * 9), x >> (x.abs() * 9)),
    "limits": lambda x: (x.clamp(-1, 2), x.clamp(max=1), x.clamp(min=0.5), torch.fmax(x, x * -1)),
    "floats": lambda x: (x.sqrt(), x.exp(), torch.rsqrt(x.abs() + 1), torch.erf(x), torch.xlogy(x, 2), x.float() ** 2),
    "square": lambda x: (torch.square(x), torch.sign(x), x.abs(), torch.floor(x), torch.nan_to_num(x)),
    "close": lambda x: (torch.isclose(x, x + 1), torch.isclose(x, x + 1, atol=2), torch.copysign(x, -x)),
}


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name: str, dtype: Any) -> None:
    x = torch.tensor([[0, 1, -2, 3, 7], [-5, 4, 2, 11, -1]], dtype=dtype)
    check(INTEGERS[name], x, roads=["export"] if dtype is torch.int32 else ["trace"])


def test_changes_in_place() -> None:
    def run(x: Any, n: Any) -> Any:
        y = x * 1
        y.add_(1).mul_(x).clamp_(-2, 2)
        z = x * 2
        z.detach().fill_(0.5)
        w = (x * 3).zero_()
        w.copy_(x.mean(0))
        y.masked_fill_(x > 2, 9)
        k = n * 1
        k &= 3
        k <<= 1
        k |= 8
        return y, z, w, k

    check(run, _x(3, 5), torch.arange(7))


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (torch.erfinv, torch.tensor([-1.0, -0.999, -0.3, 0.0, 0.5, 0.99999, 1.0, 1.5])),
        (torch.special.ndtri, torch.tensor([0.0, 1e-6, 0.02, 0.5, 0.7, 0.9999, 1.0])),
        (torch.special.ndtr, torch.tensor([-9.0, -1, 0, 0.3, 4])),
        (torch.special.log_ndtr, torch.tensor([-100.0, -20, -1, -0.99, 0.0, 2, 9])),
        (torch.special.erfcx, torch.tensor([-5.0, -1, 0, 1, 5, 11.9, 12.1, 100])),
        (torch.lgamma, torch.tensor([-3.5, -2.0, -0.1, 0.0, 0.5, 1, 2, 3.3, 100, inf])),
        (torch.digamma, torch.tensor([-3.5, -2.0, -0.1, 0.5, 1, 2, 3.3, 100])),
        (lambda x: torch.polygamma(1, x), torch.tensor([-3.5, -0.1, 0.5, 1, 2, 3.3, 100])),
        (lambda x: torch.polygamma(3, x), torch.tensor([-3.5, -0.1, 0.5, 1, 2, 3.3])),
        (lambda x: torch.mvlgamma(x, 3), torch.tensor([1.5, 2, 7])),
        (torch.i0, torch.tensor([-9.0, -1, 0, 0.5, 3.7, 3.8, 20])),
        (torch.special.i0e, torch.tensor([-9.0, -1, 0, 0.5, 3.7, 3.8, 20])),
        (torch.special.i1, torch.tensor([-9.0, -1, 0, 0.5, 3.7, 3.8, 20])),
        (torch.special.i1e, torch.tensor([-9.0, -1, 0, 0.5, 3.7, 3.8, 20])),
        (torch.frexp, torch.tensor([0.0, -0.0, 1, 0.3, -5, 1e-42, 3e38, inf, -inf, nan])),
        (
            lambda x: torch.nextafter(x, torch.tensor([0.0, 1, -1, -1e-45, 1e-45, -3, 1, 0])),
            torch.tensor([0.0, 1, -3, 1e-45, -1e-45, -1, 1, 0]),
        ),
    ],
)
def test_special_functions(f: Any, x: Any) -> None:
    check(lambda x: tuple(f(x)) if isinstance(f(x), tuple) else f(x), x, roads=["trace"])


ORDERS = torch.tensor([[-1.0, 0, 1, 2, 3.7, 5, 9]])
PAIRS: dict[str, tuple[Any, Any, Any]] = {
    "gcd": (torch.gcd, torch.tensor([[12, -18, 0, 7, 1071]]), torch.tensor([[8], [0], [27], [462]])),
    "lcm": (torch.lcm, torch.tensor([[12, -18, 7, 1071]]), torch.tensor([[8], [27], [462]])),
    "zeta": (
        torch.special.zeta,
        torch.tensor([[1.0, 0.5, 1.1, 2, 4, 7.5]]),
        torch.tensor([[-3.5], [-2.0], [0.3], [20]]),
    ),
    "gammainc": (torch.special.gammainc, torch.tensor([[0.0, 0.2, 1, 5, 40]]), torch.tensor([[0.0], [0.1], [3], [60]])),
    "gammaincc": (torch.special.gammaincc, torch.tensor([[-1.0, 0.2, 1, 5, inf]]), torch.tensor([[0.1], [3], [60]])),
    "chebyshev": (torch.special.chebyshev_polynomial_t, torch.tensor([[-1.3], [0.4], [1.0]]), ORDERS),
    "shifted": (torch.special.shifted_chebyshev_polynomial_w, torch.tensor([[-1.3], [0.4], [1.0]]), ORDERS),
    "hermite": (torch.special.hermite_polynomial_h, torch.tensor([[-1.3], [0.4], [0.0]]), ORDERS),
    "laguerre": (torch.special.laguerre_polynomial_l, torch.tensor([[-1.3], [0.4], [5.0]]), ORDERS),
    "legendre": (torch.special.legendre_polynomial_p, torch.tensor([[-1.3], [0.4], [1.0]]), ORDERS),
}


@pytest.mark.parametrize("name", PAIRS)
def test_special_functions_of_two_numbers(name: str) -> None:
    f, x, y = PAIRS[name]
    check(f, x, y, roads=["trace"])


BESSEL = ["bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_k0", "scaled_modified_bessel_k1"]


@pytest.mark.parametrize("name", [*BESSEL, "airy_ai", "spherical_bessel_j0"])
def test_bessel_functions(name: str) -> None:
    x = torch.tensor([-30.0, -6.1, -3.0, -0.7, 0.0, 0.01, 1.9, 2.1, 2.9, 3.1, 6.2, 25, nan])
    check(getattr(torch.special, name), x, roads=["trace"])


class _Dropped(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.dropout(x, 0.5, True)


class _Wide(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.i0(x.double())


@pytest.mark.parametrize(("module", "message"), [(_Dropped(), "dropout in training mode"), (_Wide(), "float64")])
def test_what_is_refused(module: Any, message: str) -> None:
    for road in ("export", "trace"):
        with pytest.raises(UnsupportedError) as caught:
            model_of(module, [_x(3)], road)
        assert message in str(caught.value.refused)
