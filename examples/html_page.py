"""A report that is printed while it grows and kept as one HTML page, pictures included. Knows nothing of influence."""

import base64
import io
from html import escape
from pathlib import Path

from matplotlib.figure import Figure

Table = list[list[str]]  # the first row holds the headings

STYLE = """
body { font: 17px/1.5 system-ui, sans-serif; color: #222; max-width: 64rem; margin: 2rem auto; padding: 0 1rem }
img { width: 100%; margin: 1rem 0 }
pre { white-space: pre-wrap; font-size: 14px; line-height: 1.35; background: #f6f6f6; padding: 1rem }
table { border-collapse: collapse }
th, td { padding: .2rem 2rem .2rem 0; text-align: left; border-bottom: 1px solid #ccc }
"""


class Page:
    """Each call prints its text and adds it to the page; `write` saves the page as `index.html` in the folder."""

    def __init__(self, title: str, folder: Path) -> None:
        self.title = title
        self.folder = folder
        self.files: list[Path] = []
        self._parts = [f"<h1>{escape(title)}</h1>"]
        folder.mkdir(parents=True, exist_ok=True)

    def heading(self, text: str) -> None:
        self._add(f"\n{text}\n{'-' * len(text)}", f"<h2>{escape(text)}</h2>")

    def say(self, text: str) -> None:
        self._add(text, f"<p>{escape(text)}</p>")

    def verbatim(self, text: str) -> None:
        self._add(text, f"<pre>{escape(text)}</pre>")

    def table(self, table: Table) -> None:
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        text = "\n".join("  " + "   ".join(map(str.ljust, row, widths)).rstrip() for row in table)
        html = ""
        for number, row in enumerate(table):
            tag = "td" if number else "th"
            html += "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>"
        self._add(text, f"<table>{html}</table>")

    def picture(self, name: str, figure: Figure, description: str) -> None:
        """Save the picture as a file of its own, and put it into the page."""
        image = io.BytesIO()
        figure.savefig(image, format="png", dpi=110)
        data = base64.b64encode(image.getvalue()).decode()
        self._parts.append(f'<img alt="{escape(description)}" src="data:image/png;base64,{data}">')
        self.files.append(self.folder / name)
        self.files[-1].write_bytes(image.getvalue())

    def write(self) -> None:
        """Save the page, and print where everything is."""
        head = f'<meta charset="utf-8"><title>{escape(self.title)}</title><style>{STYLE}</style>'
        body = "\n".join(self._parts)
        index = self.folder / "index.html"
        index.write_text(f'<!DOCTYPE html><html lang="en"><head>{head}</head><body>{body}</body></html>\n', "utf-8")
        print("\nLook at", *(f"  {file}" for file in (index, *self.files)), sep="\n")

    def _add(self, text: str, html: str) -> None:
        print(text, flush=True)
        self._parts.append(html)
