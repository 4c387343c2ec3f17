// @vitest-environment happy-dom
import * as React from 'react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { IConversation, LogEntry } from '../conversation';
import { reduce, withEarlier } from '../fold';
import { TURNS } from '../feed';
import { CellEdits } from '../lab/celledits';
import type { Link } from '../lab/celledits';
import type { Item } from '../panel';
import { keysOf, sliceOf, stretchesOf, TOGETHER, withLive } from '../view/stretches';
import type * as Turns from '../view/turn';
import { BEGUN, Stage } from './stage';

/** Turns that were rendered, each time by its number. */
const rendered = vi.hoisted((): number[] => []);

vi.mock('../view/turn', async importOriginal => {
  const real = await importOriginal<typeof Turns>();
  type View = React.FC<React.ComponentProps<typeof real.Turn>>;
  const { type: draw } = real.Turn as unknown as { type: View };
  const Turn = React.memo(function Counted(props: React.ComponentProps<typeof real.Turn>) {
    rendered.push(props.turn.turn);
    return draw(props);
  });
  return { ...real, Turn };
});

let stage: Stage;

beforeEach(() => {
  stage = new Stage();
  rendered.length = 0;
});

afterEach(() => {
  stage.end();
});

function fold(items: readonly Item[], from: IConversation = BEGUN): IConversation {
  return items.reduce(reduce, from);
}

function started(turn: number): Item[] {
  return [
    {
      kind: 'turn_started',
      turn,
      prompt: `Why ${turn}?`,
      origin: 'panel',
      cell_id: null,
      at: 0,
      attachments: []
    },
    { kind: 'step_started', turn, step: 1 }
  ];
}

function said(turn: number, text: string): Item {
  return { kind: 'text_delta', turn, step: 1, block: 0, text } as Item;
}

function ran(turn: number, id: string): Item[] {
  const call = { turn, step: 1, tool_use_id: id, name: 'run_code', label: `Ran code ${id}` };
  const input = { code: `${id} = 1` };
  return [
    { kind: 'tool_started', ...call, input },
    {
      kind: 'tool_finished',
      ...call,
      input,
      text: '',
      is_error: false,
      denied: false,
      interrupted: false,
      chars: 0,
      lines: 0,
      seconds: 1,
      decision: null,
      has_outputs: false,
      images: 0
    }
  ];
}

function finished(turn: number): Item {
  return {
    kind: 'turn_finished',
    turn,
    outcome: 'done',
    stop_reason: 'end_turn',
    text: '',
    steps: 1,
    tokens: 9,
    cost_usd: null,
    seconds: 1,
    error: null,
    footer: ''
  };
}

/** Turns from `first` to `last`, each with two calls and an answer. */
function turns(first: number, last: number): Item[] {
  const items: Item[] = [];
  for (let turn = first; turn <= last; turn += 1) {
    items.push(...started(turn), ...ran(turn, `a${turn}`), ...ran(turn, `b${turn}`));
    items.push(said(turn, `Because of ${turn}.`), finished(turn));
  }
  return items;
}

/** The same list, and how often an entry of it is read. */
function watched(list: readonly LogEntry[]): { log: readonly LogEntry[]; reads: () => number } {
  let reads = 0;
  const log = new Proxy(list, {
    get: (target, name, self): unknown => {
      reads += typeof name === 'string' && /^\d+$/.test(name) ? 1 : 0;
      return Reflect.get(target, name, self);
    }
  });
  return { log, reads: () => reads };
}

/** Let frames pass, each on its own. */
async function frames(number: number): Promise<void> {
  for (let at = 0; at < number; at += 1) {
    await stage.pass(17);
  }
}

function shownTurns(): string[] {
  return stage.all('article').map(node => node.getAttribute('aria-label') ?? '');
}

