"""The C library that the package brings, by ctypes: the door that the others are compared with."""

from __future__ import annotations

import ctypes
import functools
import pathlib

import samebits


class DLTensor(ctypes.Structure):
    _fields_ = [
        *(("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32)),
        *(("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)),
        *(("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64)),
    ]


def dl(array):
    code = {"u": 1, "f": 2}.get(array.dtype.kind, 4)
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    return DLTensor(array.ctypes.data, 1, 0, array.ndim, code, 8 * array.itemsize, 1, shape, None, 0)


@functools.cache
def library():
    found = ctypes.CDLL(str(pathlib.Path(samebits.__file__).parent / "lib" / "libsamebits.so.0"))
    context = ctypes.c_void_p()
    assert found.samebits_create(ctypes.byref(context), None) == 0
    return found, context
