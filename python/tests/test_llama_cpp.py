"""samebits.llama_cpp: the plugin in a process with ggml. SAMEBITS_TEST_GGML names a folder with libggml.so and
SAMEBITS_TEST_PLUGIN the plugin for it; SAMEBITS_TEST_OTHER_PLUGIN one for another API version."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from guides import blocks

LOAD = """
import ctypes, os, sys
folder = os.environ["SAMEBITS_TEST_GGML"]
ctypes.CDLL(os.path.join(folder, "libggml-base.so"))
ggml = ctypes.CDLL(os.path.join(folder, "libggml.so"))
import samebits.llama_cpp
"""


def run(code, **environment):
    """Standard output of a new process, or the last line of its traceback."""
    known = {key: value for key, value in os.environ.items() if key != "GGML_BACKEND_PATH"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**known, **environment})
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def need(*names):
    for name in names:
        if not os.environ.get(name):
            pytest.skip(f"{name} is not set")
    return [os.environ[name] for name in names]


def test_without_ggml():
    code = (
        "import importlib.util as u; find = u.find_spec; "
        "u.find_spec = lambda name, *a: None if name == 'llama_cpp' else find(name, *a)\n"
        "import samebits.llama_cpp; samebits.llama_cpp.load()"
    )
    assert "RuntimeError: there is no ggml in this process" in run(code)


def test_load():
    _, plugin = need("SAMEBITS_TEST_GGML", "SAMEBITS_TEST_PLUGIN")
    code = LOAD + (
        "first = samebits.llama_cpp.load(os.environ['SAMEBITS_TEST_PLUGIN'])\n"
        "again = samebits.llama_cpp.load()\n"
        "assert again.description == first.description and not again.plugin\n"
        "print(first.description, first.api, first.plugin, sep='|')"
    )
    description, api, path = run(code).split("|")
    assert description.startswith("samebits ") and api in ("2", "3") and path == os.path.abspath(plugin)
    code = LOAD + "print(samebits.llama_cpp.load().plugin)"
    assert run(code, GGML_BACKEND_PATH=plugin) == os.path.abspath(plugin)


STAND_IN = """
import ctypes, os
folder = os.environ["SAMEBITS_TEST_GGML"]
ctypes.CDLL(os.path.join(folder, "libggml-base.so"))
ggml = ctypes.CDLL(os.path.join(folder, "libggml.so"))
ggml.ggml_backend_reg_by_name.restype = ctypes.c_void_p

class Llama:
    def __init__(self, model_path):
        assert model_path == "MODEL.gguf" and ggml.ggml_backend_reg_by_name(b"samebits")
        print("loaded")
"""


@pytest.mark.parametrize(("place", "code"), blocks("llama_cpp").items())
def test_what_the_guides_say(place, code, tmp_path):
    """With a package in llama-cpp-python's place, whose models look for the plugin."""
    _, plugin = need("SAMEBITS_TEST_GGML", "SAMEBITS_TEST_PLUGIN")
    (tmp_path / "llama_cpp.py").write_text(STAND_IN)
    for place_of_plugin in ("build/release/lib", "."):
        (tmp_path / place_of_plugin).mkdir(parents=True, exist_ok=True)
        (tmp_path / place_of_plugin / "libggml-samebits.so").symlink_to(os.path.abspath(plugin))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    assert run(f"import os; os.chdir({str(tmp_path)!r})\n{code}", PYTHONPATH=path).splitlines()[-1] == "loaded", place


def test_load_gives_the_log_back():
    need("SAMEBITS_TEST_GGML", "SAMEBITS_TEST_PLUGIN")
    code = LOAD + (
        "lines = []\n"
        "kind = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)\n"
        "log = kind(lambda level, text, user: lines.append(text))\n"
        "ggml.ggml_log_set(log, None)\n"
        "samebits.llama_cpp.load(os.environ['SAMEBITS_TEST_PLUGIN'])\n"
        "ggml.ggml_log_set(None, None)\n"
        "print(b'samebits is active' in b''.join(lines))"
    )
    assert run(code) == "True"


def test_missing_plugin():
    need("SAMEBITS_TEST_GGML")
    assert "FileNotFoundError: the plugin /no/such/file" in run(LOAD + "samebits.llama_cpp.load('/no/such/file')")
    assert "FileNotFoundError: there is no libggml-samebits.so for ggml's backend API" in run(
        LOAD + "samebits.llama_cpp.load()"
    )


def test_refusals_have_a_reason():
    need("SAMEBITS_TEST_GGML", "SAMEBITS_TEST_PLUGIN")
    load = LOAD + "samebits.llama_cpp.load(os.environ['SAMEBITS_TEST_PLUGIN'])"
    have = run(load, SAMEBITS_ORDER="fast")
    assert "RuntimeError" in have and "SAMEBITS_ORDER" in have and "refused" in have
    (other,) = need("SAMEBITS_TEST_OTHER_PLUGIN")
    have = run(load, SAMEBITS_TEST_PLUGIN=other)
    assert "RuntimeError" in have and "version" in have
