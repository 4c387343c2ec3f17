import { describe, expect, it } from 'vitest';

import { activityOf, EMPTY } from '../conversation';
import type { IConversation, ITurn, TurnPart } from '../conversation';
import { opened, receive, reduce, withEarlier } from '../fold';
import type { IOpened, IPanelItems, Item } from '../panel';
import { isRefused, parsePanel, parseResult } from '../parse';
import { fold, itemsOf, loadPanel, scene, SCENES } from './panelfixtures';

const OPENED: IConversation = { ...EMPTY, epoch: 'e1' };

/** The items as messages of `size` items each. */
function messages(items: readonly Item[], size: number): IPanelItems[] {
  const told: IPanelItems[] = [];
  for (let seq = 0; seq < items.length; seq += size) {
    told.push({ type: 'panel', epoch: 'e1', seq, items: items.slice(seq, seq + size) });
  }
  return told;
}

/** Items `from` to `to` in one message. */
function message(items: readonly Item[], from: number, to: number): IPanelItems {
  return { type: 'panel', epoch: 'e1', seq: from, items: items.slice(from, to) };
}

/** The items with neighbouring deltas joined, as the kernel does it. */
function joined(items: readonly Item[]): Item[] {
  const out: Item[] = [];
  for (const item of items) {
    const last = out.at(-1);
    if (
      last?.kind === 'text_delta' &&
      item.kind === 'text_delta' &&
      last.turn === item.turn &&
      last.block === item.block
    ) {
      out[out.length - 1] = { ...item, text: last.text + item.text };
    } else {
      out.push(item);
    }
  }
  return out;
}

/** What is shown, without what a message or an answer says beside it. */
function visible(conversation: IConversation): object {
  const { log, live, queue, question, isRunning, isStale } = conversation;
  return { log, live, queue, question, isRunning, isStale };
}

/** What a transcript can know: no notes, no tries, no times. */
function known(conversation: IConversation): unknown {
  return conversation.log.flatMap(entry => {
    if (entry.kind === 'turn') {
      const { parts, end, at, attachments, step, ...rest } = entry;
      const { footer, seconds, ...ended } = end ?? {};
      expect([at, attachments, step, footer, seconds]).not.toContain(undefined);
      return [{ ...rest, ended, parts: parts.flatMap(knownPart) }];
    }
    return knownPart(entry);
  });
}

function knownPart(part: TurnPart): unknown[] {
  switch (part.kind) {
    case 'text':
      return [{ ...part, block: 0 }];
    case 'tool': {
      const { seconds, decision, hasOutputs, ...result } = part.result ?? {};
      expect([seconds, decision, hasOutputs]).not.toContain(undefined);
      return [{ ...part, edits: [], tokens: part.tokens === null, result }];
    }
    case 'compaction':
      // One that found nothing to do is not stored.
      return part.failed?.reason.includes('nothing to compact') ? [] : [part];
    case 'thinking':
      return [part];
    case 'note':
    case 'memory':
    case 'shown':
    case 'failed':
    case 'retry':
      return [];
  }
}

function turnsOf(conversation: IConversation): ITurn[] {
  const settled = conversation.log.filter((entry): entry is ITurn => entry.kind === 'turn');
  return conversation.live === null ? settled : [...settled, conversation.live];
}

function kindsOf(turn: ITurn | undefined): string[] {
  return (turn?.parts ?? []).map(part => part.kind);
}

function partsOf(conversation: IConversation): TurnPart[] {
  return turnsOf(conversation).flatMap(turn => [...turn.parts]);
}

function answer(): IOpened {
  const found = parseResult('open', (loadPanel('open') as { result: unknown }).result);
  if (isRefused(found)) {
    throw new Error(found.reason);
  }
  return found;
}

