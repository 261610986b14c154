"""Renders chat templates of our own with transformers' own function (jinja2 with its settings): README.md.

What Jinja refuses is an error in the record, with the message where the template itself raised it.
"""

import argparse
import datetime
import pathlib
from importlib.metadata import version

import jinja2
from transformers.utils import chat_template_utils

import chat_templates
import golden_common as common

NOW = datetime.datetime(2026, 1, 5, 9, 3, 7)
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
MAX_FILE_BYTES = 600_000


class FixedDate(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def outcome(render):
    try:
        return {"text": render()}
    except jinja2.TemplateError as error:
        return {"error": error.message if type(error) is jinja2.TemplateError else ""}  # raise_exception's own class
    except (TypeError, ValueError, KeyError, IndexError, ArithmeticError, AttributeError, SyntaxError):
        return {"error": ""}


def render_chat(template, conversation):
    arguments = {"add_generation_prompt": True, "tools": None, "documents": None, **SPECIAL_TOKENS, **conversation}
    messages = arguments.pop("messages")
    rendered, _ = chat_template_utils.render_jinja_template([messages], chat_template=template, **arguments)
    return rendered[0]


def render_snippet(source):
    # The function that transformers compiles chat templates with: the same environment.
    return chat_template_utils._compile_jinja_template(source).render(**chat_templates.SNIPPET_VARIABLES)


def write_corpus(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in chat_templates.TEMPLATES.items():
        (folder / name).write_text(source, encoding="utf-8")
    plain = [source for source in chat_templates.SNIPPETS if "text" in outcome(lambda: render_snippet(source))]
    (folder / "snippets").write_text("\n".join(plain[:60]), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--corpus", type=pathlib.Path, help="folder that gets the templates as seeds of the fuzz target")
    args = parser.parse_args()
    if args.corpus:
        write_corpus(args.corpus)
    chat_template_utils.datetime = FixedDate
    conversations = chat_templates.CONVERSATIONS
    templates = [{"name": name, "source": source,
                  "outcomes": [outcome(lambda: render_chat(source, chat)) for chat in conversations.values()]}
                 for name, source in chat_templates.TEMPLATES.items()]
    snippets = [{"source": source, **outcome(lambda: render_snippet(source))} for source in chat_templates.SNIPPETS]
    head = {"versions": {name: version(name) for name in ("jinja2", "transformers")},
            "now": [NOW.year, NOW.month, NOW.day, NOW.hour, NOW.minute, NOW.second],
            "special_tokens": SPECIAL_TOKENS, "snippet_variables": chat_templates.SNIPPET_VARIABLES}
    n_bytes = common.write_json(args.out, head, {
        "conversations": [{"name": name, **chat} for name, chat in conversations.items()], "templates": templates,
        "snippets": snippets})
    outcomes = [record for template in templates for record in template["outcomes"]]
    print(f"{args.out.name}: {n_bytes} bytes, {len(templates)} templates, {len(outcomes)} chats of which "
          f"{sum('error' in record for record in outcomes)} are refused, {len(snippets)} snippets of which "
          f"{sum('error' in record for record in snippets)} are")
    assert n_bytes < MAX_FILE_BYTES


if __name__ == "__main__":
    main()
