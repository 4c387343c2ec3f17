/** @vitest-environment happy-dom */

import { describe, expect, it } from 'vitest';

import { readMath, restoreMath } from '../lab/math';

/** Return what stands in a page, with TeX in brackets, as if Markdown changed nothing. */
function shown(markdown: string): string {
  const read = readMath(markdown);
  const page = document.createElement('div');
  page.textContent = read.markdown;
  const formulas = new Set(restoreMath(page, read));
  return [...page.childNodes]
    .map(node => (formulas.has(node as HTMLElement) ? `[${node.textContent}]` : node.textContent))
    .join('');
}

describe('TeX in an answer', () => {
  it.each([
    ['It costs $5, or $6 a month.', 'It costs $5, or $6 a month.'],
    ['between $5 and $6', 'between $5 and $6'],
    ['$a$ is $5', '[$a$] is $5'],
    ['\\\\$0 in, \\$1 out', '$0 in, $1 out'],
    ['a $x^2 + y$ b', 'a [$x^2 + y$] b'],
    ['$$\nx_i\n$$', '[$$x_i$$]'],
    ['\\begin{align}a &= b\\end{align}', '[$$\\begin{align}a &= b\\end{align}$$]'],
    ['`echo $HOME $PATH` and `$x$`', '`echo $HOME $PATH` and `$x$`'],
    ['```\n$x$\n```', '```\n$x$\n```'],
    ['~~~\n$x$\n~~~', '~~~\n$x$\n~~~'],
    ['[a](b?$x$) https://c/?$d$', '[a](b?$x$) https://c/?$d$'],
    ['$ x $ and $', '$ x $ and $'],
    ['$x', '$x'],
    ['$$x', '$$x'],
    ['${a$}', '${a$}'],
    ['a\ufdd0b\ufdd10\ufdd2c', 'ab0c'],
    ['\\\\\\$x', '\\\\$x']
  ])('%j is shown as %j', (markdown, page) => {
    expect(shown(markdown)).toBe(page);
  });

  it.each(['href', 'class', 'style', 'require', 'htmlId', 'def', 'newcommand'])(
    'has no active macro: %s',
    name => {
      expect(shown(`$\\${name}{javascript:alert(1)}{x}$`)).toBe(
        `[$\\text{${name}}{javascript:alert(1)}{x}$]`
      );
    }
  );

  it('is text where Markdown made code of it', () => {
    const read = readMath('$x$');
    const page = document.createElement('div');
    page.append(document.createElement('code'));
    (page.firstChild as HTMLElement).textContent = read.markdown;
    expect(restoreMath(page, read)).toEqual([]);
    expect(page.textContent).toBe('$x$');
  });

  it('is found in time that grows with the text', () => {
    for (const hostile of ['$', '$a', '`', '\\', '$$a', '\\begin{a}', '~~~\n', '](', '$\\{']) {
      expect(readMath(hostile.repeat(20_000)).formulas.length).toBeLessThan(20_001);
    }
  });
});
