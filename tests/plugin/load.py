#!/usr/bin/env python3
"""Loads the plugin into a ggml as a program does, and says whether that ggml took it.

Usage: load.py GGML_FOLDER PLUGIN taken|refused
Exit status: 0 as expected, 1 not so.
"""
import ctypes
import os
import sys

LOG_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


def load(folder, plugin):
    """The device's name, or None; and what was logged."""
    lines = []
    log = LOG_FUNCTION(lambda level, text, user: lines.append(text.decode(errors="replace")))
    base = ctypes.CDLL(os.path.join(folder, "libggml-base.so"))
    ggml = ctypes.CDLL(os.path.join(folder, "libggml.so"))
    base.ggml_log_set(log, None)
    ggml.ggml_backend_load_all_from_path.argtypes = [ctypes.c_char_p]
    ggml.ggml_backend_load_all_from_path(folder.encode())
    ggml.ggml_backend_load.argtypes = [ctypes.c_char_p]
    ggml.ggml_backend_load.restype = ctypes.c_void_p
    registry = ggml.ggml_backend_load(plugin.encode())
    name = None
    if registry:
        base.ggml_backend_reg_dev_get.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        base.ggml_backend_reg_dev_get.restype = ctypes.c_void_p
        base.ggml_backend_dev_name.argtypes = [ctypes.c_void_p]
        base.ggml_backend_dev_name.restype = ctypes.c_char_p
        name = base.ggml_backend_dev_name(base.ggml_backend_reg_dev_get(registry, 0)).decode()
    base.ggml_log_set(None, None)
    return name, "".join(lines)


def main():
    folder, plugin, expected = sys.argv[1:]
    os.environ.pop("GGML_BACKEND_PATH", None)
    name, log = load(os.path.abspath(folder), os.path.abspath(plugin))
    print(log)
    if expected == "taken":
        ok = name == "samebits" and "samebits is active" in log
    else:
        ok = name is None and "version" in log
    print(f"expected {expected}: {'yes' if ok else 'NO'} (device {name})")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
