"""A llama-server that runs for as long as it is needed, with the plugin or without."""
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

PATIENCE = 120  # seconds until a server that started must answer


class Trouble(Exception):
    """Something could not run: nothing is known about bits."""


def stock_environment():
    return {name: value for name, value in os.environ.items() if name != "GGML_BACKEND_PATH"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(process, url, log):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Trouble(f"llama-server ended with status {process.returncode}; see {log}")
        with contextlib.suppress(urllib.error.URLError, OSError):
            with urllib.request.urlopen(url + "/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        time.sleep(0.2)
    raise Trouble(f"llama-server did not answer within {PATIENCE} s; see {log}")


def has_mapped(pid, library):
    return library in pathlib.Path(f"/proc/{pid}/maps").read_text(errors="replace")


@contextlib.contextmanager
def running_server(program, model, plugin, log, *options):
    """llama-server, with its default settings (4 slots, unified KV cache) if there are no options. Yields its URL."""
    environment = stock_environment()
    if plugin:
        environment["GGML_BACKEND_PATH"] = plugin
    port = free_port()
    command = [program, "-m", model, "--host", "127.0.0.1", "--port", str(port), *options]
    with open(log, "w") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(process, url, log)
        if bool(plugin) != has_mapped(process.pid, "libggml-samebits"):
            raise Trouble(f"llama-server did {'not load' if plugin else 'load'} the plugin; see {log}")
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
