"""Loads samebits' ggml plugin into the ggml of this process: that of llama-cpp-python, or any other.

import llama_cpp, samebits.llama_cpp

samebits.llama_cpp.load()                     # before a model is loaded
model = llama_cpp.Llama("model.gguf")
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import pathlib
import sys
import sysconfig
from dataclasses import dataclass

__all__ = ["Loaded", "load"]

_FILE = "libggml-samebits.so"
_LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


@dataclass(frozen=True)
class Loaded:
    """A plugin in this process."""

    plugin: str  #: its file, or "" if it was there already
    ggml: str  #: the library that it was loaded into
    api: int  #: ggml's backend API version
    description: str  #: the plugin's version, orders and CPU level


class _Ggml:
    """The functions of a loaded ggml. Raises AttributeError if the library is none that loads backends."""

    def __init__(self, path: str, library: ctypes.CDLL) -> None:
        self.path = path
        self.library = library
        self.load = library.ggml_backend_load
        self.load.argtypes, self.load.restype = [ctypes.c_char_p], ctypes.c_void_p
        self.by_name = library.ggml_backend_reg_by_name
        self.by_name.argtypes, self.by_name.restype = [ctypes.c_char_p], ctypes.c_void_p
        self.device = library.ggml_backend_reg_dev_get
        self.device.argtypes, self.device.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_void_p
        self.describe = library.ggml_backend_dev_description
        self.describe.argtypes, self.describe.restype = [ctypes.c_void_p], ctypes.c_char_p
        # A function that came with version 3, as the plugin itself asks.
        self.api = 3 if hasattr(library, "ggml_backend_buft_alloc_buffer_n") else 2

    def loaded(self, plugin: str) -> Loaded | None:
        registered = self.by_name(b"samebits")
        if not registered:
            return None
        description = (self.describe(self.device(registered, 0)) or b"").decode()
        return Loaded(plugin, self.path, self.api, description)

    def load_logged(self, plugin: str) -> str:
        """Loads a plugin; returns what ggml logged meanwhile, where its log can be borrowed and given back."""
        if not hasattr(self.library, "ggml_log_get"):
            self.load(plugin.encode())
            return "the log on standard error says why"
        lines: list[str] = []

        def keep(level: int, text: bytes, user: int) -> None:
            lines.append(text.decode(errors="replace"))
            if before_log:
                before_log(level, text, before_user)

        get, put = self.library.ggml_log_get, self.library.ggml_log_set
        get.argtypes, put.argtypes = [ctypes.c_void_p, ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_void_p]
        before, before_user = ctypes.c_void_p(), ctypes.c_void_p()
        get(ctypes.byref(before), ctypes.byref(before_user))
        before_log = _LOG(before.value) if before.value else None
        log = _LOG(keep)
        put(ctypes.cast(log, ctypes.c_void_p), None)
        try:
            self.load(plugin.encode())
        finally:
            put(before, before_user)
        return " ".join("".join(lines).split())


def _mapped() -> list[str]:
    """The shared libraries of this process, those named after ggml, then llama, first."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        fields = [line.rstrip("\n").split(maxsplit=5) for line in maps]
    paths = dict.fromkeys(f[5] for f in fields if len(f) == 6 and ".so" in os.path.basename(f[5]))
    # libllama finds ggml's functions too, in the library that it needs.
    return sorted(paths, key=lambda p: ["ggml" not in os.path.basename(p), "llama" not in os.path.basename(p)])


def _find_ggml() -> _Ggml | None:
    """The ggml of this process. Nothing is loaded for it."""
    for path in _mapped():
        try:
            return _Ggml(path, ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY))
        except (OSError, AttributeError):
            continue
    try:
        return _Ggml(sys.executable, ctypes.CDLL(None))
    except AttributeError:
        return None


def _places(api: int) -> list[pathlib.Path]:
    """Where a plugin for an API version is installed: beside the package, or by the C library."""
    folders = [pathlib.Path(__file__).parent / "lib"]
    multiarch = sysconfig.get_config_var("MULTIARCH")
    for prefix in dict.fromkeys((sys.prefix, "/usr/local", "/usr")):
        folders += [pathlib.Path(prefix, "lib", *part, "samebits") for part in ([], [multiarch] if multiarch else [])]
    return [folder / f"ggml-api-{api}" / _FILE for folder in dict.fromkeys(folders)]


def _find_plugin(api: int) -> str:
    named = os.environ.get("GGML_BACKEND_PATH", "")
    if os.path.basename(named) == _FILE:
        return named
    places = _places(api)
    for place in places:
        if place.exists():
            return str(place)
    raise FileNotFoundError(
        f"there is no {_FILE} for ggml's backend API {api}; build it against the headers of your llama.cpp "
        f"(docs/ggml.md) and give its path to load(), or install it as one of {', '.join(map(str, places))}"
    )


def load(plugin: str | os.PathLike[str] | None = None) -> Loaded:
    """Loads the plugin into the ggml of this process; later models run on it. A second call changes nothing.

    plugin: the file; None: GGML_BACKEND_PATH if that names one, else where samebits installs it. If no ggml is in the
    process, llama-cpp-python is imported. The plugin reads SAMEBITS_ORDER, SAMEBITS_CPU, SAMEBITS_THREADS and
    SAMEBITS_STRICT when it is loaded.

    Raises RuntimeError (no ggml in the process, or ggml refused the plugin, with its reason), FileNotFoundError."""
    ggml = _find_ggml()
    if ggml is None and importlib.util.find_spec("llama_cpp"):
        importlib.import_module("llama_cpp")
        ggml = _find_ggml()
    if ggml is None:
        raise RuntimeError(
            "there is no ggml in this process that loads backends: import llama_cpp (or what else brings ggml as "
            "shared libraries) first; programs that link ggml statically cannot load any backend"
        )
    there = ggml.loaded("")
    if there:
        return there
    path = os.path.abspath(_find_plugin(ggml.api) if plugin is None else plugin)
    if not os.path.exists(path):
        raise FileNotFoundError(f"the plugin {path} does not exist")
    reason = ggml.load_logged(path)
    loaded = ggml.loaded(path)
    if loaded is None:
        raise RuntimeError(f"{ggml.path} (backend API {ggml.api}) refused {path}: {reason or 'no reason was logged'}")
    return loaded
