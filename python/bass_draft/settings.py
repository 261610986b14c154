"""What a folder of results was made with: other settings must not be mixed into it."""

import pathlib
from typing import Any

from bass_draft.errors import UserError
from bass_draft.files import read_json, write_json


def check_settings(path: pathlib.Path, settings: dict[str, Any], is_begun: bool = True,
                   n_used: dict[str, int] | None = None) -> None:
    """Notes the settings at the first run; later ones must be equal (but for what was not noted then), else a UserError names
    what differs. is_begun: there are results that the noted ones have made. n_used: how much of a list these have used; behind
    that it may differ."""
    noted = read_json(path)
    if noted is None or not is_begun:
        write_json(path, settings)
        return
    n_used = n_used or {}
    part = lambda name, value: value[:n_used[name]] if name in n_used else value
    # Through JSON, tuples become lists.
    different = [name for name, value in settings.items()
                 if name in noted and part(name, _plain(value)) != part(name, noted[name])]
    if different:
        raise UserError(f"{path.parent}: was begun with another {' and another '.join(different)}; "
                        "give the same again, or another --work folder")
    if _plain(settings) != noted:
        write_json(path, settings)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return value
