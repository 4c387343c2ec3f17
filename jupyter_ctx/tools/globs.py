"""Globs as regular expressions: `*`, `?`, `[a-z]`, `**` across folders, `{a,b}` for either.

Standard library only: `walk_child.py` loads it into a process of its own.
"""

import re

_WILD = re.compile(r"[*?\[{]")


def is_wild(part: str) -> bool:
    """Whether a part of a glob means more than one name."""
    return _WILD.search(part) is not None


def to_regex(glob: str, *, braces: bool = True) -> str:
    """Return the expression that matches, whole, the paths that `glob` means.

    Total: brackets that do not close stand for themselves.
    """
    out: list[str] = []
    depth = at = 0
    while at < len(glob):
        char = glob[at]
        rest = glob[at:]
        step = 1
        if rest.startswith("**/") and (at == 0 or glob[at - 1] == "/"):
            out.append("(?:.*/)?")
            step = 3
        elif char == "*":
            step = len(rest) - len(rest.lstrip("*"))
            ends = rest[step:] == "" and (at == 0 or glob[at - 1] == "/")
            out.append(".*" if step > 1 and ends else "[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[" and (found := re.match(r"\[([!^]?)(\]?[^\]/]*)\]", rest)):
            step = found.end()
            out.append(_class(found[1], found[2]))
        elif braces and char == "{" and "}" in rest:
            out.append("(?:")
            depth += 1
        elif depth and char in ",}":
            out.append("|" if char == "," else ")")
            depth -= char == "}"
        elif char == "\\" and len(rest) > 1:
            out.append(re.escape(rest[1]))
            step = 2
        else:
            out.append(re.escape(char))
        at += step
    return "".join(out) + ")" * depth


def _class(negation: str, members: str) -> str:
    escaped = re.sub(r"([\\\[\]^&~|])", r"\\\1", members)
    try:
        re.compile(f"[{escaped}]")
    except re.error:  # a range that is upside down means nothing
        return "(?!)"
    return f"[^/{escaped}]" if negation else f"(?!/)[{escaped}]"
