from typing import Any

version: str

class Context:
    def __init__(self, threads: int = 0, cpu: str = "auto") -> None: ...
    @property
    def cpu(self) -> str: ...
    @property
    def threads(self) -> int: ...

class Weights:
    def __init__(self, context: Context, w: Any, format: str) -> None: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def format(self) -> str: ...

def matmul(
    context: Context,
    a: Any,
    b: Any,
    out: Any,
    c: Any = None,
    bias: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    activation: str = "none",
) -> None: ...
def linear(
    context: Context,
    a: Any,
    b: Any,
    out: Any,
    c: Any = None,
    bias: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    activation: str = "none",
) -> None: ...
def linear_prepared(
    context: Context,
    x: Any,
    weights: Weights,
    out: Any,
    order: str = "portable-1",
    c: Any = None,
    bias: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    activation: str = "none",
) -> None: ...
def attention(
    context: Context,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    scale: float = 1.0,
    softcap: float = 0.0,
    causal: bool = False,
    window: int = 0,
    mask: Any = None,
    slopes: Any = None,
    sinks: Any = None,
    key_index: Any = None,
    key_length: Any = None,
) -> None: ...
def softmax(context: Context, x: Any, out: Any, scale: float = 1.0, mask: Any = None) -> None: ...
def log_softmax(context: Context, x: Any, out: Any, /) -> None: ...
def mean(context: Context, x: Any, out: Any, /) -> None: ...
def rms_norm(context: Context, x: Any, weight: Any, eps: float, out: Any, /) -> None: ...
def layer_norm(context: Context, x: Any, weight: Any, bias: Any, eps: float, out: Any, /) -> None: ...
def formats() -> dict[str, tuple[int, int]]: ...
