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

def weights_affine(context: Context, w: Any, scales: Any, biases: Any, bits: int, group: int, /) -> Weights: ...
def weights_scaled(context: Context, w: Any, scales: Any, format: str, /) -> Weights: ...
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
    k_format: str = "q8_0",
    v_format: str = "q8_0",
) -> None: ...
def softmax(context: Context, x: Any, out: Any, scale: float = 1.0, mask: Any = None) -> None: ...
def log_softmax(context: Context, x: Any, out: Any, /) -> None: ...
def mean(context: Context, x: Any, out: Any, /) -> None: ...
def rms_norm(context: Context, x: Any, weight: Any, eps: float, out: Any, /) -> None: ...
def layer_norm(context: Context, x: Any, weight: Any, bias: Any, eps: float, out: Any, /) -> None: ...
def activate(context: Context, x: Any, out: Any, activation: str, /) -> None: ...
def limit() -> int: ...
def set_limit(rows: int, /) -> None: ...
def formats() -> dict[str, tuple[int, int]]: ...

class TorchKernel:
    def __init__(self, name: str, stock: Any, otherwise: Any, elementwise: bool) -> None: ...
    def __call__(self, keys: Any, *args: Any, **kwargs: Any) -> Any: ...

def torch_configure(
    exchange: Any,
    shims: str,
    *,
    tensor: type,
    parameter: type,
    empty_strided: Any,
    as_strided: Any,
    get_num_threads: Any,
    is_grad_enabled: Any,
    is_inference: Any,
    is_conj: Any,
    contexts: dict[int, Context],
    context: Any,
    entries: Any,
    pack: Any,
    options: tuple[dict[str, Any], ...],
    packed_from: int,
) -> int: ...
def torch_enter(mode: Any, /) -> None: ...
def torch_default(mode: Any, /) -> None: ...
def torch_current() -> Any: ...
def torch_packed(b: Any, memory: Any, /) -> Weights | None: ...
def torch_whole_length(numel: int, threads: int, /) -> int: ...
