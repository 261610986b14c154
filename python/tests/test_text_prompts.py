"""bench/drafts/text_prompts.py, with Python's own library alone as its texts, and with made-up ones."""

import json
import pathlib
import random
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench" / "drafts" / "text_prompts.py"
sys.path.insert(0, str(SCRIPT.parent))
import text_prompts  # noqa: E402


@pytest.fixture
def no_packages(monkeypatch, tmp_path):
    monkeypatch.setattr(text_prompts, "_FORTUNES", tmp_path / "none")
    monkeypatch.setattr(text_prompts, "_WORDNET", tmp_path / "none")
    monkeypatch.setattr(text_prompts.importlib.util, "find_spec", lambda name: None)
    text_prompts.encyclopedia.cache_clear()


def first(n, seed=1, kept_out=frozenset()):
    return [found for found, _ in zip(text_prompts.prompts(seed, set(kept_out)), range(n))]


def test_what_is_absent_is_left_out_with_a_word(no_packages, capsys):
    found = first(20)
    assert {task for task, _, _ in found} == {"library code"} and len({text for _, text, _ in found}) == 20
    assert all(text.startswith(("def ", "async def ")) and not is_chat for _, text, is_chat in found)
    err = capsys.readouterr().err
    assert "apt-get install fortunes-de" in err and "wordnet-base" in err and "gensim" in err


def test_a_seed_gives_the_same_prompts(no_packages):
    assert first(20) == first(20) and first(20) != first(20, seed=2)


def test_what_is_kept_out_does_not_come(no_packages):
    unwanted = first(20)[7][1]
    again = first(20, kept_out=text_prompts.marks(unwanted))
    assert unwanted not in {text for _, text, _ in again}
    name = unwanted.split("(")[0].removeprefix("def ")
    assert unwanted not in {text for _, text, _ in first(20, kept_out={name})}


def test_a_short_prompt_is_kept_out_whole():
    assert text_prompts.marks("Who was Wister?") & text_prompts.marks("who was wister")
    assert not text_prompts.marks("Who was Wister?") & text_prompts.marks("Who was Wister, and why?")


def test_it_ends_where_there_is_no_more_text(no_packages, monkeypatch):
    monkeypatch.setattr(text_prompts, "functions", lambda: ["def a(): pass\n", "def b(): pass\n"])
    assert sorted(text for _, text, _ in text_prompts.prompts(1, set())) == ["def a(): pass\n", "def b(): pass\n"]


def test_markup_goes():
    wikitext = ("{{Infobox|x={{nested}}}}\n'''Ants''' live in [[colony (biology)|colonies]]&lt;ref&gt;A book&lt;/ref&gt; of "
                "[[Earth]]. " + "They work. " * 30 + "\n[[File:x.png|thumb|a [[link]] in it]]\n* short\n")
    paragraphs = text_prompts.plain(wikitext)
    assert len(paragraphs) == 1 and paragraphs[0].startswith("Ants live in colonies of Earth. They work.")


def test_names_are_asked_for_by_kind(monkeypatch, tmp_path):
    path = tmp_path / "data.noun"
    path.write_text("  1 a licence line\n"
                    "1 18 n 02 Wister 0 Owen_Wister 0 001 @i 2 n 0000 | writer\n"
                    "2 15 n 01 Regensburg 0 001 @i 3 n 0000 | a city\n"
                    "3 06 n 01 ladle 0 001 @ 4 n 0000 | a spoon\n")
    monkeypatch.setattr(text_prompts, "_WORDNET", path)
    assert list(text_prompts.names()) == [("person", "Owen Wister"), ("place", "Regensburg"), ("thing", "ladle")]
    asked = text_prompts.questions(random.Random(1))
    assert all("{}" not in text for _, text, _ in (next(asked) for _ in range(50)))


def test_as_a_program(tmp_path):
    def run(*arguments):
        done = subprocess.run([sys.executable, SCRIPT, "--prompts", "5", *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    lines = run()
    assert len(lines) == 5 and {"prompt", "task", "chat"} == set(lines[0])
    keep_out = tmp_path / "keep_out.jsonl"
    keep_out.write_text(json.dumps(lines[2]) + "\n")
    again = run("--keep-out", keep_out)
    assert lines[2] not in again and again[:2] == lines[:2]
