"""The installed package: its command, its import, and the same bits as the C interface."""

from __future__ import annotations

import ctypes
import importlib.metadata
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys

import numpy as np
import pytest
import samebits
from conftest import bits
from samebits import _info, _tested


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def tensor(array):
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    return Tensor(array.ctypes.data, 1, 0, array.ndim, 2, 32, 1, shape, None, 0)


def test_same_bits_as_c(rng):
    library = ctypes.CDLL(str(next((pathlib.Path(samebits.__file__).parent / "lib").glob("libsamebits.so*"))))
    x, w = rng.standard_normal((7, 515), np.float32), rng.standard_normal((33, 515), np.float32)
    out = np.zeros((7, 33), np.float32)
    context = ctypes.c_void_p()
    assert library.samebits_create(ctypes.byref(context), None) == 0
    tensors = [tensor(array) for array in (x, w, out)]
    pointers = [ctypes.byref(t) for t in tensors]
    assert library.samebits_linear(context, pointers[0], pointers[1], None, pointers[2]) == 0
    library.samebits_destroy(ctypes.byref(context))
    assert bits(out) == bits(samebits.linear(x, w))


def test_command():
    command = [sys.executable, "-m", "samebits"]
    assert samebits.__version__ in subprocess.run([*command, "--version"], capture_output=True, text=True).stdout
    assert subprocess.run([*command, "fingerprint", "--check"], capture_output=True).returncode == 0
    assert subprocess.run([*command, "nonsense"], capture_output=True).returncode == 2


def installed(**versions):
    """Stands in for importlib.metadata.version."""

    def version(name):
        if versions.get(name) is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    return version


@pytest.mark.parametrize(
    ("versions", "problem", "lines"),
    [
        ({}, None, ["not installed; samebits.torch is tested", "not installed; samebits.mlx is tested with"]),
        ({"torch": _tested.TORCH[1] + ".3+cpu"}, None, [_tested.TORCH[1] + ".3+cpu (tested with", "not installed"]),
        ({"torch": "1.9.0"}, None, ["1.9.0 (tested with 2.11 to 2.15, NOT with this version)", "not installed"]),
        ({"mlx": _tested.MLX[0] + ".9"}, None, ["not installed", "; the extension that was built for it loads"]),
        ({"mlx": _tested.MLX[0] + ".9"}, "built for MLX 0.1", ["not installed", "; built for MLX 0.1"]),
    ],
)
def test_info_of_packages(versions, problem, lines, monkeypatch, capsys):
    monkeypatch.setattr(importlib.metadata, "version", installed(**versions))
    monkeypatch.setattr(_info, "_extension", lambda: problem)
    _info._print(_info.packages())
    for line, text in zip(capsys.readouterr().out.splitlines()[-2:], lines, strict=True):
        assert text in line


def test_info_command():
    command = [sys.executable, "-m", "samebits", "info"]
    text = subprocess.run(command, capture_output=True, text=True).stdout
    assert text.startswith("samebits") and f"\npython     {platform.python_version()}, NumPy" in text
    found = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True).stdout)
    assert found["version"] == samebits.__version__ and found["ops"]
    assert found["python"]["torch"]["tested"] == list(_tested.TORCH)
    assert found["python"]["mlx"]["version"] is None or "problem" in found["python"]["mlx"]
    assert subprocess.run([*command, "--no-such-option"], capture_output=True).returncode == 2
    assert "Usage" in subprocess.run([*command, "--help"], capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("place", "command", "text"),
    [
        ("_core*.so", "import samebits", "the extension module"),
        ("lib/libsamebits.so*", "import samebits", "the C library"),
        ("bin/samebits", "import runpy; runpy.run_module('samebits', run_name='__main__')", "bin/samebits is missing"),
    ],
)
def test_a_broken_install_names_the_missing_file(place, command, text, tmp_path):
    package, whole = tmp_path / "samebits", pathlib.Path(samebits.__file__).parent
    shutil.copytree(whole, package)
    if (bundled := whole.parent / "samebits.libs").exists():
        shutil.copytree(bundled, tmp_path / bundled.name)
    (missing,) = package.glob(place)
    missing.unlink()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert result.returncode and text in result.stderr and str(missing.parent) in result.stderr
    assert "install it again" in result.stderr or "install the package again" in result.stderr
