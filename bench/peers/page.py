"""A section of a page of documentation that a program writes."""
import pathlib


class PageError(Exception):
    """The page lacks the marks."""


def replace_section(page, begin, text, end):
    """page: a path. Puts `text` between the lines `begin` and `end`."""
    path = pathlib.Path(page)
    content = path.read_text(encoding="utf-8")
    if content.count(begin) != 1 or content.count(end) != 1:
        raise PageError(f"{page}: needs the lines {begin} and {end}, once each")
    before, rest = content.split(begin)
    _, after = rest.split(end)
    path.write_text(f"{before}{begin}\n{text}{end}{after}", encoding="utf-8")
