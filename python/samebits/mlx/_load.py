"""Loads MLX and the extension, or says what is missing."""

from __future__ import annotations

import importlib
import warnings

from samebits._tested import MLX as TESTED
from samebits._tested import is_tested

BUILD = "build it with: python -m samebits.build_mlx"

try:
    import mlx.core as mx
except ImportError as error:
    raise ImportError("samebits.mlx needs MLX: pip install 'samebits[mlx]'") from error

try:
    _extension = importlib.import_module("samebits.mlx._extension")
except ImportError as error:
    raise ImportError(f"samebits.mlx has no extension that this Python and MLX can load ({error}); {BUILD}") from error

from .._core import version as _version  # noqa: E402

_mlx: str = getattr(mx, "__version__")  # noqa: B009  (its stubs do not name it)

if _extension.mlx_version != _mlx.partition(".dev")[0] or _extension.version != _version:
    raise ImportError(
        f"the extension of samebits.mlx was built for samebits {_extension.version} and MLX {_extension.mlx_version}, "
        f"but there are samebits {_version} and MLX {_mlx}; {BUILD}"
    )

if not is_tested(_mlx, TESTED):
    warnings.warn(f"samebits.mlx is tested with MLX {TESTED[0]} to {TESTED[1]}; this is {_mlx}", stacklevel=2)