describe('a long conversation', () => {
  it('renders the running turn alone when more of its answer comes', async () => {
    let now = fold([...turns(1, 200), ...started(201)]);
    await stage.show(now);
    rendered.length = 0;

    for (const word of ['One', ' two', ' three']) {
      now = fold([said(201, word)], now);
      await stage.show(now);
    }

    expect(rendered).toEqual([201, 201, 201]);
    expect(stage.all('article').at(-1)?.textContent).toContain('One two three');
  });

  it('reads of its settled part no more when it is long, at any piece of an answer', async () => {
    const readsAt = async (settled: number): Promise<number> => {
      const first = fold([...turns(1, settled), ...started(settled + 1)]);
      const { log, reads } = watched(first.log);
      let now: IConversation = { ...first, log };
      await stage.show(now);
      const before = reads();
      expect(before).toBeGreaterThanOrEqual(settled); // it is watched indeed
      now = fold([said(settled + 1, 'More')], now);
      await stage.show(now);
      expect(now.log).toBe(log);
      return reads() - before;
    };

    const few = await readsAt(3);
    expect(await readsAt(300)).toBeLessThanOrEqual(few);
  });

  it('looks for edits in what is new only', () => {
    const first = fold([...turns(1, 300), ...started(301)]);
    const { log, reads } = watched(first.log);
    let hear: () => void = () => undefined;
    const link = {
      feed: { conversation: { ...first, log } },
      feedChanged: {
        connect: (slot: () => void, self: unknown) => {
          hear = slot.bind(self);
        },
        disconnect: () => undefined
      }
    };
    const edits = new CellEdits(link as unknown as Link, () => null);
    hear();
    const before = reads();
    link.feed.conversation = fold([said(301, 'More')], link.feed.conversation);
    hear();

    expect(before).toBeGreaterThanOrEqual(300);
    expect(reads()).toBe(before);
    edits.dispose();
  });
});

describe('a turn that ends', () => {
  it('stays the very element it was, and its answer is not drawn again', async () => {
    const running = fold([...turns(1, 2), ...started(3), said(3, 'It is so.')]);
    await stage.show(running);
    const node = stage.all('article').at(-1);
    const drawn = stage.host.drawn.length;
    await stage.show(fold([finished(3)], running));

    expect(stage.all('article').at(-1)).toBe(node);
    expect(stage.host.drawn.slice(drawn)).toEqual([]);
  });

  it('keeps a row open that the reader has opened', async () => {
    const running = fold([...started(1), ...ran(1, 'a'), ...ran(1, 'b')]);
    await stage.show(running);
    const row = stage.find('details') as HTMLDetailsElement;
    await stage.act(() => {
      row.open = true;
      row.dispatchEvent(new Event('toggle'));
    });
    await stage.show(fold([finished(1)], running));

    expect(stage.all('details')).toHaveLength(2);
    expect(stage.find('details')).toBe(row);
    expect(row.open).toBe(true);
  });

  it('leaves the turns before it as they are when the next one begins', async () => {
    const first = fold(turns(1, 40));
    await stage.show(first);
    const nodes = stage.all('article');
    rendered.length = 0;
    await stage.show(fold(started(41), first));

    expect(stage.all('article').slice(0, 40)).toEqual(nodes);
    expect(rendered.sort()).toEqual([40, 41]); // 40 is the last no more
  });
});