describe.each([...SCENES])('%s', (_, told) => {
  const items = itemsOf(told.items);

  it('is the same conversation told one by one and joined', () => {
    expect(fold(itemsOf(told.coalesced))).toEqual(fold(items));
  });

  it.each([1, 2, 7, 1_000])('is the same in messages of %i items, each heard twice', size => {
    const folded = messages(items, size).reduce(
      (before, one) => receive(receive(before, one), one),
      OPENED
    );

    expect({ ...folded, epoch: null, seq: 0 }).toEqual({ ...fold(items), epoch: null });
  });

  it('is the same if its text is told again in one piece', () => {
    const finished = items.filter(item => item.kind === 'text_finished');

    expect(fold([...items, ...finished])).toEqual(fold(items));
  });

  it('is the same told from what is stored, but for what is not stored', () => {
    const live = items.filter(item => item.kind !== 'cleared');

    expect(known(fold(itemsOf(told.stored)))).toEqual(known(fold(live)));
  });

  it('is the same wherever it was opened, and whatever was heard before', () => {
    const whole = fold(items);
    for (let at = 0; at <= items.length; at += 1) {
      const before = fold(items.slice(0, at));
      if (before.isStale) {
        continue; // `cleared`: what is opened then is another conversation
      }
      const page = opened(receive(EMPTY, message(items, 0, Math.max(0, at - 3))), {
        ...answer(),
        epoch: 'e1',
        seq: at,
        items: joined(items.slice(0, at)),
        queue: before.queue,
        question: before.question,
        first_turn: before.firstTurn,
        has_earlier: false,
        is_running: before.isRunning,
        commands: [],
        models: []
      });
      const after = receive(page, message(items, Math.max(0, at - 2), items.length));

      expect(visible(after)).toEqual(visible(whole));
    }
  });

  it('never changes what was there', () => {
    let before = EMPTY;
    for (const item of items) {
      const copy = structuredClone(before);
      const after = reduce(before, item);
      expect(before).toEqual(copy);
      before = after;
    }
  });
});

describe('a turn', () => {
  it('has its parts in order, each with its end', () => {
    const [turn] = turnsOf(scene('turn_tools'));

    expect(kindsOf(turn)).toEqual(['thinking', 'text', 'tool', 'tool', 'text', 'tool', 'text']);
    expect(turn?.end?.outcome).toBe('done');
    expect(turn?.end?.footer).toMatch(/^3 steps, /);
    const tools = turn?.parts.filter(part => part.kind === 'tool') ?? [];
    expect(tools.map(tool => tool.result?.isError)).toEqual([false, false, true]);
  });

  it('keeps a stored result, a figure and an edit with its tool', () => {
    const [figure, file, edit] = partsOf(scene('turn_figure')).filter(p => p.kind === 'tool');

    expect(figure).toHaveProperty('result.hasOutputs', true);
    expect(file).toHaveProperty('stored.lines', 4_000);
    expect(edit).toHaveProperty('edits', [{ cellId: 'c5', path: null, isUndone: true }]);
  });

  it('loses what its running step showed when its stream breaks, and tries share a row', () => {
    const parts = partsOf(scene('turn_retry'));

    expect(parts.map(part => part.kind)).toEqual(['retry', 'text']);
    expect(parts[0]).toMatchObject({ attempt: 3, isOver: true });
    expect(parts[1]).toMatchObject({ text: 'Here it is.', isDone: true });
  });

  it('keeps earlier steps when one is discarded', () => {
    const items = itemsOf(SCENES.get('turn_tools')?.items ?? []);
    const before = fold(items.slice(0, -1));
    const last = before.live?.step ?? 0;
    const after = reduce(before, { kind: 'step_discarded', turn: 1, step: last });

    expect(kindsOf(after.live ?? undefined)).toEqual(
      kindsOf(before.live ?? undefined).slice(0, -1)
    );
  });

  it('tells what was denied, and what it was', () => {
    const tool = partsOf(scene('turn_denied')).find(part => part.kind === 'tool');

    expect(tool).toMatchObject({ result: { isDenied: true }, input: { code: /rmtree/ } });
  });

  it('leaves no call running when it ends', () => {
    const items = itemsOf(SCENES.get('turn_stop')?.items ?? []);
    const cut = fold(items.filter(item => item.kind !== 'tool_finished'));

    expect(partsOf(cut).find(part => part.kind === 'tool')).toHaveProperty(
      'result.isInterrupted',
      true
    );
  });

  it('that its kernel left open is settled when the next begins', () => {
    const items = itemsOf(SCENES.get('turn_tools')?.items ?? []).slice(0, -1);
    const next = items.map(item => ('turn' in item ? { ...item, turn: 2 } : item));
    const after = fold([...items, ...next]);

    expect(after.log).toHaveLength(1);
    expect(after.live?.turn).toBe(2);
  });
});

