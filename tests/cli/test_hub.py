"""bass pull ORG/NAME and -m ORG/NAME, against a hub on this machine that has the real one's interface and every fault.

Contents of large files (LFS) come from another port, as they come from another host there.
"""
import contextlib
import fcntl
import hashlib
import http.server
import importlib.util
import json
import os
import pathlib
import random
import resource
import signal
import struct
import subprocess
import sys
import threading
import time
import urllib.parse

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fuzz"))
import make_corpus as files  # noqa: E402

COMMIT = "c0ffee" * 6 + "abcd"
REPO = "models--org--model"
TIMEOUT_S = 60
HAS_HUB_PACKAGE = importlib.util.find_spec("huggingface_hub") is not None


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


# What is chosen, and where it lies.

def test_the_only_gguf_file_is_fetched_and_run(bass, hub, cache):
    hub.files = {"README.md": b"hello", "sub/tiny-Q8_0.gguf": model(), "sub/mmproj-f16.gguf": b"sees pictures"}
    path = ready_path(bass("pull", "org/model"))
    digest = sha256(model())
    assert tree(cache) == {"refs/main": COMMIT.encode(), f"blobs/{digest}": model(),
                           f"snapshots/{COMMIT}/sub/tiny-Q8_0.gguf": f"../../../blobs/{digest}"}
    assert path == cache / "snapshots" / COMMIT / "sub/tiny-Q8_0.gguf"
    assert (cache.parent / ".locks" / REPO / f"{digest}.lock").exists()
    assert (cache.parent / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")
    hub.close()
    assert bass("info", "-m", "org/model", "--json").json()["path"] == str(path)
    assert bass("generate", "-m", "org/model:Q8_0", "-d", "org/model", "-p", "a", "--max-tokens", "2").code == 0


def test_nothing_is_fetched_twice(bass, hub, cache):
    hub.files = {"a.gguf": model()}
    first = bass("pull", "org/model")
    assert first.err.startswith("a.gguf: ") and first.err.count("\n") == 1 and "\x1b" not in first.err
    hub.commit = "d" * 40  # another commit with the same contents
    hub.log.clear()
    second = bass("pull", "org/model")
    assert second.err == "" and ready_path(second).parts[-2] == hub.commit
    assert hub.fetched() == []
    assert len(list((cache / "blobs").iterdir())) == 1


def test_several_gguf_files_need_a_choice(bass, hub):
    hub.files = {f"model-{kind}.gguf": model(i) for i, kind in enumerate(("Q4_K_M", "Q4_K_S", "IQ4_XS", "F16"))}
    done = bass("pull", "org/model")
    assert done.code == 2 and "say which as org/model:FILE" in done.err
    assert all(f"{name} ({len(data) / 1024:.1f} KiB)" in done.err for name, data in hub.files.items())
    assert ready_path(bass("pull", "org/model:q4_k_m")).name == "model-Q4_K_M.gguf"
    assert ready_path(bass("pull", "org/model:model-F16.gguf")).name == "model-F16.gguf"
    assert "that can be 2 files" in bass("info", "-m", "org/model").err
    assert bass("info", "-m", "org/model:Q4_K_M").code == 0
    done = bass("info", "-m", "org/model:IQ4_XS")
    assert done.code == 2 and "has no such file" in done.err
    done = bass("pull", "org/model:Q4_K")
    assert done.code == 2 and "has no such file" in done.err
    done = bass("pull", "org/model:Q4_K_X")
    assert done.code == 2 and "did you mean org/model:Q4_K_" in done.err


def test_all_parts_of_a_split_file_come(bass, hub, cache, tiny, tmp_path):
    from test_convert import split
    (tmp_path / "parts").mkdir()
    split(tiny, tmp_path / "parts")
    hub.files = {f"Q4/x-Q4_1-{p.name[5:]}": p.read_bytes() for p in (tmp_path / "parts").iterdir()}
    hub.files["Q5/x-Q5_1-00001-of-00002.gguf"] = b"incomplete"
    path = ready_path(bass("pull", "org/model:Q4_1"))
    assert path.name == "x-Q4_1-00001-of-00003.gguf" and len(list((cache / "blobs").iterdir())) == 3
    scores = [bass("score", "-m", m, "-p", "hello", "--json").json()["logprobs"] for m in ("org/model", tiny)]
    assert scores[0] == scores[1]
    done = bass("pull", "org/model:Q5_1")
    assert done.code == 2 and "part 2 of 2 is missing" in done.err
    (path.parent / "x-Q4_1-00002-of-00003.gguf").unlink()
    done = bass("info", "-m", "org/model")
    assert done.code == 2 and "part 2 of 3 is missing" in done.err and "run: bass pull org/model" in done.err


def test_a_checkpoint_comes_with_the_shards_of_its_index(bass, hub, cache):
    used, unused = checkpoint()
    hub.files = used | unused
    path = ready_path(bass("pull", "org/model"))
    assert path == cache / "snapshots" / COMMIT
    assert {name: (path / name).read_bytes() for name in os.listdir(path)} == used
    assert os.readlink(path / "config.json") == f"../../blobs/{git_hash(used['config.json'])}"
    assert os.readlink(path / "tokenizer.json") == f"../../blobs/{sha256(used['tokenizer.json'])}"
    assert bass("score", "-m", "org/model", "-p", "hello", "--json").code == 0
    (path / "model-00002-of-00002.safetensors").unlink()
    done = bass("score", "-m", "org/model", "-p", "hello")
    assert done.code == 2 and "model-00002-of-00002.safetensors, which it names, is missing" in done.err
    assert "run: bass pull org/model" in done.err
    assert bass("pull", "org/model").code == 0 and bass("score", "-m", "org/model", "-p", "hello").code == 0


def test_gguf_files_come_before_a_checkpoint(bass, hub):
    used, _ = checkpoint()
    hub.files = used | {"a.gguf": model()}
    assert ready_path(bass("pull", "org/model")).name == "a.gguf"
    assert ready_path(bass("pull", "org/model:safetensors")).name == COMMIT
    assert "is no GGUF file" in bass("pull", "org/model:config.json").err
    hub.files = {"pytorch_model.bin": b"x", "config.json": b"{}"}
    done = bass("pull", "org/model")
    assert done.code == 2 and "has no model.safetensors, only pytorch_model.bin" in done.err
    assert "AutoModelForCausalLM.from_pretrained(" in done.err


def test_revisions(bass, hub, cache):
    hub.files = {"a.gguf": model()}
    for arguments, ref in ((["org/model", "--revision", "v1"], "v1"), (["org/model@refs/pr/1:a.gguf"], "refs/pr/1")):
        ready_path(bass("pull", *arguments))
        assert (cache / "refs" / ref).read_text() == COMMIT
        assert bass("info", "-m", f"org/model@{ref}").code == 0
    assert bass("info", "-m", "org/model").code == 2, "main was not fetched"
    assert ready_path(bass("pull", "org/model", "--revision", COMMIT)).exists()
    assert not (cache / "refs" / COMMIT).exists() and bass("info", "-m", f"org/model@{COMMIT}").code == 0
    done = bass("pull", "org/model", "--revision", "v2")
    assert done.code == 2 and "has no revision (branch, tag or commit) of this name" in done.err
    assert "did you mean org/model@v1?" in done.err


def test_a_path_that_is_there_wins(bass, hub, tmp_path):
    (tmp_path / "org").mkdir()
    (tmp_path / "org" / "model").write_bytes(model())
    assert bass("info", "-m", "org/model", "--json").json()["path"] == "org/model"
    done = bass("info", "-m", "org/other")
    assert done.code == 2 and "there is no such file, and no such model in" in done.err
    assert "run: bass pull org/other" in done.err


def test_a_hub_that_names_only_files_is_asked_for_the_rest(bass, hub, cache):
    hub.files, hub.says_blobs = {"a.gguf": model(), "config.json": b"{}"}, False
    assert ready_path(bass("pull", "org/model")).resolve() == cache / "blobs" / sha256(model())
    assert [command for _, command, path, _ in hub.log if "/resolve/" in path] == ["HEAD", "GET"]


@pytest.mark.parametrize("variable, folder", [("HF_HUB_CACHE", "x"), ("HUGGINGFACE_HUB_CACHE", "x"), ("HF_HOME", "x/hub"),
                                              ("XDG_CACHE_HOME", "x/huggingface/hub")])
def test_where_the_cache_is(bass, hub, tmp_path, variable, folder):
    hub.files = {"a.gguf": model()}
    path = ready_path(bass("pull", "org/model", **{"HF_HOME": "", variable: str(tmp_path / "x")}))
    assert path == tmp_path / folder / REPO / "snapshots" / COMMIT / "a.gguf"


# Rights.

def test_the_token_goes_to_the_hub_only(bass, hub, tmp_path):
    hub.files, hub.token = {"a.gguf": model(), "README.md": b""}, "hf_secret"
    done = bass("pull", "org/model")
    assert done.code == 1 and "set HF_TOKEN" in done.err
    done = bass("pull", "org/model", HF_TOKEN="hf_wrong")
    assert done.code == 1 and "is HF_TOKEN right" in done.err and "hf_wrong" not in done.err
    (tmp_path / "hf").mkdir(exist_ok=True)
    (tmp_path / "hf" / "token").write_text("hf_secret\n")
    hub.log.clear()
    ready_path(bass("pull", "org/model"))
    sent = {is_cdn: {headers.get("Authorization") for c, _, _, headers in hub.log if c == is_cdn} for is_cdn in (0, 1)}
    assert sent == {0: {"Bearer hf_secret"}, 1: {None}}
    done = bass("pull", "org/model", HF_TOKEN="a\nb")
    assert done.code == 2 and "HF_TOKEN: holds characters that no token has" in done.err


def test_a_gated_model_says_where_its_licence_is(bass, hub):
    hub.gated = True
    done = bass("pull", "org/model")
    assert done.code == 1 and f"is gated: accept its licence at {hub.url}/org/model" in done.err


def test_offline_the_network_is_not_touched(bass, hub):
    hub.files = {"a.gguf": model()}
    done = bass("pull", "org/model", HF_HUB_OFFLINE="1")
    assert done.code == 1 and "HF_HUB_OFFLINE" in done.err and hub.log == []
    ready_path(bass("pull", "org/model"))
    hub.log.clear()
    assert ready_path(bass("pull", "org/model", HF_HUB_OFFLINE="yes")).exists() and hub.log == []


# Faults of the network and the server.

@pytest.mark.parametrize("faults", [
    {"hub_500": 1}, {"cdn_500": 2}, {"wrong": 1}, {"drop": 1, "ignore_range": 1}, {"drop": 1, "answer_416": 1},
    {"too_short": 1}, {"drop": 1, "wrong": 2}, {"stall": 1}, {"drop": 4}], ids=str)
def test_what_passes_is_tried_again(bass, hub, cache, faults):
    data = big(16 << 20 if faults == {"drop": 4} else 3 << 20)  # more failures than tries: but each brings some
    hub.files, hub.faults = {"a.gguf": data}, dict(faults)
    done = bass("pull", "org/model", HF_HUB_DOWNLOAD_TIMEOUT="1" if "stall" in faults else "")
    assert ready_path(done).read_bytes() == data
    assert [p.name for p in (cache / "blobs").iterdir()] == [sha256(data)]
    if "wrong" in faults:
        assert "the download is damaged" in done.err


@pytest.mark.parametrize("faults, needle", [
    ({"hub_500": 99}, "answered 500; try again later"), ({"wrong": 99}, "arrived damaged twice, and was not used"),
    ({"too_long": 99}, "the server sent more than its"),
    ({"drop": 1, "wrong_range": 99}, "another part of the file")], ids=str)
def test_what_does_not_pass_is_an_error_and_never_used(bass, hub, cache, faults, needle):
    hub.files, hub.faults = {"a.gguf": model()}, dict(faults)
    done = bass("pull", "org/model")
    assert done.code == 1 and needle in done.err and done.err.splitlines()[-1].startswith("error: ")
    assert not (cache / "refs" / "main").exists()
    assert not list(cache.glob("blobs/*[0-9a-f]")) or all(p.suffix == ".incomplete" for p in cache.glob("blobs/*"))
    assert bass("info", "-m", "org/model").code == 2


def test_no_network(bass, hub):
    hub.close()
    done = bass("pull", "org/model")
    assert done.code == 1 and "127.0.0.1" in done.err and "is the network there?" in done.err


def test_a_repository_that_is_not_there(bass, hub):
    done = bass("pull", "org/modell")
    assert done.code == 2 and f"no such model at {hub.url}; is the name spelled" in done.err
    hub.files = {"a.gguf": model()}
    ready_path(bass("pull", "org/model"))
    assert "did you mean org/model?" in bass("pull", "org/modell").err
    assert "did you mean org/model?" in bass("info", "-m", "org/modell").err


@pytest.mark.parametrize("target, needle", [
    ("LOOP", "is redirected more than"), ("file:///etc/passwd", "which is not followed"), ("ftp://127.0.0.1/a", "not followed"),
    ("http://[", "answered 302")])
def test_redirects_that_lead_nowhere(bass, hub, target, needle):
    hub.files = {"a.gguf": model()}
    hub.redirect = f"{hub.url}/org/model/resolve/main/a.gguf" if target == "LOOP" else target
    done = bass("pull", "org/model")
    assert done.code == 1 and needle in done.err
    assert len(hub.log) < 10


SIBLING = {"rfilename": "a.gguf", "size": 1, "blobId": "a" * 40}


@pytest.mark.parametrize("listing", [
    b"", b"<html>", b"[]", b"{}", b'{"sha": "main", "siblings": []}', b'{"sha": "../../..", "siblings": []}', b"[" * 100000,
    {"siblings": None}, {"siblings": [1]}, {"siblings": [{}]}, {"siblings": [{"rfilename": 1}]},
    *({"siblings": [{**SIBLING, "rfilename": name}]} for name in (
        "", "/etc/a.gguf", "../a.gguf", "b/../../a.gguf", "a\n.gguf", "b//a.gguf", "./a.gguf", "a\\..\\b.gguf", "\x1b[2J.gguf",
        "a" * 300 + ".gguf")),
    *({"siblings": [{**SIBLING, "size": size}]} for size in (-1, 2**63, 2**64 - 1, 1.5, "1")),
    *({"siblings": [{**SIBLING, "blobId": blob}]} for blob in ("../../x", "a/b", "A" * 40, "a" * 39, 1)),
    {"siblings": [{**SIBLING, "lfs": {"sha256": "../" * 20, "size": 1}}]}, {"siblings": [{**SIBLING, "lfs": 1}]},
], ids=lambda listing: repr(listing)[:60])
def test_a_listing_that_makes_no_sense(bass, hub, cache, tmp_path, listing):
    hub.listing = listing if isinstance(listing, bytes) else json.dumps({"sha": COMMIT, **listing}).encode()
    done = bass("pull", "org/model")
    assert done.code == 1 and "the hub's answer makes no sense" in done.err and done.err.count("\n") == 1
    assert "\x1b" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_name_with_escapes_is_fetched_as_it_is(bass, hub):
    hub.files = {"ä b%2F#?+&'.gguf": model()}
    assert ready_path(bass("pull", "org/model")).name == "ä b%2F#?+&'.gguf"


def test_a_full_disk(binary, hub, environment, cache):
    hub.files = {"a.gguf": big()}
    done = subprocess.run([binary, "pull", "org/model"], env={**os.environ, **environment}, capture_output=True, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
    assert done.returncode == 1 and b"cannot be written" in done.stderr
    assert not (cache / "refs").exists()


# Being stopped, and others at the same work.

def start_slowly(binary, hub, environment):
    """A pull that has got some bytes and would take seconds."""
    hub.piece, hub.pause_s = 64 << 10, 0.05
    process = subprocess.Popen([binary, "pull", "org/model"], env={**os.environ, **environment}, stderr=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    folder = pathlib.Path(environment["HF_HOME"]) / "hub" / REPO / "blobs"
    end = time.monotonic() + TIMEOUT_S
    while not any(path.stat().st_size > 0 for path in folder.glob("*.incomplete")):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.01)
    return process


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_stopped_it_goes_on_later(binary, bass, hub, environment, cache, number, code):
    data = big()
    hub.files = {"a.gguf": data}
    process = start_slowly(binary, hub, environment)
    process.send_signal(number)
    assert process.wait(TIMEOUT_S) == code
    process.communicate()
    blobs = tree(cache / "blobs")
    assert list(blobs) == [f"{sha256(data)}.incomplete"] and not (cache / "refs").exists()
    n_bytes = len(blobs.popitem()[1])
    assert 0 < n_bytes < len(data)
    hub.pause_s = 0
    hub.log.clear()
    assert ready_path(bass("pull", "org/model")).read_bytes() == data
    assert hub.fetched() == [("a.gguf", f"bytes={n_bytes}-")]
    assert list(tree(cache / "blobs")) == [sha256(data)]


def test_two_at_once_fetch_once(binary, hub, environment, cache):
    hub.files = {"a.gguf": big(1 << 20)}
    processes = [start_slowly(binary, hub, environment)]
    processes.append(subprocess.Popen(processes[0].args, env={**os.environ, **environment}, stderr=subprocess.PIPE))
    assert [process.wait(TIMEOUT_S) for process in processes] == [0, 0]
    assert hub.fetched() == [("a.gguf", None)]
    assert b"another program is fetching it" in processes[1].communicate()[1]
    processes[0].communicate()


def test_the_lock_is_the_one_of_other_programs(binary, bass, hub, environment, cache):
    hub.files = {"a.gguf": model()}
    lock = cache.parent / ".locks" / REPO / f"{sha256(model())}.lock"
    lock.parent.mkdir(parents=True)
    with open(lock, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        process = subprocess.Popen([binary, "pull", "org/model"], env={**os.environ, **environment}, stderr=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL)
        assert b"waiting" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130 and hub.fetched() == []
        process.stderr.close()
    assert bass("pull", "org/model").code == 0


def test_a_bar_on_a_terminal(binary, hub, environment, tmp_path):
    from test_terminal import Terminal, screen
    hub.files, hub.piece, hub.pause_s = {"a-long-name-of-a-file.gguf": big(1 << 20)}, 128 << 10, 0.05
    terminal = Terminal([binary, "pull", "org/model"], 60, 10, env=environment, cwd=tmp_path)
    code, output = terminal.finish()
    assert code == 0
    bars = output.split("\r\x1b[K")
    assert len(bars) > 3 and " %  " in bars[1] and "/s" in bars[2] and " left" in bars[2]
    assert all(len(bar) < 60 for bar in bars[1:-1])
    lines = screen(output, 60, 10)
    assert lines[0].startswith("a-long-name-of-a-file.gguf: 1.0 MiB in ") and lines[1].startswith("org/model is ready: ")


# The hub's own package shares the cache.

@pytest.mark.skipif(not HAS_HUB_PACKAGE, reason="needs the package huggingface_hub")
def test_the_python_package_and_we_use_the_same_cache(bass, hub, environment, tmp_path):
    def python(home, code):
        variables = {key: value for key, value in environment.items() if value}
        done = subprocess.run([sys.executable, "-c", "from huggingface_hub import *\n" + code], text=True, check=False,
                              capture_output=True, env={**os.environ, **variables, "HF_HOME": str(home)})
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    used, _ = checkpoint()
    hub.files = used | {"sub/a.gguf": model()}
    ours, theirs = tmp_path / "hf", tmp_path / "theirs"
    for what in ("org/model", "org/model:safetensors"):
        ready_path(bass("pull", what))
    assert python(theirs, 'print(snapshot_download("org/model"))').startswith(str(theirs))
    trees = [tree(home / "hub" / REPO) for home in (ours, theirs)]
    trees[1] = {path: data for path, data in trees[1].items() if not path.startswith("trees/")}
    assert trees[0] == trees[1]
    snapshot = python(ours, 'print(snapshot_download("org/model", local_files_only=True))')
    assert snapshot == str(ours / "hub" / REPO / "snapshots" / COMMIT)
    assert python(ours, 'print(hf_hub_download("org/model", "sub/a.gguf", local_files_only=True))').startswith(snapshot)
    hub.log.clear()
    assert bass("info", "-m", "org/model", HF_HOME=str(theirs)).code == 0
    assert bass("score", "-m", "org/model:safetensors", "-p", "a", HF_HOME=str(theirs)).code == 0
    assert hub.log == []
    done = bass("pull", "org/model", HF_HOME=str(theirs))
    assert done.code == 0 and done.err == "" and hub.fetched() == []
