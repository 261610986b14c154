#!/usr/bin/env python3
"""Prompts about texts that people wrote, as JSONL for `bass-draft generate --prompts`: news and encyclopedia articles to
be summarised or asked about, names to be asked for, German and Spanish to be translated, beginnings of Python functions.

The texts come from Debian packages (fortunes-de, fortunes-es, wordnet-base, and Python's own library) and from what the
PyPI package gensim brings along for its tests; whatever is absent is left out, with a word about it:

    apt-get install --no-install-recommends fortunes-de fortunes-es wordnet-base
    pip install --no-deps gensim==4.3.3
    python3 bench/drafts/prompts.py --spec-bench question.jsonl > keep_out.jsonl
    python3 bench/drafts/text_prompts.py --keep-out keep_out.jsonl --prompts 5000 > prompts.jsonl

A prompt that has eight words in a row or a function's name in common with one of --keep-out is left out: nothing that
drafts are measured on is trained on.
"""

import argparse
import ast
import bz2
import functools
import html
import importlib.util
import json
import pathlib
import random
import re
import sys
import sysconfig

_N_OVERLAP = 8  # words
_FORTUNES = pathlib.Path("/usr/share/games/fortunes")
_WORDNET = pathlib.Path("/usr/share/wordnet/data.noun")
_WIKI = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
_NEWS = ("lee_background.cor", "lee.cor")

_SUMMARY_ASKS = ("Summarize: {}", "Summarize: {}", "Summarize the following text in three sentences.\n\n{}",
                 "TL;DR of this article: {}", "{}\n\nWhat is the main point of the article above?",
                 "Write a headline and a short summary.\n\n{}", "List the key facts of this text.\n\n{}")
_PHRASE_ASKS = ("Who or what is {}?", "What does the text say about {}?", "When did {} matter, and why?", "Where is {}?",
                "What happened to {}?", "Why is {} mentioned?", "Who has to do with {}?", "Describe {}.", "What is {} known for?")
_PERSON_ASKS = ("Who was {}?", "When was {} born?", "What is {} famous for?", "Where did {} live?", "Tell me about {}.")
_PLACE_ASKS = ("Where is {}?", "What is {} known for?", "Which country does {} belong to?", "What can one see in {}?")
_NOUN_ASKS = ("What is {}?", "What does \"{}\" mean?", "Who was the first to describe {}?", "When was the first {}?",
              "Give an example of {}.", "How does {} work?", "What is the difference between {} and {}?")


def absent(what, mend):
    print(f"text_prompts.py: no {what}: {mend}", file=sys.stderr)


# -- texts


def gensim_file(name):
    found = importlib.util.find_spec("gensim")  # found, not imported: what it needs may be absent
    path = pathlib.Path(found.submodule_search_locations[0]) / "test" / "test_data" / name if found else None
    if path is None or not path.exists():
        absent(name, "pip install --no-deps gensim==4.3.3")
        return None
    return path


def news():
    for path in filter(None, map(gensim_file, _NEWS)):
        yield from (line.strip() for line in path.read_text(encoding="utf-8", errors="ignore").splitlines() if len(line) > 300)


def plain(wikitext):
    """Paragraphs of an article without its markup."""
    text = html.unescape(html.unescape(wikitext))
    text = re.sub(r"<!--.*?-->|<ref[^>]*?/>|<ref.*?</ref>|<math.*?</math>|<[^>]+>|\{\|.*?\|\}", "", text, flags=re.S)
    while (inner := re.sub(r"\{\{[^{}]*\}\}", "", text)) != text:
        text = inner
    text = re.sub(r"\[\[(?:File|Image|Category):(?:[^\[\]]|\[\[[^\]]*\]\])*\]\]", "", text)
    text = re.sub(r"\[\[(?:[^|\]]*\|)?([^\]]*)\]\]", r"\1", text)
    text = re.sub(r"\[https?:\S+ ?([^\]]*)\]", r"\1", text).replace("'''", "").replace("''", "")
    return [line.strip() for line in text.splitlines() if len(line) > 200 and line[0].isalpha()]


@functools.cache
def encyclopedia():
    """(title, paragraphs) of articles."""
    path = gensim_file(_WIKI)
    articles = []
    if path is None:
        return articles
    pages = bz2.open(path, "rt", encoding="utf-8").read().split("<page>")
    for page in pages:
        title, text = re.search("<title>(.*?)</title>", page), re.search("<text[^>]*>(.*?)</text>", page, re.S)
        paragraphs = plain(text[1]) if text else []
        if title and len(paragraphs) > 3:
            articles.append((html.unescape(title[1]), paragraphs))
    return articles


def fortunes(language):
    folder = _FORTUNES / language
    if not folder.is_dir():
        absent(f"text in \"{language}\"", f"apt-get install fortunes-{language}")
        return
    for path in sorted(folder.iterdir()):
        if path.suffix in (".u8", ".dat") or path.is_symlink() or path.is_dir():
            continue
        for entry in re.split(r"^%\s*$", path.read_text(encoding="utf-8", errors="replace"), flags=re.M):
            text = " ".join(re.split(r"\n\s*--|\n\t\t", entry)[0].split())
            if 40 <= len(text) <= 500 and "|" not in text and "\ufffd" not in text:
                yield text


