"""A server for the tests: `bass serve` while it runs, asked over bare connections or by OpenAI's client."""
import contextlib
import http.client
import json
import os
import signal
import subprocess
import time

import openai
import pytest

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]
PATIENCE_S = 20


class Server:
    """`bass serve` while it runs."""

    def __init__(self, binary, arguments, env=None):
        self.process = subprocess.Popen([binary, "serve", "--port", "0", *arguments], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
        line = self.process.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:"), line + self.process.stderr.read()
        self.port = int(line.split(":")[2].split()[0])

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def call(self, method, path, body=None, headers=None):
        """(status, object or text)"""
        connection = self.connect()
        body = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, json.loads(text) if text.startswith("{") else text

    def post(self, path, **body):
        return self.call("POST", path, body)

    def begin(self, path, **body):
        """A connection whose answer is not read yet."""
        connection = self.connect()
        connection.request("POST", path, json.dumps(body))
        return connection

    def metric(self, name):
        _, text = self.call("GET", "/metrics")
        return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"bass_{name} ")))

    def wait_for(self, name, value):
        until = time.monotonic() + PATIENCE_S
        while self.metric(name) != value:
            assert time.monotonic() < until, f"bass_{name} is {self.metric(name)}, not {value}"
            time.sleep(0.02)

    def client(self, key="none"):
        return openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key=key, max_retries=0)

    def stop(self, signal_number=signal.SIGTERM):
        self.process.send_signal(signal_number)
        return self.process.wait(PATIENCE_S), self.process.stderr.read()


@contextlib.contextmanager
def serving(binary, *arguments, env=None):
    server = Server(binary, [str(argument) for argument in arguments], env)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()


@pytest.fixture(scope="module")
def server(binary, smollm2):
    with serving(binary, "-m", smollm2, "--model-name", "smollm2") as running:
        yield running
