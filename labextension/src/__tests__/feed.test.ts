import { describe, expect, it } from 'vitest';

import { Feed } from '../feed';
import type { Ask } from '../feed';
import { CallError } from '../host';
import type { IOpened, ISession, Item } from '../panel';

const SESSION: ISession = {
  kind: 'session',
  id: 's',
  title: 'Churn',
  notebook: 'churn.ipynb',
  model: 'demo',
  permission_mode: 'ask',
  is_demo: true,
  why: '',
  turns: 0,
  cells: 0,
  variables: 0
};

function answer(epoch: string, seq: number, items: readonly Item[] = []): IOpened {
  return {
    epoch,
    seq,
    session: SESSION,
    items,
    first_turn: null,
    has_earlier: false,
    queue: [],
    question: null,
    plan: [],
    is_kernel_awaited: false,
    is_running: items.length > 0,
    commands: [],
    models: []
  };
}

const started: Item = {
  kind: 'turn_started',
  turn: 1,
  prompt: 'Hello',
  origin: 'panel',
  cell_id: null,
  at: 0,
  attachments: []
};
const delta = (text: string): Item => ({ kind: 'text_delta', turn: 1, block: 0, text });

/** A feed; `answers` are given to `open` one by one, a word is the kind of a refusal. */
function setUp(answers: readonly (IOpened | string)[]): {
  feed: Feed;
  asked: string[];
  say: (epoch: string, seq: number, ...items: Item[]) => void;
} {
  const left = [...answers];
  const asked: string[] = [];
  const ask = ((op: string) => {
    asked.push(op);
    const next = left.shift();
    return typeof next === 'object'
      ? Promise.resolve(next)
      : Promise.reject(new CallError(next ?? 'none', `No: ${String(next)}.`));
  }) as unknown as Ask;
  const feed = new Feed(ask, () => undefined);
  const say = (epoch: string, seq: number, ...items: Item[]): void => {
    feed.hear({ version: 1, type: 'panel', epoch, seq, items });
  };
  return { feed, asked, say };
}

/** What stands in the running turn's text. */
function written(feed: Feed): string {
  const parts = feed.conversation.live?.parts ?? [];
  return parts.map(part => (part.kind === 'text' ? part.text : '')).join('');
}

const settled = async (): Promise<void> => {
  for (let at = 0; at < 10; at += 1) {
    await Promise.resolve();
  }
};

describe('a conversation on a page', () => {
  it('hears nothing before it was opened', () => {
    const { feed, asked, say } = setUp([]);
    say('a', 0, started);

    expect(feed.state).toEqual({ is: 'closed' });
    expect(feed.conversation.live).toBeNull();
    expect(asked).toEqual([]);
  });

  it('shows a running turn once, whatever came while it was opened', async () => {
    const { feed, say } = setUp([answer('a', 2, [started, delta('one ')])]);
    const opening = feed.open();
    say('a', 1, delta('one '), delta('two '));
    await opening;
    say('a', 2, delta('two '));
    say('a', 3, delta('three'));

    expect(feed.state).toEqual({ is: 'open' });
    expect(written(feed)).toBe('one two three');
  });

  it('is opened again at a gap, and nothing is missing then', async () => {
    const { feed, asked, say } = setUp([
      answer('a', 1, [started]),
      answer('a', 3, [started, delta('one two ')])
    ]);
    await feed.open();
    say('a', 3, delta('three'));
    await settled();

    expect(asked).toEqual(['open', 'open']);
    expect(written(feed)).toBe('one two three');
  });

  it('is opened again when the extension was loaded anew', async () => {
    const { feed, say } = setUp([answer('a', 9, [started]), answer('b', 1, [started])]);
    await feed.open();
    say('b', 1, delta('new'));
    await settled();

    expect(feed.isOf('b')).toBe(true);
    expect(written(feed)).toBe('new');
  });

  it('is opened again when another conversation begins', async () => {
    const { feed, asked, say } = setUp([answer('a', 1, [started]), answer('a', 2)]);
    await feed.open();
    say('a', 1, { kind: 'cleared' });
    await settled();

    expect(asked).toEqual(['open', 'open']);
    expect(feed.conversation.live).toBeNull();
    expect(feed.conversation.log).toEqual([]);
  });

  it('waits for a busy kernel, and says why else it could not be opened', async () => {
    const { feed } = setUp(['busy', 'lost', answer('a', 0)]);
    await feed.open();
    expect(feed.state).toEqual({ is: 'busy' });
    await feed.open();
    expect(feed.state).toEqual({ is: 'failed', reason: 'No: lost.' });
    await feed.open();
    expect(feed.state).toEqual({ is: 'open' });
  });

  it('stays in sight when the kernel is gone, but nothing in it runs', async () => {
    const { feed, say } = setUp([answer('a', 2, [started, delta('half')])]);
    await feed.open();
    feed.lose();
    say('a', 2, delta(' late'));

    const { conversation } = feed;
    expect(feed.state).toEqual({ is: 'closed' });
    expect(conversation.isRunning).toBe(false);
    expect(conversation.live).toBeNull();
    expect(conversation.log).toHaveLength(1);
    feed.clear();
    expect(feed.conversation.log).toEqual([]);
  });

  it('does not take the answer to a question of a kernel that is gone', async () => {
    const { feed } = setUp([answer('a', 1, [started])]);
    const opening = feed.open();
    feed.lose();
    await opening;

    expect(feed.state).toEqual({ is: 'closed' });
    expect(feed.conversation.epoch).toBeNull();
  });
});
