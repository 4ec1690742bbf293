"""Arrays in the memory of a device: those that users give to a session, and `DeviceArray`, which it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minnow.schema.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

_CUDA, _CUDA_MANAGED = 2, 13  # as DLPack numbers the kinds of devices
_DEFAULT_STREAM = 1  # as the array API standard numbers the streams of CUDA


@dataclass(frozen=True, eq=False)
class DeviceArray:
    """An output in the memory of a device. Nothing is copied when another library takes it:

        torch.from_dlpack(array)
        cupy.from_dlpack(array)

    The memory is free again when the array, and what others have made of it, are gone. As with every exchange by
    DLPack, keep it until work on other streams than the default one has read it.

    Attributes:
        dtype: name of the numpy dtype, or of a dtype of ml_dtypes such as "bfloat16".
        shape: the size of each dimension.
        device: where it lies, such as "cuda:0".
    """

    dtype: str
    shape: tuple[int, ...]
    device: str
    _memory: Any
    _session: Any

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy on the host."""
        array: np.ndarray[Any, Any] = self._session.to_host(self._memory.__dlpack__())
        return array

    def __dlpack__(self, **_: Any) -> Any:
        """A capsule for `from_dlpack`. The contents are there already, whichever stream the caller names."""
        return self._memory.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, int(self.device.partition(":")[2])


def device_of(value: Any) -> str:
    """The device in whose memory an array lies: "cuda:0". "" for the host, and for all that is not an array."""
    kind = type(value)
    if hasattr(kind, "__dlpack_device__"):
        number, index = value.__dlpack_device__()
        return f"cuda:{index}" if number in (_CUDA, _CUDA_MANAGED) else ""
    return "cuda" if hasattr(kind, "__cuda_array_interface__") else ""


def capsule_of(value: Any, device: str, name: str, dtype: str, devices: list[str]) -> Any:
    """The array as a capsule of DLPack, for a session on `devices`.

    What its library has enqueued comes first: it makes the default stream wait for that.

    Raises:
        UsageError: it lies on another device, has another dtype, or cannot be given away.
    """
    if not hasattr(type(value), "__dlpack__"):
        raise UsageError(
            f"input '{name}' is on the device, and has no __dlpack__",
            hint="cupy.asarray(array) or torch.as_tensor(array) makes one that has",
        )
    if device not in devices:
        where = " and ".join(devices)
        raise UsageError(
            f"input '{name}' lies on {device}, and the session runs on {where}",
            hint=f'copy it to the host, or load the model with device="{device}"',
        )
    found = str(value.dtype).rpartition(".")[2]
    if found != dtype:
        raise UsageError(
            f"input '{name}' is {found}, the model wants {dtype}", hint="convert it; arrays on a device are used as is"
        )
    try:
        return value.__dlpack__(stream=_DEFAULT_STREAM)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise UsageError(f"input '{name}' cannot be taken from its library", why=str(error)) from None
