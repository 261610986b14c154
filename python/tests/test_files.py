"""Files are complete or absent; what goes wrong is a sentence."""

import errno
import fcntl
import os
import pathlib
import signal
import threading

import numpy as np
import pytest

from bass_draft.errors import UserError
from bass_draft.features import FeatureStore
from bass_draft.files import (check_output, read_json, read_jsonl, remove_partial_files, remove_partial_files_of,
                              temporary_folder, write_atomic, write_json, write_text)
from bass_draft.settings import compare_settings, note_settings
from bass_draft.signals import Stop
from bass_draft.tensor_file import read_tensors, write_tensors


def full_disk(partial):
    partial.write_text("half of it")
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_the_old_file_and_says_so(tmp_path):
    path = tmp_path / "data.json"
    write_json(path, [1])
    with pytest.raises(UserError,
                       match="data.json: the disk is full; free some space and run the same command again") as caught:
        write_atomic(path, full_disk)
    assert caught.value.exit_code == 1
    assert read_json(path) == [1]
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_known_from_numpys_words_too(tmp_path):
    """Its tofile, which writes a draft's tensors, tells no error number."""
    with pytest.raises(UserError, match="draft.gguf: the disk is full; free some space") as caught:
        write_atomic(tmp_path / "draft.gguf", lambda partial: np.zeros(10**5).tofile("/dev/full"))
    assert caught.value.exit_code == 1


def test_a_link_stays_one(tmp_path):
    real, link, dangling = tmp_path / "folder" / "real", tmp_path / "link", tmp_path / "dangling"
    write_text(real, "old")
    link.symlink_to(real)
    dangling.symlink_to(tmp_path / "folder" / "new")
    for path in (link, dangling):
        check_output(path, {})
        write_text(path, "text")
        assert path.is_symlink() and path.read_text() == "text"
    assert real.read_text() == "text"
    assert sorted(path.name for path in real.parent.iterdir()) == ["new", "real"]


def test_a_pipe_stays_one_and_gets_the_bytes(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    check_output(pipe, {})
    write_text(pipe, "text")
    reader.join(10)
    assert found == [b"text"] and pipe.is_fifo()


def test_a_file_that_is_open_already_is_added_to(tmp_path):
    """As the standard output of a script, /dev/stdout, whose lines stand before ours."""
    path = tmp_path / "all"
    with open(path, "w", encoding="utf-8") as file:
        file.write("before\n")
        file.flush()
        name = pathlib.Path(f"/proc/self/fd/{file.fileno()}")
        link = tmp_path / "stdout"
        link.symlink_to(name)
        for out in (name, pathlib.Path(f"/dev/fd/{file.fileno()}"), link):
            check_output(out, {})
            write_text(out, "ours\n")
    assert path.read_text() == "before\nours\nours\nours\n"
    reader, writer = os.pipe()
    check_output(pathlib.Path(f"/dev/fd/{writer}"), {})
    write_text(pathlib.Path(f"/dev/fd/{writer}"), "ours\n")
    assert os.read(reader, 100) == b"ours\n"
    os.close(reader)
    os.close(writer)


def test_an_output_is_checked_before_the_work(tmp_path):
    source, link = tmp_path / "model.gguf", tmp_path / "link.gguf"
    source.write_text("weights")
    link.symlink_to(source)
    os.link(source, tmp_path / "second.gguf")
    (tmp_path / "new").mkdir()
    inputs = {"-d": None, "--prompts": str(tmp_path / "none"), "-m": str(source)}
    for path, words in ((source, "is the file that -m names, which would be lost; name another one"), (link, "that -m names"),
                        (tmp_path / "second.gguf", "that -m names"), (tmp_path / "new", "is a folder; name a file"),
                        (source / "x.gguf", "is no folder"), (tmp_path / ("n" * 250), "File name too long")):
        with pytest.raises(UserError, match=words):
            check_output(path, inputs)
    check_output(tmp_path / "new" / "draft.gguf", inputs)
    assert not list((tmp_path / "new").iterdir()) and source.read_text() == "weights"


def test_lines_may_begin_with_a_mark_and_are_not_nested_without_end(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "x"}', encoding="utf-8-sig")
    assert read_jsonl(path) == [(f"{path}:1", {"prompt": "x"})]
    path.write_text("[" * 200000)
    with pytest.raises(UserError, match="prompts.jsonl:1: not a JSON object"):
        read_jsonl(path)
    with pytest.raises(UserError, match="not valid JSON"):
        read_json(path)


def test_other_failures_name_the_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="data.json: File exists"):
        write_json(tmp_path / "file" / "data.json", 1)
    with pytest.raises(UserError, match="missing.jsonl: No such file"):
        read_jsonl(tmp_path / "missing.jsonl")


