import { describe, expect, it } from 'vitest';

import { EMPTY } from '../conversation';
import type { ITurn } from '../conversation';
import {
  countText,
  countWords,
  diffLines,
  inOrder,
  isAsShown,
  isStill,
  madeEdits,
  makes,
  nextProposals,
  oldNumbers,
  rowHead,
  spelled
} from '../edits';
import type { IProposal } from '../edits';
import type { ICellChange, IQuestion } from '../panel';

const NONE: ICellChange = { op: 'edit', cell_id: null, source: null, cell_type: null, after: null };

const QUESTION: IQuestion = {
  kind: 'question',
  id: 'q1',
  sha256: '',
  turn: 7,
  step: 2,
  tool_use_id: 't1',
  verb: 'edit cells',
  title: 'The agent asks to edit cell a:',
  text: '@@ -1 +1 @@\n-x = 1\n+x = 2',
  info: 'diff',
  cell_id: 'a',
  change: { ...NONE, cell_id: 'a', source: 'x = 2' },
  offers: [],
  coming: [
    { ...NONE, tool_use_id: 't2', cell_id: 'b', source: 'y = 2\r\nz' },
    { ...NONE, tool_use_id: 't3', cell_id: 'a', source: 'x = 3' }
  ],
  at: 0
};

const LIVE: ITurn = {
  kind: 'turn',
  turn: 7,
  prompt: '',
  origin: 'panel',
  cellId: null,
  at: 0,
  attachments: [],
  parts: [],
  step: 2,
  end: null
};

function tool(id: string, cellId: string | null, isUndone = false): ITurn['parts'][number] {
  return {
    kind: 'tool',
    step: 2,
    id,
    name: 'edit_cell',
    input: null,
    label: '',
    output: '',
    result: null,
    tokens: null,
    stored: null,
    edits: [{ cellId, path: null, isUndone }]
  };
}

