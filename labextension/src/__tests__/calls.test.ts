import { describe, expect, it, vi } from 'vitest';

import { AGAIN_MS, Calls, MOST_CHARS, OPEN_MS } from '../calls';
import { PART_CHARS, split } from '../events';
import type { IPart } from '../events';
import { CallError } from '../host';

/** Calls whose messages are kept; `answer` speaks for the kernel. */
function setUp(): {
  calls: Calls;
  sent: IPart<'call'>[];
  answer: (text: string, parts?: readonly number[], of?: number, to?: string) => void;
} {
  const sent: IPart<'call'>[] = [];
  const calls = new Calls('page', part => sent.push(part));
  const answer = (text: string, parts: readonly number[] = [1], of = 1, to = 'page'): void => {
    const size = Math.ceil(text.length / of);
    for (const part of parts) {
      const piece = text.slice((part - 1) * size, part * size);
      calls.hear({ id: sent[sent.length - 1]?.id ?? '', to, part, parts: of, text: piece });
    }
  };
  return { calls, sent, answer };
}

describe('a call', () => {
  it('is one message when it is short, and its result is returned', async () => {
    const { calls, sent, answer } = setUp();
    const called = calls.call('stop', {});
    answer('{"ok":true,"result":{"a":1}}');

    expect(await called).toEqual({ a: 1 });
    expect(sent).toHaveLength(1);
    expect(sent[0]).toMatchObject({ version: 1, type: 'call', client: 'page', part: 1, parts: 1 });
    expect(JSON.parse(sent[0]?.text ?? '')).toEqual({ op: 'stop', args: {} });
  });

  it('takes nothing for an answer that has not the shape of one', async () => {
    const { calls, sent, answer } = setUp();
    const called = calls.call('stop', {});
    const id = sent[0]?.id ?? '';
    const text = '{"ok":true,"result":{"a":2}}';
    for (const odd of [null, 3, [], {}, { id }, { id, to: 'page', part: '1', parts: 1, text }]) {
      calls.hear(odd);
    }
    for (const [part, parts] of [
      [1, 0],
      [0, 1],
      [2, 1],
      [-1, -1],
      [1, NaN],
      [1.5, 1]
    ]) {
      calls.hear({ id, to: 'page', part, parts, text });
    }
    answer('{"ok":true,"result":{"a":1}}');

    expect(await called).toEqual({ a: 1 });
  });

  it('takes an answer whose parts come in any order and twice', async () => {
    const { calls, answer } = setUp();
    const called = calls.call('open', { turns: 30 });
    answer('{"ok":true,"result":{"text":"abcdefghi"}}', [3, 1, 1, 2], 3);

    expect(await called).toEqual({ text: 'abcdefghi' });
  });

  it('hears no answer to another page', async () => {
    const { calls, answer } = setUp();
    const called = calls.call('stop', {});
    answer('{"ok":true,"result":{"for":"another"}}', [1], 1, 'another');
    answer('{"ok":true,"result":{"for":"us"}}');

    expect(await called).toEqual({ for: 'us' });
  });

  it('is refused in the words of the kernel', async () => {
    const { calls, answer } = setUp();
    const called = calls.call('decide', {});
    answer('{"ok":false,"error":{"kind":"gone","message":"It was answered."}}');

    await expect(called).rejects.toMatchObject({ kind: 'gone', message: 'It was answered.' });
  });

  it.each(['', 'nonsense', 'null', '[]', '{"ok":1}', '{"ok":false,"error":{"kind":1}}'])(
    'is broken by the answer %j',
    async text => {
      const { calls, answer } = setUp();
      const called = calls.call('stop', {});
      answer(text);

      await expect(called).rejects.toMatchObject({ kind: 'broken' });
    }
  );

  it('is sent again until it is answered, under the same id', async () => {
    vi.useFakeTimers();
    try {
      const { calls, sent, answer } = setUp();
      const called = calls.call('stop', {});
      vi.advanceTimersByTime(2 * AGAIN_MS);
      expect(sent).toHaveLength(3);
      expect(new Set(sent.map(({ id }) => id)).size).toBe(1);
      answer('{"ok":true,"result":{}}');
      expect(await called).toEqual({});
      vi.advanceTimersByTime(2 * AGAIN_MS);
      expect(sent).toHaveLength(3);
    } finally {
      vi.useRealTimers();
    }
  });

  it('of a picture is sent once', () => {
    vi.useFakeTimers();
    try {
      const { calls, sent } = setUp();
      const called = calls.call('submit', { text: 'x'.repeat(5 * PART_CHARS) });
      called.catch(() => undefined);
      const { length } = sent;
      vi.advanceTimersByTime(AGAIN_MS);
      expect(sent).toHaveLength(length);
    } finally {
      vi.useRealTimers();
    }
  });

  it('ends at its deadline with a sentence, and a late answer does nothing', async () => {
    vi.useFakeTimers();
    try {
      const { calls, answer } = setUp();
      const called = calls.call('open', {});
      const caught = called.catch((error: unknown) => error);
      vi.advanceTimersByTime(OPEN_MS);
      answer('{"ok":true,"result":{}}');

      const error = await caught;
      expect(error).toBeInstanceOf(CallError);
      expect((error as CallError).message).toBe('The kernel did not answer within 20 s (open).');
    } finally {
      vi.useRealTimers();
    }
  });

  it('ends when the kernel is gone', async () => {
    const { calls } = setUp();
    const called = calls.call('stop', {});
    calls.abandon('absent', 'The kernel is gone.');

    await expect(called).rejects.toMatchObject({ kind: 'absent', message: 'The kernel is gone.' });
  });

  it('is not sent when it is longer than the kernel takes', async () => {
    const { calls, sent } = setUp();

    await expect(calls.call('submit', { text: 'x'.repeat(MOST_CHARS) })).rejects.toMatchObject({
      kind: 'too_long'
    });
    expect(sent).toEqual([]);
  });
});

describe('the parts of a long call', () => {
  it('are short, numbered, whole characters, and add up', () => {
    const text = `${'x'.repeat(PART_CHARS - 1)}😀${'y'.repeat(PART_CHARS)}`;
    const parts = split('call', 'id', 'page', text);

    expect(parts.map(one => one.part)).toEqual([1, 2, 3]);
    expect(parts.every(one => one.parts === 3 && one.text.length <= PART_CHARS)).toBe(true);
    expect(parts.every(one => one.text.isWellFormed())).toBe(true);
    expect(parts.map(one => one.text).join('')).toBe(text);
  });
});
