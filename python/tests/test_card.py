"""A draft's card gets its figures from the reports of `bass-draft eval`."""

import json

from conftest import PACKAGE

from bass_draft.card import BEGIN, END, main, table


def figures(first):
    return {"acceptance": [first, 0.5], "tokens_per_round": 1 + first, "rows": 120}


def report(path, tasks):
    kinds = {f"temperature_{kind}": {task: figures(first + 0.1 * (kind == 0)) for task, first in tasks.items()}
             for kind in (1, 0)}
    path.write_text(json.dumps({"draft": "d.gguf", "model": "m", "prompts": f"some/{path.stem}.jsonl", **kinds}))
    return path


def test_a_row_a_task_and_all_at_the_end(tmp_path):
    path = report(tmp_path / "prompts.json", {"all": 0.6, "chat": 0.55, "code": 0.71})
    rows = table([json.loads(path.read_text())]).splitlines()[2:]
    assert rows[0] == "| prompts.jsonl | chat | 120 | 0.55 0.50 | 1.55 | 0.65 0.50 | 1.65 |"
    assert [row.split(" | ")[1] for row in rows] == ["chat", "code", "all"]


def test_the_table_stands_between_the_marks(tmp_path):
    card = tmp_path / "card.md"
    card.write_text(f"before\n{BEGIN}old\n{END}after\n")
    reports = [report(tmp_path / f"{name}.json", {"all": 0.6, "code": 0.6}) for name in ("one", "two")]
    for _ in range(2):
        assert main([str(card), *map(str, reports)]) == 0
        text = card.read_text()
        assert text.startswith(f"before\n{BEGIN}| prompts |") and text.endswith(f"{END}after\n") and "old" not in text
        assert text.count("| code |") == 2 and "| all |" not in text


def test_mistakes_leave_the_card_as_it_was(tmp_path, capsys):
    card, good, bad = tmp_path / "card.md", report(tmp_path / "good.json", {"all": 0.6}), tmp_path / "bad.json"
    bad.write_text('{"temperature_1": {"all": 3}}')
    card.write_text(f"{BEGIN}{END}")
    assert main([str(card), str(good), str(bad)]) == 2 and "bad.json: is no report" in capsys.readouterr().err
    assert card.read_text() == f"{BEGIN}{END}"
    card.write_text("no marks\n")
    assert main([str(card), str(good)]) == 2 and END in capsys.readouterr().err
    assert main([str(card), str(tmp_path / "none.json")]) == 2 and "none.json" in capsys.readouterr().err


def test_the_shipped_cards_have_a_place_for_it():
    cards = list((PACKAGE.parent / "models").glob("*.md"))
    assert cards and all(card.read_text().count(BEGIN) == card.read_text().count(END) == 1 for card in cards)
