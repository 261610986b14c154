"""A hub on this machine that has the real one's interface and every fault, for the tests of bass pull.

Contents of large files (LFS) come from another port, as they come from another host there.
"""
import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import random
import struct
import sys
import threading
import urllib.parse

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fuzz"))
import make_corpus as files  # noqa: E402

COMMIT = "c0ffee" * 6 + "abcd"
REPO = "models--org--model"
TIMEOUT_S = 60


def git_hash(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """hub: the Hub; is_cdn: which of the two hosts this is."""
    protocol_version = "HTTP/1.1"
    timeout = 20

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.server.hub.log.append((self.server.is_cdn, self.command, self.path, dict(self.headers)))
        with contextlib.suppress(ConnectionError):
            (self.contents if self.server.is_cdn else self.of_hub)()

    def answer(self, code, body=b"", headers=()):
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def of_hub(self):
        hub, url = self.server.hub, urllib.parse.urlsplit(self.path)
        parts = [urllib.parse.unquote(part) for part in url.path.split("/")[1:]]
        if hub.take("hub_500"):
            return self.answer(500)
        if hub.gated:
            return self.answer(403, headers=[("X-Error-Code", "GatedRepo")])
        if hub.token is not None and self.headers.get("Authorization") != f"Bearer {hub.token}":
            return self.answer(401, b'{"error":"Invalid username or password."}')
        if parts[:2] == ["api", "models"]:
            return self.api(parts[2:])
        if "/".join(parts[:2]) != "org/model":
            return self.answer(404, headers=[("X-Error-Code", "RepoNotFound")])
        return self.resolve("/".join(parts[4:]))

    def api(self, parts):
        hub = self.server.hub
        if "/".join(parts[:2]) != "org/model":
            return self.answer(404, headers=[("X-Error-Code", "RepoNotFound")])
        if parts[2:] == ["refs"]:
            return self.answer(200, b'{"branches": [{"name": "main"}], "tags": [{"name": "v1"}]}')
        if len(parts) > 3 and parts[3] not in ("main", "v1", "refs/pr/1", hub.commit):
            return self.answer(404, headers=[("X-Error-Code", "RevisionNotFound")])
        if hub.listing is not None:
            return self.answer(200, hub.listing)
        if "tree" in parts:
            tree = [{"type": "file", "path": name, "size": len(data), "oid": git_hash(data),
                     **({"lfs": {"oid": sha256(data), "size": len(data), "pointerSize": 130}} if hub.is_lfs(name) else {})}
                    for name, data in hub.files.items()]
            return self.answer(200, json.dumps(tree).encode())
        return self.answer(200, json.dumps({"id": "org/model", "sha": hub.commit, "private": False, "gated": False,
                                            "downloads": 1.5, "siblings": [hub.sibling(n) for n in hub.files]}).encode())

    def resolve(self, name):
        hub = self.server.hub
        if name not in hub.files:
            return self.answer(404, headers=[("X-Error-Code", "EntryNotFound")])
        commit = ("X-Repo-Commit", hub.commit)
        if not hub.is_lfs(name):
            return self.contents(name, [commit])
        digest = sha256(hub.files[name])
        target = hub.redirect or f"{hub.cdn_url}/{digest}?signature=secret"
        return self.answer(302, b"see there", [commit, ("Location", target), ("X-Linked-Etag", f'"{digest}"'),
                                               ("X-Linked-Size", str(len(hub.files[name])))])

    def contents(self, name=None, headers=()):
        """A file of the hub, or what the signed address of the other host asks for, with all faults."""
        hub = self.server.hub
        if name is None:
            digest = self.path.lstrip("/").split("?")[0]
            name = next(n for n, data in hub.files.items() if sha256(data) == digest)
        data = hub.files[name]
        headers = [*headers, ("ETag", f'"{sha256(data) if hub.is_lfs(name) else git_hash(data)}"')]
        if hub.take("cdn_500"):
            return self.answer(500)
        if hub.take("wrong"):
            data = b"\xff" + data[1:]
        first, code = 0, 200
        if "Range" in self.headers and not hub.take("ignore_range"):
            if hub.take("answer_416"):
                return self.answer(416)
            first, code = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-")), 206
            first += 1 if hub.take("wrong_range") else 0
            headers.append(("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}"))
        if hub.take("too_long"):
            data += b"more"
        if hub.take("too_short"):
            data = data[:-10]
        return self.body(code, data[first:], headers)

    def body(self, code, data, headers):
        hub = self.server.hub
        n_sent = len(data) // 2 if hub.take("drop") else len(data)
        self.send_response(code)
        for name, value in [*headers, ("Content-Length", str(len(data)))]:
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if hub.take("stall"):
            n_sent = len(data) // 2
            self.wfile.write(data[:n_sent])
            hub.done.wait(10)
            self.close_connection = True
            return
        for begin in range(0, n_sent, hub.piece):
            self.wfile.write(data[begin:min(begin + hub.piece, n_sent)])
            hub.done.wait(hub.pause_s)
        self.close_connection = n_sent < len(data)


class Hub:
    """The state of both hosts. faults: how many more times something goes wrong."""

    def __init__(self):
        self.files, self.faults, self.log = {}, {}, []
        self.commit, self.token, self.gated, self.listing, self.redirect = COMMIT, None, False, None, None
        self.says_blobs = True
        self.piece, self.pause_s = 1 << 20, 0
        self.done = threading.Event()
        self.servers = []
        for is_cdn in (False, True):
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            server.hub, server.is_cdn, server.daemon_threads, server.block_on_close = self, is_cdn, True, False
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
            self.servers.append(server)
        self.url, self.cdn_url = (f"http://127.0.0.1:{server.server_port}" for server in self.servers)

    def close(self):
        self.done.set()
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def take(self, fault):
        """Whether this fault happens now."""
        n_left = self.faults.get(fault, 0)
        self.faults[fault] = n_left - 1
        return n_left > 0

    @staticmethod
    def is_lfs(name):
        return name.endswith((".gguf", ".safetensors", "tokenizer.json"))

    def sibling(self, name):
        data = self.files[name]
        facts = {"size": len(data), "blobId": git_hash(data)}
        if self.is_lfs(name):
            facts["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 130}
        return {"rfilename": name, **(facts if self.says_blobs else {})}

    def fetched(self):
        """The paths of the files that were asked for, with the Range of each request."""
        return [(path.split("/", 5)[-1], headers.get("Range")) for is_cdn, _, path, headers in self.log
                if not is_cdn and "/resolve/" in path]


@pytest.fixture
def hub():
    hub = Hub()
    yield hub
    hub.close()


@pytest.fixture
def environment(hub, tmp_path):
    cleared = dict.fromkeys(("HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE"), "")
    return {**cleared, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "no_proxy": "127.0.0.1"}


@pytest.fixture
def bass(run, environment):
    """bass(*arguments, VARIABLE=value...)"""
    return lambda *arguments, **env: run(*arguments, env={**environment, **env})


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "hf" / "hub" / REPO


def tree(folder):
    """path -> contents, or where a link leads."""
    return {str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes()
            for path in folder.rglob("*") if path.is_symlink() or path.is_file()}


def ready_path(done):
    assert done.code == 0, done.err
    return pathlib.Path(done.out.rstrip("\n").split(" is ready: ")[1])


def model(n_bytes=0):
    """A GGUF file that loads; with so many bytes of random weights, to be told from others."""
    return files.llama(data=b"".join(struct.pack("<e", x / 7) for x in range(n_bytes // 2)))


def big(n_bytes=3 << 20):
    return random.Random(n_bytes).randbytes(n_bytes)


def checkpoint():
    """A Hugging Face checkpoint of two shards, and what lies beside such files."""
    hidden, tokens = 16, files.byte_tokens()
    vector, square = [hidden], [hidden, hidden]
    shapes = {"model.embed_tokens.weight": [256, hidden], "model.norm.weight": vector, "lm_head.weight": [256, hidden]}
    layer = {"input_layernorm": vector, "post_attention_layernorm": vector,
             **{f"self_attn.{n}_proj": square for n in "qkvo"}, **{f"mlp.{n}_proj": square for n in ("gate", "up", "down")}}
    shapes |= {f"model.layers.0.{name}.weight": shape for name, shape in layer.items()}
    numbers = random.Random(1)
    shards, weight_map = [], {}
    for i, names in enumerate((list(shapes)[:3], list(shapes)[3:])):
        header, data = {}, b""
        for name in names:
            n = shapes[name][0] * (shapes[name][1] if len(shapes[name]) > 1 else 1)
            header[name] = {"dtype": "F16", "shape": shapes[name], "data_offsets": [len(data), len(data) + 2 * n]}
            data += b"".join(struct.pack("<e", numbers.uniform(-1, 1)) for _ in range(n))
            weight_map[name] = f"model-0000{i + 1}-of-00002.safetensors"
        shards.append(files.safetensors(header, data))
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "num_hidden_layers": 1,
              "intermediate_size": hidden, "num_attention_heads": 1, "max_position_embeddings": 64, "vocab_size": 256,
              "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "eos_token_id": 0}
    tokenizer = {"version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None,
                 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                 "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
                 "model": {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": []}}
    used = {"config.json": json.dumps(config).encode(), "tokenizer.json": json.dumps(tokenizer).encode(),
            "model.safetensors.index.json": json.dumps({"metadata": {}, "weight_map": weight_map}).encode(),
            "model-00001-of-00002.safetensors": shards[0], "model-00002-of-00002.safetensors": shards[1]}
    unused = {"README.md": b"# A model\n", "pytorch_model.bin": b"x", "consolidated.safetensors": b"y",
              "model-00003-of-00002.safetensors": b"of no index"}
    return used, unused
