"""bass pull ORG/NAME: faults of the network, of the server and of the disk."""
import json
import os
import resource
import subprocess

import pytest
from fake_hub import bass, big, cache, COMMIT, environment, hub, model, ready_path, sha256  # noqa: F401 (fixtures)


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
