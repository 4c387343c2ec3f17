import { Signal } from '@lumino/signaling';
import { describe, expect, it } from 'vitest';

import { EMPTY } from '../conversation';
import type { IConversation, ITurn } from '../conversation';
import { CallError } from '../host';
import type { IProposal } from '../edits';
import { CellEdits } from '../lab/celledits';
import type { Link } from '../lab/celledits';
import type { IComingChange, IQuestion } from '../panel';
import { digestOf } from '../view/permission';

const LIVE: ITurn = {
  kind: 'turn',
  turn: 1,
  prompt: '',
  origin: 'panel',
  cellId: null,
  at: 0,
  attachments: [],
  parts: [],
  step: 2,
  end: null
};

function question(id: string, cell: string, coming: IQuestion['coming'] = []): IQuestion {
  return {
    kind: 'question',
    id,
    sha256: '',
    turn: 1,
    step: 2,
    tool_use_id: `use-${cell}`,
    verb: 'edit cells',
    title: `The agent asks to edit cell ${cell}:`,
    text: '@@ -1 +1 @@\n-x = 1\n+x = 2',
    info: 'diff',
    cell_id: cell,
    change: { op: 'edit', cell_id: cell, source: 'x = 2', cell_type: null, after: null },
    offers: [],
    coming,
    at: 0
  };
}

function edited(id: string, isUndone = false): ITurn['parts'][number] {
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
    edits: [{ cellId: 'a', path: null, isUndone }]
  };
}

/** A link whose conversation a test changes, and cells a and b. */
class Scene {
  readonly asked: [string, unknown][] = [];
  readonly sources = new Map([
    ['a', 'x = 1'],
    ['b', 'x = 1']
  ]);
  conversation: IConversation = EMPTY;
  fault: CallError | null = null;
  private readonly _changed = new Signal<unknown, void>(this);
  readonly edits: CellEdits;

  constructor() {
    const link = {
      ask: (op: string, args: unknown) => {
        this.asked.push([op, args]);
        return this.fault ? Promise.reject(this.fault) : Promise.resolve({});
      },
      feed: { conversation: EMPTY },
      feedChanged: this._changed
    };
    Object.defineProperty(link.feed, 'conversation', { get: () => this.conversation });
    this.edits = new CellEdits(link as unknown as Link, id => this.sources.get(id) ?? null);
  }

  become(conversation: Partial<IConversation>): void {
    this.conversation = { ...this.conversation, ...conversation };
    this._changed.emit();
  }

  get decided(): unknown[] {
    return this.asked.filter(([op]) => op === 'decide').map(([, args]) => args);
  }

  decide(at: number, isAccepted: boolean, reason = ''): void {
    const proposal = this.edits.proposals[at];
    if (proposal) {
      this.edits.decide(proposal, { isAccepted, reason, base: 'x = 1' });
    }
  }
}

const EDIT = { op: 'edit', cell_type: null, after: null } as const;
const COMING = [{ ...EDIT, tool_use_id: 'use-b', cell_id: 'b', source: 'x = 2' }];

describe('an answer, where a later change has the same call id', () => {
  const NEW = { op: 'insert', cell_id: null, cell_type: 'code', after: null } as const;
  const one = { ...question('q1', 'n'), text: 'safe', change: { ...NEW, source: 'safe' } };

  it('is none to that: what was read was another change', () => {
    const scene = new Scene();
    scene.become({ question: one, live: LIVE });
    scene.edits.decide(scene.edits.proposals[0] as IProposal, {
      isAccepted: true,
      reason: '',
      base: ''
    });
    expect(scene.decided).toHaveLength(1);
    const other = { ...one, id: 'q2', text: 'evil', change: { ...NEW, source: 'evil' } };
    scene.become({ question: other, live: LIVE });
    expect(scene.decided).toHaveLength(1);
    scene.become({ question: { ...one, id: 'q3', step: 3 }, live: { ...LIVE, step: 3 } });
    expect(scene.decided).toHaveLength(1);
    expect(scene.edits.decisionOf(scene.edits.proposals[0] as IProposal)).toBeNull();
  });

  it('that was told to come as another one is none either', () => {
    for (const isAccepted of [true, false]) {
      const scene = new Scene();
      const coming = [{ ...NEW, tool_use_id: 'use-b', source: 'safe' }];
      scene.become({ question: question('q1', 'a', coming), live: LIVE });
      scene.edits.decide(scene.edits.proposals[1] as IProposal, {
        isAccepted,
        reason: '',
        base: ''
      });
      const asked = { ...question('q2', 'b'), text: 'evil', change: { ...NEW, source: 'evil' } };
      scene.become({ question: asked });
      expect(scene.decided).toEqual([]);
    }
  });
});

