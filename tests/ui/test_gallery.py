"""The panel's view in a real browser, without JupyterLab: audited, narrow, steady."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from .gallery import FRONT, STATES, THEME_NAMES, open_scene, serve_gallery

AXE = FRONT / "node_modules" / "axe-core" / "axe.min.js"
INERT_MS = 500


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the built gallery."""
    with serve_gallery(tmp_path_factory.mktemp("gallery") / "page") as url:
        yield url


@pytest.mark.parametrize("theme", THEME_NAMES)
@pytest.mark.parametrize("state", STATES)
def test_nothing_for_axe(browser: Browser, gallery: str, state: str, theme: str) -> None:
    """No state of the panel breaks a rule of accessibility, in either theme.

    Left out is what the panel cannot decide: the page around it, and Lab's own colours of code.
    """
    scene, act, height_px = STATES[state]
    with open_scene(browser, gallery, scene, theme, 320, height_px) as page:
        act(page)
        page.add_script_tag(path=AXE)
        found = page.evaluate(
            """async () => (await axe.run(
                {include: ['.jctx-panel'], exclude: [['[class^="jctx-tok-"]']]},
                {rules: {region: {enabled: false}}}
            )).violations.map(({id, nodes}) => [id, nodes.map(one => one.html.slice(0, 160))])"""
        )
        assert found == []


@pytest.mark.parametrize("state", STATES)
def test_nothing_is_wider_than_the_panel(browser: Browser, gallery: str, state: str) -> None:
    """In Lab's narrowest side panel, 250 px wide, no button lies outside, nothing scrolls aside."""
    scene, act, height_px = STATES[state]
    with open_scene(browser, gallery, scene, "light", 250, height_px) as page:
        act(page)
        wide = page.evaluate(
            """() => [...document.querySelectorAll('.jctx-panel, .jctx-log, .jctx-panel button')]
                .filter(node => node.getClientRects().length > 0)
                .filter(node => node.getBoundingClientRect().right > 250.5
                    || node.matches('.jctx-log') && node.scrollWidth > node.clientWidth)
                .map(node => node.className + ' ' + node.textContent.slice(0, 40))"""
        )
        assert wide == []


def test_no_word_of_a_table_is_broken(browser: Browser, gallery: str) -> None:
    """In the narrowest panel a table of many columns keeps its words whole and is scrolled."""
    with open_scene(browser, gallery, "finished", "light", 250, 620) as page:
        heights, is_scrolled, is_wide = page.evaluate(
            """() => {
                const where = document.querySelector('.jctx-answer .jctx-md');
                const words = ['Instructions', 'PreToolUse', 'Notebook', 'Waiting', 'Session'];
                const row = words.map(word => `<td>${word}</td>`).join('');
                where.innerHTML = `<table><tbody><tr>${row}</tr></tbody></table>`;
                const table = where.firstChild;
                const log = document.querySelector('.jctx-log');
                return [
                    [...table.querySelectorAll('td')].map(cell => cell.clientHeight),
                    table.scrollWidth > table.clientWidth,
                    log.scrollWidth > log.clientWidth
                ];
            }"""
        )
        assert max(heights) < 30
        assert is_scrolled
        assert not is_wide


def test_an_early_key_answers_nothing(browser: Browser, gallery: str) -> None:
    """A key pressed as the question appears is lost; one pressed later is the answer."""
    with open_scene(browser, gallery, "waiting", "light", 480, 620) as page:
        ask = page.locator(".jctx-ask")
        ask.focus()
        page.keyboard.press("y")
        assert decisions(page) == 0
        page.wait_for_timeout(INERT_MS + 100)
        page.keyboard.press("y")
        assert decisions(page) == 1


def test_a_script_cannot_allow(browser: Browser, gallery: str) -> None:
    """A click that a script makes on Allow is no answer, however late; a person's is."""
    with open_scene(browser, gallery, "waiting", "light", 480, 620) as page:
        allow = page.get_by_role("button", name="Allow once")
        page.wait_for_timeout(INERT_MS + 100)
        allow.evaluate("node => node.click()")
        allow.dispatch_event("click")
        assert decisions(page) == 0
        allow.click()
        assert decisions(page) == 1


def test_the_end_is_followed_until_the_reader_leaves_it(browser: Browser, gallery: str) -> None:
    """A conversation longer than the panel opens at its end; scrolled up, it stays where it is."""
    with open_scene(browser, gallery, "writing", "light", 320, 420) as page:
        log = page.locator(".jctx-log")
        from_end = "node => node.scrollHeight - node.scrollTop - node.clientHeight"
        assert log.evaluate(from_end) <= 1
        log.hover()
        page.mouse.wheel(0, -200)
        expect(log).not_to_have_js_property("scrollTop", log.evaluate("node => node.scrollHeight"))
        page.wait_for_function(f"() => ({from_end})(document.querySelector('.jctx-log')) >= 150")


def test_nothing_moves_while_an_answer_streams(browser: Browser, gallery: str) -> None:
    """2,000 deltas arrive whole, and no layout shifts while they do."""
    with open_scene(browser, gallery, "writing", "light", 320, 620) as page:
        page.evaluate(
            """() => {
                window.shifts = [];
                new PerformanceObserver(list => window.shifts.push(...list.getEntries().map(
                    ({value, sources}) => [value, sources.map(({node}) => node?.className)]
                ))).observe({type: 'layout-shift'});
            }"""
        )
        page.evaluate("window.stream(2000)")
        expect(page.locator(".jctx-answer").last).to_contain_text("word 1999 ends.")
        assert page.locator(".jctx-answer").last.inner_text().count("word ") == 2000
        assert page.evaluate("window.shifts") == []


def decisions(page: Page) -> int:
    """Return how often the view has answered."""
    return int(page.evaluate("window.sceneCalls.filter(({op}) => op === 'decide').length"))
