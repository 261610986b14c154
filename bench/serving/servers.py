"""The servers that are compared: how each is started, and when it is ready."""
import contextlib
import http.client
import os
import pathlib
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LLAMA_SERVER = ROOT / "build/peers/llama.cpp/bin/llama-server"
READY_S = 120


class ServerError(Exception):
    """A server that did not start. The message names the command and what it said."""


class Bass:
    def __init__(self, binary, key, title, options=()):
        self.binary, self.key, self.title, self.options = os.fspath(binary), key, title, list(options)

    def command(self, model, threads, slots, port):
        return [self.binary, "serve", "-m", model, "--threads", str(threads), "--max-batch", str(slots), "--port", str(port),
                *self.options]


class LlamaServer:
    """llama.cpp's. Each of its sequences has room for `context` tokens; the web page is left out."""

    key = "llama-server"
    title = "llama-server"

    def __init__(self, context):
        self.context = context

    def command(self, model, threads, slots, port):
        return [os.fspath(LLAMA_SERVER), "-m", model, "-t", str(threads), "-tb", str(threads), "-np", str(slots),
                "-c", str(slots * self.context), "-fa", "on", "--no-webui", "--port", str(port)]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_ready(address):
    connection = http.client.HTTPConnection(*address, timeout=2)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


@contextlib.contextmanager
def running(server, model, threads, slots, log_path):
    """The address of a server that is ready. It is gone afterwards."""
    address = ("127.0.0.1", free_port())
    command = server.command(model, threads, slots, address[1])
    with open(log_path, "wb") as log:
        try:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        except OSError as error:
            raise ServerError(f"{command[0]}: {error}") from error
        try:
            deadline = time.monotonic() + READY_S
            while not is_ready(address):
                if process.poll() is not None or time.monotonic() > deadline:
                    said = pathlib.Path(log_path).read_text(encoding="utf-8", errors="replace")[-1000:]
                    raise ServerError(f"{' '.join(command)}: did not become ready; it said: {said}")
                time.sleep(0.1)
            yield address
        finally:
            process.terminate()
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
