"""PyTorch's dispatcher: operators by name, their variants and kernels."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from ._modes import KEY
from ._ops import Function

Key = torch._C.DispatchKey
_key: Any = torch._C._parse_dispatch_key(KEY)
#: With PythonDispatcher, for redispatching.
below: Any = torch._C._dispatch_keyset_full_after(_key)
_devices: Any = below.remove(Key.PythonDispatcher)


def device_of(keys: Any) -> Any:
    """The key of the device, or of the layout, whose kernel a call below ours would run."""
    return (keys & _devices).highestPriorityTypeId()


def full(name: str) -> str:
    return name if "::" in name else f"aten::{name}"


def short(name: str) -> str:
    """The name that PyTorch's own operators are refused and counted by."""
    return name.removeprefix("aten::")


def overload(name: str) -> Any:
    namespace, _, name = full(name).partition("::")
    base, _, variant = name.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), base), variant or "default")


def schema(name: str) -> Any:
    base, _, variant = full(name).partition(".")
    return torch._C._get_schema(base, variant)


def variants(name: str) -> list[tuple[str, bool]]:
    """The overloads of one of PyTorch's operators that write into a tensor, and whether that is the first argument."""
    base, _, variant = name.partition(".")
    found = []
    packet = getattr(torch.ops.aten, base)
    takes = _takes(overload(name))
    for other in packet.overloads():
        outs = [a.name for a in getattr(packet, other)._schema.arguments if a.is_out]
        if outs in (["out"], ["grad_input"]) and takes == _takes(getattr(packet, other)):
            found.append((f"{base}.{other}", False))
    in_place = getattr(torch.ops.aten, f"{base}_", None)
    variant = variant.removeprefix("Tensor_")  # pow.Tensor_Scalar and pow_.Scalar, which pow.Scalar is not
    if in_place is not None and (variant or "default") in in_place.overloads():
        if takes == _takes(getattr(in_place, variant or "default")):
            found.append((f"{base}_" + (f".{variant}" if variant else ""), True))
    return found


def _takes(operator: Any) -> list[tuple[str, str]]:
    """The arguments that an operator reads: names and types."""
    return [(a.name, str(a.type)) for a in operator._schema.arguments if not a.is_out]


def register(library: Any, name: str, run: Function, key: str) -> None:
    """Also over what Python registered before us, as torch.distributed.fsdp does."""
    library.impl(name, run, key, with_keyset=True, allow_override=True)


def has(name: str, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(full(name), key)


def has_any(name: str, key: str) -> bool:
    """Whether a call with the key runs anything, such as the operator's default kernel."""
    found: bool = torch._C._dispatch_has_computed_kernel_for_dispatch_key(full(name), key)
    return found


@cache
def devices() -> tuple[str, ...]:
    """The keys of those that this process has kernels for and may have tensors on."""
    return ("CPU", "CUDA") if torch.cuda.is_available() else ("CPU",)


def composite(name: str, keys: tuple[str, ...]) -> bool:
    """Whether on these devices an operator is made of others, which autograd and our key meet in its place."""
    return has(name, "CompositeImplicitAutograd") and not any(has(name, key) for key in keys)


def _places_of_tensors(name: str) -> list[int]:
    return [i for i, a in enumerate(schema(name).arguments) if str(a.type) == "Tensor"]


def _number(value: Any, dtype: torch.dtype, meta: bool) -> torch.Tensor:
    if meta:  # with all that is made there
        return torch.empty((), dtype=dtype, device="meta")
    kind = {int: torch.int64, float: torch.float64}.get(type(value))
    return torch.tensor(value, dtype=kind, device="cpu").to(dtype)


def taking_numbers(name: str, run: Function) -> Function:
    """Kernels that are called from Python take no numbers in the place of tensors, as that of x * 2: tensors without
    dimensions stand for them, which have no say in the result's dtype."""
    places = _places_of_tensors(name)
    if len(places) < 2:
        return run

    def taking(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if all(isinstance(args[i], torch.Tensor) for i in places if i < len(args)):
            return run(keys, *args, **kwargs)
        filled = list(args)
        place = next((i for i in places if i < len(args) and isinstance(args[i], torch.Tensor)), None)
        if place is None:
            return run(keys, *args, **kwargs)
        x = args[place]
        narrow = x.dtype in (torch.float16, torch.bfloat16)
        alone = narrow and x.ndim == 0 and "out" not in kwargs  # where the number's tensor would have a say
        if alone:
            filled[place] = x.view(1)
        for i in places:
            if i < len(args) and not isinstance(args[i], torch.Tensor):
                wide = narrow and not isinstance(args[i], complex) and (x.ndim > 0 or "out" not in kwargs)
                dtype = torch.float32 if wide else torch.result_type(x, args[i])
                filled[i] = _number(args[i], dtype, device_of(keys) == Key.Meta)
        result = run(keys, *filled, **kwargs)
        return result if not alone else x if result is filled[place] else result.view(())

    return taking


def kernel(name: str, key: str) -> Function:
    """PyTorch's kernel, as it was before we came."""
    parsed: Any = torch._C._parse_dispatch_key(key)  # torch.library.get_kernel knows fewer keys
    boxed: Function = torch._C._dispatch_get_computed_kernel_for_dispatch_key(full(name), parsed).call_boxed
    return boxed


def beneath(name: str) -> Function:
    """PyTorch's kernel for the device of a call, as it was before we came; what has none of these goes on to the next
    key."""
    kernels = {}
    for key in (*devices(), "QuantizedCPU"):
        if has_any(name, key):
            kernels[getattr(Key, key)] = kernel(name, key)

    def stock(keys: Any, *args: Any, **kwargs: Any) -> Any:
        found = kernels.get(device_of(keys))
        if found is None:
            return overload(name).redispatch(keys & below, *args, **kwargs)
        return found(keys, *args, **kwargs)

    return taking_numbers(name, stock)
