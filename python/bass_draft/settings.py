"""What a folder of results was made with: other settings must not be mixed into it."""

import pathlib
from typing import Any

from bass_draft.errors import UserError
from bass_draft.files import read_json, write_json


def check_settings(path: pathlib.Path, settings: dict[str, Any]) -> None:
    """Notes the settings at the first run; later ones must be equal, else a UserError names what differs."""
    noted = read_json(path)
    if noted is None:
        write_json(path, settings)
        return
    # Through JSON, tuples become lists.
    different = [name for name, value in settings.items() if _plain(value) != noted.get(name)]
    if different:
        raise UserError(f"{path.parent}: was begun with another {' and another '.join(different)}; "
                        "give the same again, or another --work folder")


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return value