describe('a question', () => {
  const items = itemsOf(SCENES.get('turn_question')?.items ?? []);
  const asked = items.findIndex(item => item.kind === 'question');

  it('waits until it is closed, and says how', () => {
    const waiting = fold(items.slice(0, asked + 1));
    const after = fold(items.slice(0, asked + 2));

    expect(activityOf(waiting)).toBe('waiting');
    expect(waiting.question?.id).toBe('q1');
    expect(after.question).toBeNull();
    expect(after.closed).toEqual({ id: 'q1', how: 'once', reason: '' });
  });

  it('stays when another one is closed', () => {
    const waiting = fold(items.slice(0, asked + 1));
    const closed: Item = { kind: 'question_closed', id: 'q0', how: 'expired', reason: '' };

    expect(reduce(waiting, closed).question?.id).toBe('q1');
  });

  it('tells what its tool prints while it runs', () => {
    const running = fold(
      items.slice(
        0,
        items.findIndex(item => item.kind === 'tool_finished')
      )
    );

    expect(activityOf(running)).toBe('tool');
    expect(running.live?.parts.at(-1)).toHaveProperty('output', '10 %\n60 %\n');
  });
});

describe('a compaction', () => {
  it('stands between two turns, with what became of its summary', () => {
    const { log } = scene('turn_compaction');

    expect(log.map(entry => entry.kind)).toEqual(['turn', 'turn', 'compaction', 'turn']);
    expect(log[2]).toMatchObject({
      n: 1,
      condition: 'undone',
      done: { firstTurn: 1, lastTurn: 2 }
    });
  });

  it('stands in its turn if it came by itself', () => {
    const [turn] = turnsOf(scene('turn_midturn'));

    expect(kindsOf(turn)).toEqual(['text', 'tool', 'text', 'tool', 'compaction', 'text']);
  });

  it('is under way until it ends, also between turns', () => {
    const items = itemsOf(SCENES.get('turn_compaction')?.items ?? []);
    const begun = items.findIndex(item => item.kind === 'compaction_started');

    expect(activityOf(fold(items.slice(0, begun + 1)))).toBe('compacting');
    expect(activityOf(fold(items.slice(0, begun + 2)))).toBeNull();
  });

  it('that came to nothing says why', () => {
    const items = itemsOf(SCENES.get('cleared')?.items ?? []).slice(0, -1);

    expect(fold(items).log.at(-1)).toMatchObject({
      kind: 'compaction',
      failed: { reason: /nothing to compact/ }
    });
  });
});

describe('around the turns', () => {
  it('goes back, and forgets what stood behind', () => {
    const { log, queue } = scene('around');

    expect(log.map(entry => entry.kind === 'turn' && entry.turn)).toEqual([1, 3]);
    expect(queue).toEqual([]);
  });

  it('keeps what a command showed and what failed where it happened', () => {
    const items = itemsOf(SCENES.get('around')?.items ?? []);
    const before = fold(
      items.slice(
        0,
        items.findIndex(item => item.kind === 'rewound')
      )
    );

    expect(before.log.map(entry => entry.kind)).toEqual(['turn', 'turn', 'shown', 'note']);
    expect(scene('turn_failure').log.map(entry => entry.kind)).toEqual(['turn', 'failed']);
  });

  it('is void when another conversation is open', () => {
    expect(scene('cleared')).toMatchObject({ log: [], live: null, isStale: true });
  });
});

describe('plan and memory', () => {
  const items = itemsOf(SCENES.get('turn_plan')?.items ?? []);
  const at = (kind: Item['kind'], nth: number): IConversation => {
    const places = items.flatMap((item, place) => (item.kind === kind ? [place] : []));
    return fold(items.slice(0, (places[nth] ?? 0) + 1));
  };

  it('has the newest plan, whoever changed it, until there is none', () => {
    expect(at('plan_changed', 0).plan.map(({ state }) => state)).toEqual([
      'done',
      'in_progress',
      'pending'
    ]);
    expect(at('plan_changed', 1).plan).toEqual([{ text: 'Plot it', state: 'in_progress' }]);
    expect(fold(items).plan).toEqual([]);
    expect(opened(EMPTY, answer()).plan).toHaveLength(3);
  });

  it('keeps a fact where it was stated, and says there that it was taken back', () => {
    const kept = at('memory_changed', 0);
    const gone = at('memory_changed', 1);
    const fact = 'Amounts are in cents.';

    expect(partsOf(kept).find(part => part.kind === 'memory')).toMatchObject({ undone: [] });
    expect(partsOf(gone).find(part => part.kind === 'memory')).toMatchObject({
      facts: [fact],
      undone: [fact]
    });
    const twice = reduce(gone, { kind: 'memory_changed', turn: 1, facts: [fact], is_undone: true });
    expect(twice.log).toEqual(gone.log);
    const other = { kind: 'memory_changed', turn: 1, facts: ['Other.'], is_undone: true } as const;
    expect(reduce(gone, other)).toEqual(gone);
  });

  it('has no plan of another conversation', () => {
    expect(reduce(at('plan_changed', 0), { kind: 'cleared' }).plan).toEqual([]);
  });
});