describe('the diff of a question', () => {
  const before = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'].join('\n');
  const after = ['a', 'B', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k'].join('\n');
  const diff = '@@ -1,5 +1,5 @@\n a\n-b\n+B\n c\n d\n e\n@@ -8,3 +8,4 @@\n h\n i\n j\n+k';

  it('makes the new source of the old one, and of no other', () => {
    expect(makes(diff, before, after)).toBe(true);
    expect(makes(diff, `${before}\n`, after)).toBe(false);
    expect(makes(diff, before.replace('f', 'F'), after)).toBe(false);
    expect(makes(diff, before.replace('b', 'x'), after)).toBe(false);
    expect(makes(diff, before, before)).toBe(false);
    expect(makes(diff, '', after)).toBe(false);
  });

  it('says nothing where there is no change', () => {
    expect(makes('(no change)', 'x', 'x')).toBe(true);
    expect(makes('(no change)', 'x', 'y')).toBe(false);
  });

  it('refuses what is no diff', () => {
    for (const text of ['x = 2', '@@ -9 +9 @@\n+x', '@@ -2 +2 @@\n@@ -1 +1 @@', '']) {
      expect(makes(text, 'x', 'x = 2')).toBe(false);
    }
  });

  it('spells what deceives as the kernel does', () => {
    expect(spelled('a\u200bb\u00a0\t\n\u{e0001}\u0007')).toBe(
      'a\\u200bb\\u00a0\t\n\\U000e0001\\u0007'
    );
    expect(makes('@@ -1 +1 @@\n-a\\u200b\n+b\\u202e', 'a\u200b', 'b\u202e')).toBe(true);
  });
});

describe('the lines that differ', () => {
  it('are counted and numbered as they are drawn', () => {
    const lines = diffLines('one\ntwo\nthree', 'one\nTWO\n2b\nthree');
    expect(lines).toEqual({ removed: [2], added: [2, 3] });
    expect(countText(lines)).toBe('+2 −1');
    expect(countWords(lines)).toBe('2 lines added, 1 removed');
    expect(oldNumbers(lines, 4)).toEqual([1, null, null, 3]);
  });

  it('are only those that are put in, or taken out, at the end', () => {
    expect(diffLines('z = 3', 'z = 3\nw = 4')).toEqual({ removed: [], added: [2] });
    expect(diffLines('z = 3\nw = 4', 'z = 3')).toEqual({ removed: [2], added: [] });
  });

  it('are none where nothing differs', () => {
    expect(diffLines('x', 'x')).toEqual({ removed: [], added: [] });
    expect(oldNumbers(diffLines('', ''), 1)).toEqual([1]);
  });

  it('have heads of one width', () => {
    expect(rowHead(9, null, '−', 2)).toBe(' 9    −');
    expect(rowHead(null, 10, '+', 2)).toBe('   10 +');
    expect(rowHead(9, 10, ' ', 2)).toBe(' 9 10  ');
  });
});

describe('what is proposed', () => {
  const asked = nextProposals([], { question: QUESTION, live: LIVE });

  it('is the question and the edits behind it, one for a cell', () => {
    expect(asked.map(({ toolUseId, cellId }) => [toolUseId, cellId])).toEqual([
      ['t1', 'a'],
      ['t2', 'b']
    ]);
    expect(asked.map(({ question }) => question?.id ?? null)).toEqual(['q1', null]);
  });

  it('stays between two questions of a step', () => {
    const between = nextProposals(asked, { question: null, live: LIVE });
    expect(between.map(({ toolUseId }) => toolUseId)).toEqual(['t2']);
    const running = { ...LIVE, parts: [tool('t1', 'a')] };
    expect(nextProposals(between, { question: null, live: running })).toBe(between);
    const next = { ...QUESTION, id: 'q2', tool_use_id: 't2', cell_id: 'b', coming: [] };
    const then = nextProposals(between, { question: next, live: running });
    expect(then.map(({ question }) => question?.id)).toEqual(['q2']);
  });

  it('goes with its call, its step and its turn', () => {
    const called = { ...LIVE, parts: [tool('t2', null)] };
    expect(nextProposals(asked, { question: null, live: called })).toEqual([]);
    expect(nextProposals(asked, { question: null, live: { ...LIVE, step: 3 } })).toEqual([]);
    expect(nextProposals(asked, { question: null, live: null })).toEqual([]);
  });

  it('is nothing where something else is asked', () => {
    const bad = { ...NONE, cell_id: 'a' };
    for (const change of [
      null,
      NONE,
      bad,
      { ...bad, op: 'insert' },
      { ...bad, op: 'move', after: 'a' }
    ]) {
      const question = { ...QUESTION, change: change as ICellChange | null };
      expect(nextProposals([], { question, live: LIVE })).toEqual([]);
    }
  });
});

function changes(...given: (Partial<ICellChange> & { op: ICellChange['op'] })[]) {
  const [first, ...coming] = given.map((one, at) => ({ ...NONE, ...one, tool_use_id: `t${at}` }));
  const question = { ...QUESTION, tool_use_id: 't0', change: first ?? null, coming };
  return nextProposals([], { question, live: LIVE });
}

const toolUses = (found: readonly { readonly toolUseId: string }[]): string[] =>
  found.map(({ toolUseId }) => toolUseId);

const NEW = { op: 'insert', cell_type: 'code', source: 'n' } as const;

describe('a change that is built on an earlier one', () => {
  it('is not shown before that is made', () => {
    const gone = { op: 'delete', cell_id: 'a' } as const;
    const moved = { op: 'move', cell_id: 'a', after: 'c' } as const;
    for (const first of [gone, moved]) {
      const then = [
        { op: 'edit', cell_id: 'a', source: 'x' },
        { ...NEW, after: 'a' },
        { op: 'move', cell_id: 'b', after: 'a' },
        { ...NEW, after: 'b' }
      ] as const;
      expect(toolUses(changes(first, ...then))).toEqual(['t0', 't4']);
    }
  });

  it('is shown where the earlier one leaves its place', () => {
    const edit = { op: 'edit', cell_id: 'a', source: 'x' } as const;
    expect(toolUses(changes(edit, { ...NEW, after: 'a' }, NEW))).toEqual(['t0', 't1', 't2']);
  });
});

describe('the place of a change', () => {
  const ids = ['a', 'b', 'c'];
  const spots = (...given: Parameters<typeof changes>): unknown[] =>
    inOrder(changes(...given), ids).map(({ proposal, spot }) => [
      proposal.toolUseId,
      spot.at,
      spot.cellId
    ]);

  it('is in its cell, at the end of the one above, or at the top', () => {
    const edit = { op: 'edit', cell_id: 'b', source: 'x' } as const;
    const move = { op: 'move', cell_id: 'c' } as const;
    expect(spots(edit, { ...NEW, after: 'a' }, move)).toEqual([
      ['t2', 'top', 'a'],
      ['t1', 'end', 'a'],
      ['t0', 'in', 'b']
    ]);
  });

  it('of two below one cell is above for the later one, at the end below', () => {
    const below = { ...NEW, after: 'c' };
    expect(spots(NEW, below, below, NEW)).toEqual([
      ['t2', 'end', 'c'],
      ['t1', 'end', 'c'],
      ['t0', 'end', 'c'],
      ['t3', 'end', 'c']
    ]);
  });

  it('is the end where its neighbour is gone, and none where its cell is', () => {
    expect(spots({ ...NEW, after: 'z' })).toEqual([['t0', 'end', 'c']]);
    expect(spots({ op: 'delete', cell_id: 'z' })).toEqual([]);
    expect(inOrder(changes(NEW), [])).toEqual([]);
  });
});

describe('what is shown', () => {
  const shows = (text: string, change: Parameters<typeof changes>[0], source: string | null) => {
    const question = { ...QUESTION, text, change: { ...NONE, ...change }, coming: [] };
    const [proposal] = nextProposals([], { question, live: LIVE });
    return proposal && isAsShown(proposal, id => (id === 'a' ? source : null));
  };

  it('of a new cell is the source that is asked about, below a cell that is there', () => {
    const source = 'n\u200b\r\nm';
    expect(shows('n\\u200b\nm', { ...NEW, source, after: 'a' }, '')).toBe(true);
    expect(shows('n\nm', { ...NEW, source, after: 'a' }, '')).toBe(false);
    expect(shows('n\\u200b\nm', { ...NEW, source, after: 'a' }, null)).toBe(false);
    expect(shows('n', NEW, null)).toBe(true);
  });

  it('of a deleted or a moved cell is its source as it stands', () => {
    for (const change of [
      { op: 'delete', cell_id: 'a' },
      { op: 'move', cell_id: 'a' }
    ] as const) {
      expect(shows('x', change, 'x')).toBe(true);
      expect(shows('x', change, 'x\n')).toBe(false);
      expect(shows('x', change, null)).toBe(false);
    }
    expect(shows('x', { op: 'move', cell_id: 'a', after: 'z' }, 'x')).toBe(false);
  });
});

describe('what was made', () => {
  it('is the newest edit of each cell that is not undone', () => {
    const first = { ...LIVE, turn: 1, parts: [tool('t1', 'a'), tool('t2', 'b'), tool('f', null)] };
    const live = { ...LIVE, turn: 2, parts: [tool('t3', 'a'), tool('t4', 'a', true)] };
    const made = madeEdits({ ...EMPTY, log: [first], live });
    expect(
      [...made.values()].map(({ cellId, toolUseId, turn }) => [cellId, toolUseId, turn])
    ).toEqual([
      ['a', 't3', 2],
      ['b', 't2', 1]
    ]);
  });
});

describe('calls of one id', () => {
  const safe = { ...NEW, source: 'safe' } as const;
  const evil = { ...NEW, source: 'evil' } as const;
  const ask = (id: string, change: typeof safe | typeof evil, step = 2): IQuestion => ({
    ...QUESTION,
    id,
    step,
    text: change.source,
    change: { ...NONE, ...change },
    coming: []
  });

  it('are one change in a step: the first', () => {
    const coming = [{ ...NONE, ...evil, tool_use_id: 't1' }];
    const question = { ...ask('q1', safe), coming };
    expect(nextProposals([], { question, live: LIVE })).toMatchObject([{ proposed: 'safe' }]);
  });

  it('are not the same change where anything of it, or its question, is another', () => {
    const only = (question: IQuestion | null): IProposal =>
      nextProposals([], { question, live: LIVE })[0] as IProposal;
    const first = only(ask('q1', safe));
    expect(isStill(first, only(ask('q1', safe)))).toBe(true);
    expect(isStill({ ...first, question: null }, first)).toBe(true);
    for (const other of [
      ask('q2', safe),
      ask('q1', evil),
      ask('q1', safe, 3),
      { ...ask('q1', safe), turn: 8 },
      { ...ask('q1', safe), change: { ...NONE, ...safe, after: 'a' } },
      { ...ask('q1', safe), change: { ...NONE, ...safe, cell_type: 'raw' as const } }
    ]) {
      expect(isStill(first, only(other))).toBe(false);
    }
  });
});