def names():
    """(kind, words) of WordNet's nouns: persons, places and things."""
    if not _WORDNET.exists():
        absent("WordNet", "apt-get install wordnet-base")
        return
    for line in _WORDNET.read_text(encoding="utf-8").splitlines():
        fields = line.split(" ")
        if line[0] == " " or len(fields) < 6:
            continue
        words, is_instance = [fields[4 + 2 * i].replace("_", " ") for i in range(int(fields[3], 16))], " @i " in line
        kind = {"18": "person", "15": "place"}.get(fields[1]) if is_instance else "thing"
        if kind:
            yield kind, max(words, key=len)


@functools.cache
def functions():
    """The beginnings of Python functions, up to the end of their docstrings."""
    stdlib = pathlib.Path(sysconfig.get_path("stdlib"))
    beginnings = []
    for path in sorted(stdlib.rglob("*.py")):
        if {"test", "tests", "site-packages", "dist-packages", "idlelib"} & set(path.relative_to(stdlib).parts):
            continue
        source = path.read_text(encoding="utf-8", errors="replace")
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            continue
        lines = source.splitlines()
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) and len(node.body) > 1:
                beginnings.append("\n".join(lines[node.lineno - 1:node.body[0].end_lineno]) + "\n")
    return beginnings


# -- prompts


def chunk(rng, paragraphs, n_letters):
    """Paragraphs in a row of about so many letters."""
    first = rng.randrange(len(paragraphs))
    text = ""
    for paragraph in paragraphs[first:]:
        text += ("\n" if text else "") + paragraph
        if len(text) > n_letters:
            break
    limit = n_letters + 400
    return text if len(text) <= limit else text[:limit].rsplit(". ", 1)[0] + "."


def phrase(rng, text, title):
    """A name that the text has."""
    found = re.findall(r"(?<=[a-z,] )[A-Z][a-z]+(?: (?:of |the )?[A-Z][a-z]+)*", text)
    return rng.choice(found) if found else title


def summaries(rng):
    articles, pages = list(news()), encyclopedia()
    while articles or pages:
        if not pages or (articles and rng.random() < 0.4):
            text = rng.choice(articles)
        else:
            text = chunk(rng, rng.choice(pages)[1], rng.randrange(600, 3000))
        yield "text summary", rng.choice(_SUMMARY_ASKS).format(text), True


def questions_on_texts(rng):
    pages = encyclopedia()
    while pages:
        title, paragraphs = rng.choice(pages)
        text = chunk(rng, paragraphs, rng.randrange(500, 2200))
        if rng.random() < 0.4:
            text += "\n" + chunk(rng, rng.choice(pages)[1], rng.randrange(300, 800))
        yield "text question", f"{text}\n{rng.choice(_PHRASE_ASKS).format(phrase(rng, text, title))}", True


def questions(rng):
    by_kind = {}
    for kind, name in names():
        by_kind.setdefault(kind, []).append(name)
    asks = {"person": _PERSON_ASKS, "place": _PLACE_ASKS, "thing": _NOUN_ASKS}
    while by_kind:
        kind = rng.choice([kind for kind in ("person", "place", "thing") if kind in by_kind])
        yield "name", rng.choice(asks[kind]).format(rng.choice(by_kind[kind]), rng.choice(by_kind[kind])), True


def translations(rng):
    sentences = {name: list(fortunes(code)) for name, code in (("German", "de"), ("Spanish", "es"))}
    sentences = {name: found for name, found in sentences.items() if found}
    while sentences:
        name = "German" if "German" in sentences and rng.random() < 0.8 else rng.choice(sorted(sentences))
        ask = rng.choice(("Translate {} to English: {}", "Translate {} to English: {}", "Translate from {} to English: {}",
                          "Translate this {} sentence into English.\n\n{}"))
        yield "translation of text", ask.format(name, rng.choice(sentences[name])), True


def code(rng):
    beginnings = functions()
    while beginnings:
        yield "library code", rng.choice(beginnings), False


_KINDS = ((summaries, 3), (questions_on_texts, 3), (questions, 3), (translations, 3), (code, 2))


def marks(text):
    """What a prompt may not share with one that is kept out: runs of words, and names of functions."""
    words = re.findall(r"\w+", text.lower())
    runs = {tuple(words[i:i + _N_OVERLAP]) for i in range(max(1, len(words) - _N_OVERLAP + 1))}  # a short one whole
    return runs | set(re.findall(r"def (\w+)\(", text))


def prompts(seed, kept_out):
    """Endless, unless there are no texts at all."""
    rng = random.Random(f"{seed} texts")
    running = {kind(random.Random(f"{seed} {kind.__name__}")): weight for kind, weight in _KINDS}
    seen = set()
    n_again = 0
    while running and n_again < 1000:  # as few texts as that are used up
        kind = rng.choices(list(running), list(running.values()))[0]
        found = next(kind, None)
        if found is None:
            del running[kind]
            continue
        n_again += 1
        if found[1] not in seen and not marks(found[1]) & kept_out:
            n_again = 0
            seen.add(found[1])
            yield found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=5000, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep-out", type=pathlib.Path, action="append", default=[], metavar="FILE.jsonl",
                        help="prompts of which nothing may come in; can be repeated")
    options = parser.parse_args()
    kept_out = set()
    for path in options.keep_out:
        for line in path.read_text(encoding="utf-8").splitlines():
            kept_out |= marks(json.loads(line)["prompt"])
    n_written = 0
    for task, text, is_chat in prompts(options.seed, kept_out):
        if n_written == options.prompts:
            break
        print(json.dumps({"prompt": text, "task": task, "chat": is_chat}))
        n_written += 1
    if n_written < options.prompts:
        sys.exit(f"text_prompts.py: {n_written} prompts, then there was no more text")


if __name__ == "__main__":
    main()
