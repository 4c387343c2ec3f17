import { describe, expect, it } from 'vitest';

import { NOTHING, split } from '../view/blocks';

const WHOLE = [
  'It is the join.\nTwo lines.',
  '',
  '- one',
  '- two',
  '',
  '  of two',
  '',
  '- three',
  '',
  '```python',
  'a = 1',
  '',
  '# ~~~',
  'b = 2',
  '```',
  'Right behind.',
  '',
  '$$',
  'x',
  '',
  'y',
  '$$',
  '',
  '1. first',
  '',
  '2. second',
  '   ```sql',
  '   select 1',
  '   ```',
  '',
  '12 users',
  '',
  '````md',
  '```',
  '````',
  'End'
].join('\n');

describe('split', () => {
  it('finds paragraphs, lists, formulas and code', () => {
    expect(split(WHOLE).blocks.map(({ kind, text, language }) => [kind, language, text])).toEqual([
      ['text', '', 'It is the join.\nTwo lines.'],
      ['text', '', '- one\n- two\n\n  of two\n\n- three'],
      ['code', 'python', 'a = 1\n\n# ~~~\nb = 2'],
      ['text', '', 'Right behind.'],
      ['text', '', '$$\nx\n\ny\n$$'],
      ['text', '', '1. first\n\n2. second\n   ```sql\n   select 1\n   ```'],
      ['text', '', '12 users'],
      ['code', 'md', '```'],
      ['text', '', 'End']
    ]);
  });

  it.each([1, 2, 3, 7, 50])('tells the same however the text comes: by %i', by => {
    let grown = NOTHING;
    for (let at = by; at < WHOLE.length + by; at += by) {
      grown = split(WHOLE.slice(0, at), grown);
      expect(grown.blocks).toEqual(split(WHOLE.slice(0, at)).blocks);
    }
  });

  it('never changes a block that another follows', () => {
    let grown = NOTHING;
    for (let at = 1; at <= WHOLE.length; at += 1) {
      const next = split(WHOLE.slice(0, at), grown);
      const finished = grown.blocks.slice(0, -1);
      expect(next.blocks.slice(0, finished.length)).toEqual(finished);
      grown = next;
    }
  });

  it('keeps an open fence open', () => {
    const [block] = split('```r\nx <- 1\n').blocks;

    expect(block).toMatchObject({ kind: 'code', language: 'r', isClosed: false });
  });

  it('takes a text that is another one anew', () => {
    expect(split('Other.', split(WHOLE)).blocks.map(({ text }) => text)).toEqual(['Other.']);
  });
});
