// @vitest-environment happy-dom
import { expect, it, vi } from 'vitest';

import { highlight } from '../widget/highlight';
import { ACT } from '../acts';
import { OutputHost } from '../widget/host';
import { drawMarkdown } from '../widget/markdown';
import { WidgetLink } from '../widget/link';
import { drawOutputs } from '../widget/outputs';

type Told = Readonly<Record<string, unknown>>;

/** A widget's model, and the kernel behind it. */
class Model {
  readonly sent: Told[] = [];
  private readonly _heard = new Map<string, Set<(data: unknown) => void>>();

  get(): unknown {
    return 'cell';
  }

  send(content: unknown): void {
    this.sent.push(content as Told);
  }

  on(event: string, callback: (data: never) => void): void {
    const known = this._heard.get(event) ?? new Set();
    this._heard.set(event, known.add(callback as (data: unknown) => void));
  }

  off(event: string, callback: (data: never) => void): void {
    this._heard.get(event)?.delete(callback as (data: unknown) => void);
  }

  fire(event: string, data?: unknown): void {
    this._heard.get(event)?.forEach(callback => {
      callback(data);
    });
  }

  get listeners(): number {
    return [...this._heard.values()].reduce((sum, some) => sum + some.size, 0);
  }

  /** The calls that were made, by operation. */
  get ops(): unknown[] {
    return this.sent
      .filter(one => one['type'] === 'call')
      .map(one => (JSON.parse(String(one['text'])) as Told)['op']);
  }

  refuse(kind: string): void {
    const call = this.sent.filter(one => one['type'] === 'call').at(-1);
    const text = JSON.stringify({ ok: false, error: { kind, message: 'No.' } });
    const { id, client: to } = call as Told;
    this.fire('msg:custom', { version: 1, type: 'answer', id, to, part: 1, parts: 1, text });
  }
}

it('says hello and opens the conversation, and again a while after it was refused', async () => {
  vi.useFakeTimers();
  const model = new Model();
  const link = new WidgetLink(model, () => undefined);
  expect(model.sent[0]).toEqual({ version: 1, type: 'hello' });
  expect(model.ops).toEqual(['open']);

  model.refuse('busy');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(link.feed.state.is).toBe('busy');
  expect(model.ops).toEqual(['open']);
  await vi.advanceTimersByTimeAsync(1_500);
  expect(model.ops).toEqual(['open', 'open']);
  vi.useRealTimers();
  link.dispose();
});

it('asks anew where a call was lost behind a running cell', async () => {
  vi.useFakeTimers();
  const model = new Model();
  const link = new WidgetLink(model, () => undefined);
  await vi.advanceTimersByTimeAsync(8_000);
  const calls = model.sent.map(message => (message as { id?: string }).id);
  expect(new Set(calls.filter(id => id !== undefined)).size).toBe(2);
  expect(new Set(model.ops)).toEqual(new Set(['open']));
  vi.useRealTimers();
  link.dispose();
});

it('knows that its kernel is gone, and asks nothing then', async () => {
  const model = new Model();
  const link = new WidgetLink(model, () => undefined);
  model.fire('comm_live_update');
  expect(link.isGone).toBe(true);
  await expect(link.ask('stop', {})).rejects.toMatchObject({ kind: 'absent' });
  expect(model.ops).toEqual(['open']);
  link.dispose();
});

it('leaves nothing behind, and tells the kernel that it goes', () => {
  const model = new Model();
  const link = new WidgetLink(model, () => undefined);
  link.dispose();
  expect(model.listeners).toBe(0);
  expect(model.sent.at(-1)).toMatchObject({ type: 'bye', version: 1 });
});

it('takes no harm of what is no message', () => {
  const model = new Model();
  const link = new WidgetLink(model, () => undefined);
  for (const data of [null, 3, 'x', [], {}, { type: 'answer', version: 1 }, { type: 'panel' }]) {
    model.fire('msg:custom', data);
  }
  expect(link.isGone).toBe(false);
  link.dispose();
});

it.each([
  'x = 1\n',
  'def f(a="#", b=\'\\\'\'):\n  return rb"""x""" # note\n',
  '"""open',
  'önün = "ü" if not_in else 0x1F',
  ''
])('colours code and changes no character: %j', code => {
  const node = document.createElement('code');
  highlight(code, 'python', node);
  expect(node.textContent).toBe(code);
});

it('tells strings, comments, words and numbers', () => {
  const node = document.createElement('code');
  highlight('if x: y = f"a" # b\nnotin = 12', 'py', node);
  const found = [...node.children].map(one => [one.className, one.textContent]);
  expect(found).toEqual([
    ['jctx-tok-keyword', 'if'],
    ['jctx-tok-string', 'f"a"'],
    ['jctx-tok-comment', '# b'],
    ['jctx-tok-number', '12']
  ]);
});

it('draws text, errors and pictures of outputs, without colours of a terminal', () => {
  const node = document.createElement('div');
  drawOutputs(
    [
      { output_type: 'stream', name: 'stdout', text: ['a\n', '\u001b[31mb\u001b[0m'] },
      { output_type: 'error', ename: 'E', evalue: 'v', traceback: [] },
      { output_type: 'display_data', data: { 'image/png': 'iVBORw0K\n', 'text/plain': 'Fig' } },
      { output_type: 'display_data', data: { 'application/x': 1, 'text/plain': 'plain' } },
      null
    ],
    node
  );
  expect(node.children[0]?.textContent).toBe('a\nb');
  expect(node.children[1]?.textContent).toBe('E: v');
  expect(node.querySelector('img')?.getAttribute('src')).toBe('data:image/png;base64,iVBORw0K');
  expect(node.querySelector('img')?.alt).toBe('Fig');
  expect(node.children[3]?.textContent).toBe('plain');
});

it('reaches cells only where the page around says that it does', () => {
  const node = document.createElement('div');
  const host = new OutputHost(() => Promise.resolve({}), node);
  document.body.append(node);
  expect(host.reachesCells).toBe(false);

  const heard: unknown[] = [];
  const serve = (event: Event): void => {
    heard.push((event as CustomEvent).detail);
    event.preventDefault();
  };
  document.addEventListener(ACT, serve);
  expect(host.reachesCells).toBe(true);
  host.insertBelow('a = 1');
  host.openCell('c5');
  expect(heard).toEqual([
    { op: 'look', text: '' },
    { op: 'insert', text: 'a = 1' },
    { op: 'open', text: 'c5' }
  ]);
  document.removeEventListener(ACT, serve);
  node.remove();
});

it('shows a dollar that the kernel wrote for MathJax as a dollar, in code as it is', () => {
  const node = document.createElement('div');
  drawMarkdown('\\\\$0 in, \\\\$1 out, \\$2, $3 and `\\\\$4`', node);
  expect(node.textContent.trim()).toBe('$0 in, $1 out, $2, $3 and \\\\$4');
});
