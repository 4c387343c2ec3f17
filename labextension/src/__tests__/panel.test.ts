import { describe, expect, it } from 'vitest';

import { CALL_OPS, isRefused, parseItem, parsePanel, parseResult } from '../parse';
import { loadPanel, panelNames, SCENES } from './panelfixtures';

const HEAD = { version: 1, type: 'panel', epoch: 'e1', seq: 0 };
const DELTA = { kind: 'text_delta', turn: 1, block: 1, text: 'a' };

describe('parsePanel', () => {
  it.each([...SCENES.keys()])('takes %s as it is', name => {
    const items = SCENES.get(name)?.items;

    expect(parsePanel({ ...HEAD, items })).toEqual({ type: 'panel', epoch: 'e1', seq: 0, items });
  });

  it.each(panelNames('refused/'))('refuses %s with a sentence', name => {
    expect(parsePanel(loadPanel(`refused/${name}`))).toEqual({
      type: 'refused',
      reason: expect.stringMatching(/^[A-Z].*\.$/) as string
    });
  });

  it('refuses a message whole if one of its items cannot be read', () => {
    expect(isRefused(parsePanel({ ...HEAD, items: [DELTA, { ...DELTA, turn: NaN }] }))).toBe(true);
  });

  it('takes only the fields it knows', () => {
    expect(parseItem({ ...DELTA, html: '<script>' })).toEqual(DELTA);
  });

  it('never throws, whatever comes', () => {
    const deep: unknown[] = [];
    let inner = deep;
    for (let depth = 0; depth < 5_000; depth += 1) {
      const next: unknown[] = [];
      inner.push(next);
      inner = next;
    }
    const tool = { kind: 'tool_started', turn: 1, step: 1, tool_use_id: 't', name: 'n', label: '' };
    const odd = [undefined, null, 3, 'x', [], {}, () => 1, Symbol('x'), 10n, { ...HEAD }];

    for (const data of [...odd, { ...HEAD, items: [{ ...tool, input: { deep } }] }]) {
      expect(isRefused(parsePanel(data))).toBe(true);
      expect(isRefused(parseItem(data))).toBe(true);
    }
  });

  it('says what is wrong in few words, however large it is', () => {
    const refused = parseItem({ ...DELTA, turn: 'x'.repeat(5_000_000) });

    expect(isRefused(refused) && refused.reason.length).toBeLessThan(200);
  });

  it('takes a __proto__ in an input as a name like any other', () => {
    const told = JSON.parse(
      '{"kind":"tool_started","turn":1,"step":1,"tool_use_id":"t","name":"n","label":"",' +
        '"input":{"__proto__":{"polluted":true},"code":"1"}}'
    ) as unknown;
    const item = parseItem(told);

    expect(isRefused(item)).toBe(false);
    expect(item).toHaveProperty('input.code', '1');
    expect(item).not.toHaveProperty('input.polluted');
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  it('refuses half a character inside an input', () => {
    const tool = { kind: 'tool_started', turn: 1, step: 1, tool_use_id: 't', name: 'n', label: '' };

    expect(isRefused(parseItem({ ...tool, input: { a: ['\ud83d'] } }))).toBe(true);
    expect(isRefused(parseItem({ ...tool, input: { a: ['\ud83d\udcc8'] } }))).toBe(false);
  });
});

describe('the calls', () => {
  it('are those that the kernel carries out', () => {
    const { calls } = loadPanel('calls') as { readonly calls: readonly { readonly op: string }[] };

    expect([...CALL_OPS].sort()).toEqual([...new Set(calls.map(({ op }) => op))].sort());
  });
});

describe('parseResult', () => {
  it('takes the answer to open as it is', () => {
    const { result } = loadPanel('open') as { result: object };

    expect(parseResult('open', result)).toEqual(result);
  });

  it.each(Object.keys((loadPanel('open') as { result: object }).result))(
    'refuses an answer to open without %s',
    name => {
      const { result } = loadPanel('open') as { result: Record<string, unknown> };
      const rest = Object.fromEntries(Object.entries(result).filter(([key]) => key !== name));

      expect(isRefused(parseResult('open', rest))).toBe(true);
    }
  );

  it('refuses an item of another kind in the place of the session', () => {
    const { result } = loadPanel('open') as { result: object };

    expect(isRefused(parseResult('open', { ...result, session: DELTA }))).toBe(true);
  });

  it('takes the results of small calls', () => {
    expect(parseResult('submit', { id: 'p1', queued: true })).toEqual({ id: 'p1', queued: true });
    expect(parseResult('result', { text: 'a', next: null, chars: 1 })).toHaveProperty('next', null);
    expect(parseResult('stop', { anything: 1 })).toEqual({});
    expect(parseResult('configure', { refused: { model: 'No.' } })).toEqual({
      refused: { model: 'No.' }
    });
    expect(isRefused(parseResult('configure', { refused: { model: 1 } }))).toBe(true);
    expect(isRefused(parseResult('stop', null))).toBe(true);
  });
});

describe('the list of sessions', () => {
  const { result } = loadPanel('sessions') as { result: { rows: Record<string, unknown>[] } };

  it('is taken as it is, hostile texts as texts', () => {
    expect(parseResult('sessions', result)).toEqual(result);
  });

  it.each(Object.keys(result.rows[0] ?? {}))('is refused where a row has no %s', name => {
    const [first, ...others] = result.rows;
    const row = Object.fromEntries(Object.entries(first ?? {}).filter(([key]) => key !== name));

    expect(isRefused(parseResult('sessions', { ...result, rows: [row, ...others] }))).toBe(true);
  });
});

it('reads what each part of the window held before and after a compaction', () => {
  const { result } = loadPanel('summary') as { result: unknown };
  const summary = parseResult('summary', result);
  if (isRefused(summary) || !summary.parts) {
    throw new Error('the fixture was not read');
  }
  const sum = (parts: Readonly<Record<string, number>>): number =>
    Object.values(parts).reduce((all, one) => all + one, 0);
  expect(sum(summary.parts.before)).toBe(summary.tokens_before);
  expect(sum(summary.parts.after)).toBe(summary.tokens_after);
  const older = { ...(result as Record<string, unknown>) };
  delete older['parts'];
  expect(parseResult('summary', older)).toMatchObject({ parts: null });
});
