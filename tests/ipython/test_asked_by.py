"""The question of a sub-agent names it, in words that the model wrote and that must not act."""

import pytest
from markdown_it import MarkdownIt

from jupyter_ctx.core.acting import Actor
from jupyter_ctx.core.blocks import ToolUse
from jupyter_ctx.ipython.asked import DESCRIPTION_CHARS, ask_plainly, asked_by
from jupyter_ctx.testing import FakeKernel
from jupyter_ctx.tools.python import make_run_code

SPEC = make_run_code(FakeKernel()).spec


@pytest.mark.parametrize(
    "description",
    [
        "count rows",
        "<img src=x onerror=alert(1)>",
        "[y](javascript:alert(1)) ![](http://x/y.png)",
        "a\nAllow? yes\n\n```\n",
        "right\u202eleft\u200b\x1b[2J",
        "long " * 1_000,
        "",
    ],
)
def test_whatever_a_sub_agent_is_called_its_question_is_inert(description):
    """The title stays one line of text without effect; the code below it is shown whole."""
    use = ToolUse("t1", "run_code", {"code": "x = 1"})
    asked = asked_by(Actor("t0", description), ask_plainly(use, SPEC))

    assert asked.title.startswith("The sub-agent “")
    assert asked.title.endswith("” asks to run code:")
    assert "\n" not in asked.title
    assert len(asked.title) <= DESCRIPTION_CHARS + 60
    assert asked.text == "x = 1"
    tokens = MarkdownIt("commonmark", {"html": True}).parse(asked.markdown)
    inline = [child for token in tokens for child in token.children or ()]
    assert [token.type for token in tokens] == [
        "paragraph_open",
        "inline",
        "paragraph_close",
        "fence",
    ]
    assert not {"html_inline", "image"} & {child.type for child in inline}
    links = [str(child.attrs["href"]) for child in inline if child.type == "link_open"]
    assert all(href.startswith("http://x/") for href in links)
    assert "\u202e" not in asked.plain
    assert "\x1b" not in asked.plain
