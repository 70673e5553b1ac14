"""The page as files for a server, and as one file that needs nothing else.

The modules in static/ are plain ES modules that a browser loads one by one. A file that is opened from disk may not
load others, so that there each module becomes a function in one script, in the order of their imports, and nothing is
rewritten but its import and export lines. Knows the files of static/, and not what they do.
"""

import base64
import gzip
import hashlib
import re
from importlib.resources import files

FIRST = "main.js"
MEDIA = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+\.js)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) ?\*? ?(\w+))", re.MULTILINE)
_STYLE = '<link rel="stylesheet" href="static/style.css" />'
_SCRIPT = '<script type="module" src="static/main.js"></script>'


def static_names() -> list[str]:
    """Return the names of the files that a server may give away."""
    there = files("fastif.web").joinpath("static").iterdir()
    return sorted(each.name for each in there if any(each.name.endswith(end) for end in MEDIA))


def static_text(name: str) -> str:
    """Return one of these files."""
    if name not in static_names():
        raise KeyError(name)
    return files("fastif.web").joinpath("static", name).read_text(encoding="utf-8")


def single_file(payload: bytes) -> str:
    """Return the whole page as one HTML text, with its data in it.

    Its policy allows this very script and style, by their hashes, and no connection to anywhere.
    """
    style, script = static_text("style.css"), joined_script()
    allowed = {"script-src": _hash(script), "style-src": _hash(style), "img-src": "data: blob:"}
    policy = "; ".join(
        ["default-src 'none'", *(f"{name} {value}" for name, value in allowed.items()), "base-uri 'none'"]
    )
    data = base64.b64encode(gzip.compress(payload, compresslevel=6, mtime=0)).decode()
    page = static_text("index.html")
    page = page.replace("<head>", f'<head>\n<meta http-equiv="Content-Security-Policy" content="{policy}" />', 1)
    page = page.replace(_STYLE, f"<style>{style}</style>", 1)
    embedded = f'<script type="application/octet-stream" id="payload">{data}</script>\n'
    return page.replace(_SCRIPT, f'{embedded}<script type="module">{script}</script>', 1)


def joined_script() -> str:
    """Return all modules as one script."""
    order: list[str] = []
    _visit(FIRST, order, ())
    script = "\n".join(_as_function(name) for name in order)
    if "</script" in script.lower() or "<!--" in script:
        raise ValueError("a module holds words that would end a script in a page")
    return script


def _visit(name: str, order: list[str], above: tuple[str, ...]) -> None:
    if name in above:
        raise ValueError(f"the modules import each other in a circle: {' > '.join((*above, name))}")
    if name in order:
        return
    for _, other in _IMPORT.findall(static_text(name)):
        _visit(other, order, (*above, name))
    order.append(name)


def _as_function(name: str) -> str:
    text = static_text(name)
    text = _IMPORT.sub(lambda found: f"const {{{found[1].replace(' as ', ': ')}}} = {_variable(found[2])};", text)
    exported = _EXPORT.findall(text)
    text = _EXPORT.sub("", text)
    left = re.search(r"^(import|export)\b.*$", text, re.MULTILINE)
    if left is not None:
        raise ValueError(f"{name} has a line that cannot be joined: {left[0]}")
    return f"const {_variable(name)} = (() => {{\n{text}\nreturn {{ {', '.join(exported)} }};\n}})();"


def _variable(name: str) -> str:
    return "module_" + name.removesuffix(".js").replace("-", "_")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
