"""A page of the docs that is a table: a command that makes some of its rows replaces the old ones."""

import re
from pathlib import Path


def put_rows(page: Path, head: str, rows: dict[str, str], order: list[str]) -> None:
    """Writes the page: what precedes the table and its first two lines, then a row for each name that has one, in this order. A row
    begins with its name; those that are not among `rows` stay."""
    old = page.read_text().splitlines() if page.exists() else []
    known = {match[1]: line for line in old if (match := re.match(r"\| (\S+) \|", line))}
    merged = {**known, **rows}
    page.write_text(head + "".join(f"{merged[name]}\n" for name in order if name in merged))
    print(f"{page.name} is written", flush=True)