describe('an answer', () => {
  it('carries the digest of the question that is asked', () => {
    const scene = new Scene();
    const asked = question('q1', 'a');
    scene.become({ question: asked, live: LIVE });
    scene.decide(0, false, 'no need');
    expect(scene.decided).toEqual([
      { question: 'q1', sha256: digestOf(asked), choice: 'deny', word: '', reason: 'no need' }
    ]);
  });

  it('is sent once, however often the conversation changes', () => {
    const scene = new Scene();
    scene.become({ question: question('q1', 'a'), live: LIVE });
    scene.decide(0, true);
    scene.become({});
    scene.become({});
    expect(scene.decided).toHaveLength(1);
  });

  it('that does not arrive may be given again', async () => {
    const scene = new Scene();
    scene.become({ question: question('q1', 'a'), live: LIVE });
    scene.fault = new CallError('lost', 'The kernel did not answer.');
    scene.decide(0, true);
    await Promise.resolve();
    const [proposal] = scene.edits.proposals;
    expect(proposal && scene.edits.faultOf(proposal)).toBe('The kernel did not answer.');
    expect(proposal && scene.edits.decisionOf(proposal)).toBeNull();
    scene.fault = null;
    scene.decide(0, true);
    expect(scene.decided).toHaveLength(2);
  });

  it('ahead waits for its question', () => {
    const scene = new Scene();
    scene.become({ question: question('q1', 'a', COMING), live: LIVE });
    scene.decide(1, true);
    expect(scene.decided).toEqual([]);
    scene.become({ question: null });
    expect(scene.edits.proposals).toHaveLength(1);
    scene.become({ question: question('q2', 'b') });
    expect(scene.decided).toMatchObject([{ question: 'q2', choice: 'once' }]);
  });

  it('ahead is void where its cell has changed, unless it was a no', () => {
    for (const isAccepted of [true, false]) {
      const scene = new Scene();
      scene.become({ question: question('q1', 'a', COMING), live: LIVE });
      scene.decide(1, isAccepted);
      scene.sources.set('b', 'x = 0');
      scene.become({ question: question('q2', 'b') });
      expect(scene.decided).toHaveLength(isAccepted ? 0 : 1);
    }
  });

  it('ahead to a new cell is void where its neighbour is gone', () => {
    const insert = {
      op: 'insert',
      cell_id: null,
      source: 'y',
      cell_type: 'code',
      after: 'b'
    } as const;
    for (const isThere of [true, false]) {
      const scene = new Scene();
      const coming: IComingChange[] = [{ ...insert, tool_use_id: 'use-n' }];
      scene.become({ question: question('q1', 'a', coming), live: LIVE });
      const [, proposal] = scene.edits.proposals;
      if (proposal) {
        scene.edits.decide(proposal, { isAccepted: true, reason: '', base: '' });
      }
      if (!isThere) {
        scene.sources.delete('b');
      }
      const asked = { ...question('q2', 'n'), text: 'y', change: insert };
      scene.become({ question: asked });
      expect(scene.decided).toHaveLength(isThere ? 1 : 0);
    }
  });

  it('ahead is forgotten with its turn', () => {
    const scene = new Scene();
    scene.become({ question: question('q1', 'a', COMING), live: LIVE });
    scene.decide(1, true);
    scene.become({ question: null, live: null });
    scene.become({ question: question('q2', 'b'), live: { ...LIVE, turn: 2 } });
    expect(scene.decided).toEqual([]);
  });
});

describe('an edit that was made here', () => {
  const EDITED = { cellId: 'a', before: 'x = 1', after: 'x = 2' };

  it('stands from when its call is told until it is undone', () => {
    const scene = new Scene();
    scene.edits.take(EDITED);
    expect(scene.edits.standing.size).toBe(0);
    scene.become({ live: { ...LIVE, parts: [edited('t1')] } });
    expect(scene.edits.standing.get('a')).toEqual({ ...EDITED, toolUseId: 't1', turn: 1 });
    const stood = scene.edits.standing.get('a');
    scene.become({ isRunning: true });
    expect(scene.edits.standing.get('a')).toBe(stood);
    scene.become({ live: { ...LIVE, parts: [edited('t1', true)] } });
    expect(scene.edits.standing.size).toBe(0);
  });

  it('is not taken for an earlier one of the same cell', () => {
    const scene = new Scene();
    scene.become({ live: { ...LIVE, parts: [edited('t1')] } });
    scene.edits.take(EDITED);
    scene.become({ isRunning: true });
    expect(scene.edits.standing.size).toBe(0);
    scene.become({ live: { ...LIVE, parts: [edited('t1'), edited('t2')] } });
    expect(scene.edits.standing.get('a')?.toolUseId).toBe('t2');
  });

  it('that is undone leaves nothing to an earlier one', () => {
    const scene = new Scene();
    scene.edits.take(EDITED);
    scene.become({ live: { ...LIVE, parts: [edited('t1')] } });
    scene.edits.take({ ...EDITED, before: 'x = 2', after: 'x = 3' });
    scene.become({ live: { ...LIVE, parts: [edited('t1'), edited('t2')] } });
    scene.edits.take({ ...EDITED, before: 'x = 3', after: 'x = 2' });
    scene.become({ live: { ...LIVE, parts: [edited('t1'), edited('t2', true)] } });
    expect(scene.edits.standing.size).toBe(0);
  });

  it('is the person’s own from when they take the cell over', () => {
    const scene = new Scene();
    scene.edits.take(EDITED);
    scene.become({ live: { ...LIVE, parts: [edited('t1')] } });
    scene.edits.release('a');
    scene.become({ isRunning: true });
    expect(scene.edits.standing.size).toBe(0);
  });
});
