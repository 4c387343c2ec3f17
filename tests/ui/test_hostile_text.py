"""Hostile text of a model in a cell that was just run, whose Markdown JupyterLab trusts."""

from __future__ import annotations

import json

from ..ipython.hostile import HOSTILE, ONERROR
from .conftest import PageFor
from .server import LabServer

SHOW = """
import json
from jupyter_ctx.ipython.markdown import safe_markdown
for text in json.loads({texts!r}):
    display({{"text/markdown": safe_markdown(text), "text/plain": text}}, raw=True)
display({{"text/markdown": "# The end\\n\\n$x^2$", "text/plain": ""}}, raw=True)
"""
SHOWN = 40
"""JupyterLab draws the first 50 outputs of a cell only."""

RAW = "display({{'text/markdown': {raw!r}, 'text/plain': ''}}, raw=True)"

# What acts: elements that load or run something, handlers, links of other schemes. MathJax's own
# elements carry styles and classes; links and handlers are looked for inside them too.
FIND = """area => {
  const found = [];
  const bad = 'script,img,iframe,object,embed,form,input:not([type=checkbox]),button,style,link,'
    + 'base,meta,video,audio,details';
  for (const one of area.querySelectorAll(bad)) {
    if (!one.closest('.jp-Cell-inputWrapper') && !one.closest('.jp-mod-copy, .jp-OutputPrompt')) {
      found.push(one.outerHTML.slice(0, 200));
    }
  }
  for (const one of area.querySelectorAll('*')) {
    for (const attribute of one.attributes) {
      if (/^on/i.test(attribute.name)) {
        found.push(one.outerHTML.slice(0, 200));
      }
    }
  }
  for (const one of area.querySelectorAll('a')) {
    for (const name of ['href', 'xlink:href']) {
      const target = one.getAttribute(name);
      if (target && !/^(https?:|mailto:|#|\\/(lab|tree))/i.test(target)) {
        found.push(one.outerHTML.slice(0, 200));
      }
    }
  }
  return found;
}"""


def test_hostile_text_is_inert(lab: LabServer, page_for: PageFor) -> None:
    """No payload runs a script, loads anything or leaves an element that could."""
    parts = [HOSTILE[at : at + SHOWN] for at in range(0, len(HOSTILE), SHOWN)]
    cells = [SHOW.format(texts=json.dumps(part)) for part in parts]
    page = page_for(lab.write_notebook("hostile.ipynb", cells))
    asked: list[str] = []
    page.page.on("request", lambda request: asked.append(request.url))
    for index, part in enumerate(parts):
        assert len(page.run_cell(index)) == len(part) + 1
        area = page.output_area(index)
        area.get_by_role("heading", name="The end").wait_for()
        area.locator("mjx-container").last.wait_for()
        assert area.evaluate(FIND) == []

    assert page.page.evaluate("() => window.pwned") is None
    assert [url for url in asked if "attacker.invalid" in url] == []


def test_the_same_page_would_run_it_raw(lab: LabServer, page_for: PageFor) -> None:
    """Raw, a payload does run in such a cell: so the silence of the other test means something."""
    page = page_for(lab.write_notebook("raw.ipynb", [RAW.format(raw=ONERROR)]))
    page.run_cell(0)

    page.page.wait_for_function("() => window.pwned === 1")
