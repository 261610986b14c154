"""What a folder of results was made with: other settings must not be mixed into it."""

import pathlib
from typing import Any

from bass_draft.errors import UserError
from bass_draft.files import read_json, write_json


def compare_settings(path: pathlib.Path, settings: dict[str, Any], is_begun: bool = True,
                     n_used: dict[str, int] | None = None) -> None:
    """Settings must be those that were noted (but for what was not noted then), else a UserError names what differs. Nothing is
    written: the folder may be somebody else's. is_begun: there are results that the noted ones have made. n_used: how much of a
    list these have used; behind that it may differ."""
    noted = read_json(path)
    if noted is None or not is_begun:
        return
    if not isinstance(noted, dict) or not noted.keys() & settings.keys():
        raise UserError(f"{path}: does not say what the folder was begun with; if it was the same options, delete that file, "
                        "else give another --work folder")
    n_used = n_used or {}
    part = lambda name, value: value[:n_used[name]] if name in n_used and isinstance(value, list) else value
    # Through JSON, tuples become lists.
    different = [name for name, value in settings.items()
                 if name in noted and part(name, _plain(value)) != part(name, noted[name])]
    if different:
        raise UserError(f"{path.parent}: was begun with another {' and another '.join(different)}; "
                        "give the same again, or another --work folder")


def note_settings(path: pathlib.Path, settings: dict[str, Any], is_begun: bool = True,
                  n_used: dict[str, int] | None = None) -> None:
    """compare_settings(), and they are noted. For who has the folder's lock."""
    compare_settings(path, settings, is_begun, n_used)
    if _plain(settings) != read_json(path):
        write_json(path, settings)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return value
