"""The schema of what `bass generate --json` prints."""
import json
import pathlib

import jsonschema

SCHEMA = json.loads((pathlib.Path(__file__).parent / "generate.schema.json").read_text())


def check_schema(result):
    jsonschema.validate(result, SCHEMA, cls=jsonschema.Draft202012Validator)
