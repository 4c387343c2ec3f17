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
    ['a\ufdd0b\ufdd10\ufdd2c\ufdd3d\ufdd4', 'ab0cd'],
    ['```\n$x$', '```\n$x$'],
    ['[a](<b $x$>) [c](d(e$x$)f$y$)', '[a](<b $x$>) [c](d(e$x$)f$y$)'],
    ['www.a.com/$x$', 'www.a.com/$x$'],
    ['\\\\\\$x', '\\\\$x']
  ])('%j is shown as %j', (markdown, page) => {
    expect(shown(markdown)).toBe(page);
  });

  it.each([
    'href',
    'class',
    'style',
    'require',
    'htmlId',
    'def',
    'newcommand',
    'definecolor',
    'mathtoolsset'
  ])('has no active macro: %s', name => {
    expect(shown(`$\\${name}{javascript:alert(1)}{x}$`)).toBe(
      `[$\\text{${name}}{javascript:alert(1)}{x}$]`
    );
  });

  it.each(['$x$', '$a < df$b', '$a\n  b$', '\\$HOME \\\\$x', '$\\def\\a{}$', '$a % b\n$'])(
    'is text, letter by letter, where Markdown made code of it: %j',
    source => {
      const read = readMath(source);
      const page = document.createElement('div');
      page.append(document.createElement('code'));
      (page.firstChild as HTMLElement).textContent = read.markdown;
      expect(restoreMath(page, read)).toEqual([]);
      expect(page.textContent).toBe(source);
    }
  );

  it('leaves no mark in attributes, and keeps those written as they must be', () => {
    const read = readMath('$a"<b$ \\$5 \\begin{a}.b\\end{a}');
    const page = document.createElement('div');
    page.append(document.createElement('a'));
    const link = page.firstChild as HTMLElement;
    link.title = read.markdown;
    link.setAttribute('href', `/${encodeURI(read.markdown)}`);
    link.setAttribute('data-commandlinker-args', JSON.stringify({ path: read.markdown }));
    restoreMath(page, read);
    const text = '$a"<b$ $5 \\begin{a}.b\\end{a}';
    expect(link.title).toBe(text);
    expect(link.getAttribute('href')).toBe(`/${encodeURI(text)}`);
    expect(link.getAttribute('data-commandlinker-args')).toBe(JSON.stringify({ path: text }));
  });

  it.each(['https://a/?q=$x **b** https://c/?q=$y', '```\n$x\n```\n[a](b$y)', '`$a` or $b'])(
    'leaves no dollar to pair: %j',
    text => {
      expect(readMath(text).markdown).not.toContain('$');
    }
  );

  it('puts back however many', () => {
    const many = '$x$ '.repeat(50_000);
    const read = readMath(many);
    const page = document.createElement('div');
    page.append(document.createElement('code'));
    (page.firstChild as HTMLElement).textContent = read.markdown;
    restoreMath(page, read);
    expect(page.textContent).toBe(many);
  });

  it('is found in time that grows with the text', () => {
    for (const hostile of [
      '$',
      '$a',
      '`',
      '\\',
      '$$a',
      '\\begin{a}',
      '~~~\n',
      '](',
      '$\\{',
      '~',
      '](a'
    ]) {
      expect(readMath(hostile.repeat(20_000)).formulas.length).toBeLessThan(20_001);
    }
  });
});