def test_what_a_killed_process_left_is_removed(tmp_path):
    (tmp_path / ".data.json.123.part").write_text("half")
    (tmp_path / "data.json").write_text("1")
    remove_partial_files(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["data.json"]


def test_of_one_file_only_its_own_parts_are_removed(tmp_path):
    for name in (".a[1].gguf.12.part", ".a1.gguf.12.part", ".b.gguf.12.part"):
        (tmp_path / name).touch()
    remove_partial_files_of(tmp_path / "a[1].gguf")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a1.gguf.12.part", ".b.gguf.12.part"]


def test_without_a_temporary_folder_the_mend_is_named(monkeypatch):
    def refuse():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", refuse)
    with pytest.raises(UserError, match="name another one in TMPDIR") as caught:
        temporary_folder()
    assert caught.value.exit_code == 1


def test_other_settings_are_refused(tmp_path):
    path = tmp_path / "settings.json"
    note_settings(path, {"seed": 1, "shape": {"taps": (1, 2)}})
    note_settings(path, {"seed": 1, "shape": {"taps": (1, 2)}})
    with pytest.raises(UserError, match="was begun with another seed; give the same again, or another --work folder"):
        note_settings(path, {"seed": 2, "shape": {"taps": (1, 2)}})


def test_settings_that_an_older_version_did_not_note_are_noted(tmp_path):
    path = tmp_path / "settings.json"
    note_settings(path, {"shape": 1})
    note_settings(path, {"shape": 1, "seed": 1})
    with pytest.raises(UserError, match="another seed"):
        note_settings(path, {"shape": 1, "seed": 2})


def test_comparing_settings_writes_nothing(tmp_path):
    path = tmp_path / "settings.json"
    compare_settings(path, {"seed": 1})
    assert not path.exists()
    note_settings(path, {"seed": 1})
    compare_settings(path, {"seed": 2}, is_begun=False)
    compare_settings(path, {"seed": 1, "later": 2})
    assert read_json(path) == {"seed": 1}


@pytest.mark.parametrize("noted", [{}, [], [1], "seed", {"other": 1}])
def test_settings_that_say_nothing_do_not_let_everything_pass(tmp_path, noted):
    path = tmp_path / "settings.json"
    write_json(path, noted)
    with pytest.raises(UserError, match="settings.json: does not say what the folder was begun with"):
        note_settings(path, {"seed": 2})
    assert read_json(path) == noted
    note_settings(path, {"seed": 2}, is_begun=False)
    assert read_json(path) == {"seed": 2}


def test_a_list_that_is_none_is_another_one(tmp_path):
    write_json(tmp_path / "settings.json", {"prompts": 5})
    with pytest.raises(UserError, match="another prompts"):
        compare_settings(tmp_path / "settings.json", {"prompts": ["a"]}, n_used={"prompts": 1})


def test_a_signal_that_is_ignored_stays_so():
    """As of a command that a shell's script has put into the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Stop() as stop:
            os.kill(os.getpid(), signal.SIGINT)
        assert stop.signal_number is None and signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_settings_that_nothing_was_made_with_may_change(tmp_path):
    path = tmp_path / "settings.json"
    note_settings(path, {"seed": 1, "prompts": ["a", "b"]})
    note_settings(path, {"seed": 2, "prompts": ["a", "b", "c"]}, is_begun=False)
    note_settings(path, {"seed": 2, "prompts": ["a", "b", "d"]}, n_used={"prompts": 2})
    assert read_json(path) == {"seed": 2, "prompts": ["a", "b", "d"]}
    with pytest.raises(UserError, match="another prompts"):
        note_settings(path, {"seed": 2, "prompts": ["a", "x", "d"]}, n_used={"prompts": 2})
    with pytest.raises(UserError, match="another prompts"):
        note_settings(path, {"seed": 2, "prompts": ["a"]}, n_used={"prompts": 2})


def test_tensor_files_round_trip(tmp_path):
    path = tmp_path / "x.safetensors"
    tensors = {"a": ("I32", np.arange(3, dtype=np.int32)), "b": ("F32", np.ones((2, 3), np.float32)),
               "c": ("BF16", np.arange(4, dtype=np.int16).reshape(2, 2)), "d": ("I64", np.arange(2, dtype=np.int64))}
    write_tensors(path, tensors, {"layers": "1,2"})
    found, metadata = read_tensors(path)
    assert metadata == {"layers": "1,2"}
    for name, (_, array) in tensors.items():
        assert np.array_equal(found[name], array) and found[name].dtype == array.dtype


@pytest.mark.parametrize("keep", [0, 4, 20, 150])
def test_a_cut_tensor_file_is_an_error(tmp_path, keep):
    path = tmp_path / "x.safetensors"
    write_tensors(path, {"a": ("F32", np.ones(100, np.float32))}, {})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match="not a whole safetensors file; delete it"):
        read_tensors(path)


def test_features_of_another_number_of_likely_tokens_go_and_those_of_other_layers_stay(tmp_path):
    kept = ["00000.layers_1.answered_top_256", "00000.layers_1_2.answered_top_64"]
    names = [*kept, "00000.layers_1.answered_top_64", "00001.layers_1.answers_top_256", "00000.layers_1.top_256"]
    for name in names:
        (tmp_path / f"{name}.safetensors").touch()
    (tmp_path / f"{kept[0]}.safetensors.abcdef.bass-tmp").touch()  # of an engine that was killed
    with open(tmp_path / f"{kept[0]}.safetensors.fedcba.bass-tmp", "wb") as running:
        fcntl.flock(running, fcntl.LOCK_EX)
        FeatureStore(None, tmp_path, [1], 256, 0)
    assert {path.name for path in tmp_path.iterdir()} == {
        *(f"{name}.safetensors" for name in kept), f"{kept[0]}.safetensors.fedcba.bass-tmp"}


def test_features_of_other_texts_are_refused(tmp_path):
    """Also those whose tokens are the same, cut elsewhere, and those that an older program has written."""
    store = FeatureStore(None, tmp_path, [], 2, 0)
    texts, first = [[5, 6], [7]], [1, 0]
    tensors = {"starts": ("I64", np.array([0, 2, 3])), "top_starts": ("I64", np.array([0, 1, 2])),
               "tokens": ("I32", np.array([5, 6, 7], np.int32)), "top_ids": ("I32", np.zeros((2, 2), np.int32)),
               "top_logprobs": ("F32", np.zeros((2, 2), np.float32))}
    path = tmp_path / "a.layers_none.answered_top_2.safetensors"
    write_tensors(path, tensors, {})
    assert [features.first for features in store.load("a", texts, first)] == first
    for other_texts, other_first in (([[5, 6], [8]], first), ([[5], [6, 7]], [0, 1]), (texts, [0, 0])):
        with pytest.raises(UserError, match="is of other texts"):
            store.load("a", other_texts, other_first)
    write_tensors(path, {name: tensor for name, tensor in tensors.items() if name != "top_starts"}, {})
    with pytest.raises(UserError, match="is of other texts"):
        store.load("a", texts, first)