describe('open', () => {
  it('takes up the running turn, and goes on with what follows', () => {
    const then = (loadPanel('open') as { then: unknown[] }).then.map(one => {
      const message = parsePanel(one);
      if (isRefused(message)) {
        throw new Error(message.reason);
      }
      return message;
    });
    const before = opened(EMPTY, answer());
    const after = then.reduce(receive, before);

    expect(before).toMatchObject({ isRunning: true, question: { id: 'q1' }, live: { turn: 2 } });
    expect(activityOf(before)).toBe('waiting');
    expect(after.isStale).toBe(false);
    expect(after.live).toBeNull();
    expect(kindsOf(turnsOf(after)[1])).toEqual(kindsOf(turnsOf(scene('turn_question'))[0]));
  });

  it('is the same whatever was heard while it was asked', () => {
    const [first, , ...rest] = (loadPanel('open') as { then: IPanelItems[] }).then;
    const early = [first, ...rest].flatMap(one =>
      one ? [{ ...one, type: 'panel' as const }] : []
    );
    const whole = early.reduce(receive, opened(EMPTY, answer()));

    for (let at = 0; at <= early.length; at += 1) {
      const held = early.slice(0, at).reduce(receive, EMPTY);
      expect(early.slice(at).reduce(receive, opened(held, answer()))).toEqual(whole);
    }
  });

  it('is asked for at a gap, at another epoch, and before the first answer', () => {
    const message: IPanelItems = { type: 'panel', epoch: 'e1', seq: 1, items: [] };

    expect(receive(OPENED, message).isStale).toBe(true);
    expect(receive(OPENED, { ...message, seq: 0, epoch: 'e2' }).isStale).toBe(true);
    expect(receive(EMPTY, { ...message, seq: 0 }).isStale).toBe(true);
    expect(receive(OPENED, { ...message, seq: 0 }).isStale).toBe(false);
  });

  it('settles a turn that does not run any more', () => {
    const after = opened(EMPTY, { ...answer(), is_running: false, question: null });

    expect(after.live).toBeNull();
    expect(turnsOf(after)).toHaveLength(2);
  });

  it('puts earlier turns in front, each once', () => {
    const items = itemsOf(SCENES.get('turn_compaction')?.items ?? []);
    const cut = items.findIndex(item => item.kind === 'turn_started' && item.turn === 3);
    const late = { ...fold(items.slice(cut)), firstTurn: 3, hasEarlier: true };
    const page = { items: items.slice(0, cut), first_turn: 1, has_earlier: false };

    expect(withEarlier(late, page).log.map(entry => entry.kind)).toEqual([
      'turn',
      'turn',
      'compaction',
      'turn'
    ]);
    expect(withEarlier(late, { ...page, items }).log).toHaveLength(4);
    expect(withEarlier(late, page)).toMatchObject({ firstTurn: 1, hasEarlier: false });
  });
});

describe('a long conversation', () => {
  const long: Item[] = [];
  for (let turn = 1; turn <= 2_500; turn += 1) {
    long.push(
      {
        kind: 'turn_started',
        turn,
        prompt: 'p',
        origin: 'panel',
        cell_id: null,
        at: 1,
        attachments: []
      },
      { kind: 'step_started', turn, step: 1 },
      { kind: 'text_finished', turn, block: 1, text: 'a' }
    );
  }

  it('is not copied by a delta: what is settled stays the very same list', () => {
    const before = fold(long);
    const after = reduce(before, { kind: 'text_delta', turn: 2_500, block: 2, text: 'x' });

    expect(after.log).toBe(before.log);
    expect(after.live?.parts[0]).toBe(before.live?.parts[0]);
  });

  it('has all of 2,000 deltas', () => {
    let after = fold(long);
    for (let n = 0; n < 2_000; n += 1) {
      after = reduce(after, { kind: 'text_delta', turn: 2_500, block: 2, text: `${n} ` });
    }

    const text = after.live?.parts[1];
    expect(text?.kind === 'text' && text.text.split(' ').length).toBe(2_001);
  });
});