describe('earlier turns', () => {
  const page = (first: number, last: number): Parameters<typeof withEarlier>[1] => ({
    items: turns(first, last),
    first_turn: first,
    has_earlier: first > 1
  });

  it('are drawn some a frame, in their order, until all stand there, each once', async () => {
    const last = 2 * TURNS;
    const late = { ...fold(turns(TURNS + 1, last)), firstTurn: TURNS + 1, hasEarlier: true };
    await stage.show(late);
    const nodes = stage.all('article');
    rendered.length = 0;
    await stage.show(withEarlier(late, page(1, TURNS)));
    const atFirst = shownTurns();
    expect(rendered.length).toBeLessThan(TURNS);
    expect(atFirst.length).toBeLessThan(last);
    expect(atFirst[0]).toBe('Turn 1');
    await frames(9);

    expect(shownTurns()).toEqual(Array.from({ length: last }, (_, at) => `Turn ${at + 1}`));
    expect(stage.all('article').slice(TURNS)).toEqual(nodes);
    expect(rendered.sort((a, b) => a - b)).toEqual(
      Array.from({ length: TURNS }, (_, at) => at + 1)
    );
  });

  it('come whole while a turn runs, and while more of it is said', async () => {
    const late = {
      ...fold([...turns(31, 40), ...started(41)]),
      firstTurn: 31,
      hasEarlier: true
    };
    await stage.show(late);
    let now = withEarlier(late, page(1, 30));
    await stage.show(now);
    for (let at = 0; at < 60; at += 1) {
      now = fold([said(41, `w${at} `)], now);
      await stage.show(now);
    }
    now = fold([finished(41)], now);
    await stage.show(now);

    expect(shownTurns()).toEqual(Array.from({ length: 41 }, (_, at) => `Turn ${at + 1}`));
  });

  it('are void where the conversation is another one meanwhile', async () => {
    const late = { ...fold(turns(31, 60)), firstTurn: 31, hasEarlier: true };
    await stage.show(late);
    await stage.show(withEarlier(late, page(1, 30)));
    await stage.show(fold(turns(1, 2)));
    await frames(9);

    expect(shownTurns()).toEqual(['Turn 1', 'Turn 2']);
  });

  it('bring notes to be read; what is noted from now on is announced', async () => {
    const note = (turn: number, title: string): Item => ({
      kind: 'note_added',
      turn,
      level: 'warning',
      title,
      detail: ''
    });
    const late = {
      ...fold([...turns(3, 3), note(3, 'Known')]),
      firstTurn: 3,
      hasEarlier: true
    };
    await stage.show(late);
    let now = withEarlier(late, { ...page(1, 2), items: [...turns(1, 2), note(2, 'Old')] });
    now = fold([note(3, 'New')], now);
    await stage.show(now);
    await stage.pass(100);
    const said = stage
      .all('.jctx-log [role="alert"], .jctx-log [role="status"]')
      .map(one => one.textContent);

    expect(stage.find('.jctx-log').textContent).toMatch(/Old.*Known.*New/s);
    expect(said.join()).toContain('New');
    expect(said.join()).not.toMatch(/Old|Known/);
  });
});

describe('stretches', () => {
  it('keep every entry and its key, and its stretch, when turns come in front', () => {
    const late = fold(turns(20, 70)).log;
    const all = [...fold(turns(1, 19)).log, ...late];
    const places = (log: readonly LogEntry[]): Map<string, string> =>
      new Map(
        stretchesOf(keysOf(log)).flatMap(({ key, entries }) =>
          entries.map(one => [one.key, key] as const)
        )
      );
    const before = places(late);
    const after = places(all);

    expect(before.size).toBe(late.length);
    expect(after.size).toBe(all.length);
    expect([...after].filter(([key]) => before.has(key))).toEqual([...before]);
  });

  it('are the very same but the last, with a running turn behind them', () => {
    for (const last of [TOGETHER - 1, TOGETHER, 3 * TOGETHER + 5]) {
      const { log, live } = fold([...turns(1, last), ...started(last + 1)]);
      const settled = stretchesOf(keysOf(log));
      if (live === null) {
        throw new Error('no turn runs');
      }
      const all = withLive(settled, live);
      const same = all.filter((one, at) => one === settled[at]).length;

      expect(same).toBe(all.length - 1);
      expect(all.flatMap(({ entries }) => entries).map(one => one.entry)).toEqual([...log, live]);
      expect(new Set(all.map(({ key }) => key)).size).toBe(all.length);
    }
  });

  it('are taken in slices that go on, also where one entry is more than a frame takes', () => {
    const heavy = fold([
      ...started(1),
      ...Array.from({ length: 90 }, (_, at) => ran(1, `r${at}`)).flat(),
      finished(1)
    ]).log;
    const list = keysOf([...heavy, ...fold(turns(2, 9)).log]);

    expect(sliceOf(list, 0, list.length)).toBe(1);
    expect(sliceOf(list, 1, list.length)).toBeGreaterThan(1);
    expect(sliceOf(list, 1, 2)).toBe(1);
    expect(sliceOf(list, 2, 2)).toBe(0);
  });
});
