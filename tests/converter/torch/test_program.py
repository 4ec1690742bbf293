"""Programs of PyTorch: what is run symbolically, changes in place, views, branches and loops."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch_oracle import check  # noqa: E402


def _x(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def test_a_change_in_place_is_seen_by_all_that_share_the_memory() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = x * y
        h.add_(1)
        g = h
        g.mul_(2)
        return h, g + 1

    check(function, _x(3, 5), _x(5))


@pytest.mark.parametrize("rounds", [0, 2, 6])
def test_a_loop_that_changes_a_tensor_a_number_of_times_that_the_run_decides(rounds: int) -> None:
    class Loop(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            k = x * 1
            for i in range(n):
                k.add_(x)
                if i > 2:
                    k.mul_(2)
            return k

    check(Loop(), _x(7), rounds, roads=["script"])
