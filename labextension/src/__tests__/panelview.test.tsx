// @vitest-environment happy-dom
import * as React from 'react';
import { act } from 'react';
import { createRoot } from 'react-dom/client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { IConversation } from '../conversation';
import { reduce } from '../fold';
import { CallError } from '../host';
import type { Item } from '../panel';
import { Place } from '../view/context';
import { NO_ACTIONS } from '../view/panel';
import { digestOf, INERT_MS, Permission } from '../view/permission';
import { itemsOf, SCENES } from './panelfixtures';
import { BEGUN, Stage } from './stage';

let stage: Stage;

beforeEach(() => {
  stage = new Stage();
});

afterEach(() => {
  vi.restoreAllMocks();
  stage.end();
});

function fold(items: readonly Item[], from: IConversation = BEGUN): IConversation {
  return items.reduce(reduce, from);
}

/** The items of a fixture up to the first of a kind, that one included. */
function until(name: string, kind: Item['kind']): Item[] {
  const items = itemsOf(SCENES.get(name)?.items ?? []);
  return items.slice(0, items.findIndex(item => item.kind === kind) + 1);
}

const STARTED: Item = {
  kind: 'turn_started',
  turn: 1,
  prompt: 'Why?',
  origin: 'panel',
  cell_id: null,
  at: 0,
  attachments: []
};

const RUNNING = fold([STARTED, { kind: 'step_started', turn: 1, step: 1 }]);

describe('an answer that streams', () => {
  it('draws a finished block once, and only the last one while it grows', async () => {
    const words = Array.from({ length: 2000 }, (_, at) => (at % 20 === 19 ? 'end.\n\n' : 'word '));
    let conversation = RUNNING;
    await stage.show(conversation);
    let at = 0;
    for (const text of words) {
      conversation = reduce(conversation, { kind: 'text_delta', turn: 1, block: 1, text });
      at += 1;
      if (at % 25 === 0) {
        await stage.show(conversation);
      }
    }
    const { drawn } = stage.host;
    const blocks = stage.all('.jctx-md').map(node => node.textContent);

    expect(blocks).toHaveLength(100);
    expect(blocks.join('')).toBe(words.join('').replaceAll('\n', ''));
    expect(drawn.length).toBeLessThanOrEqual(2 * (words.length / 25 + blocks.length));
    const whole = drawn.filter(text => text.endsWith('end.'));
    expect(whole.length).toBe(blocks.length);
  });

  it('renders once a frame, however many deltas come', async () => {
    await stage.show(RUNNING);
    let conversation = RUNNING;
    for (let at = 0; at < 500; at += 1) {
      conversation = reduce(conversation, { kind: 'text_delta', turn: 1, block: 1, text: 'a' });
    }
    await stage.show(conversation);

    expect(stage.host.drawn).toEqual(['a'.repeat(500)]);
  });

  it('reserves the row of a code block while its actions are absent', async () => {
    stage.actions = { ...NO_ACTIONS, canInsert: true };
    const open = reduce(RUNNING, { kind: 'text_delta', turn: 1, block: 1, text: '```py\na = 1\n' });
    await stage.show(open);
    expect(stage.all('.jctx-code .acts')).toHaveLength(1);
    expect(stage.all('.jctx-code button')).toHaveLength(0);

    await stage.show(reduce(open, { kind: 'text_delta', turn: 1, block: 1, text: '```\n' }));
    await stage.click(stage.button('Insert below'));
    await stage.click(stage.button('Copy'));
    expect(stage.host.inserted).toEqual(['a = 1']);
    expect(stage.host.copied).toEqual(['a = 1']);
  });

  it('tells whole paragraphs to a screen reader, no tokens', async () => {
    const told = (): string => stage.find('[aria-label="Answer"]').textContent;
    const first = reduce(RUNNING, { kind: 'text_delta', turn: 1, block: 1, text: 'It is' });
    await stage.show(first);
    expect(told()).toBe('');
    const second = reduce(first, {
      kind: 'text_delta',
      turn: 1,
      block: 1,
      text: ' the join.\n\nThe data'
    });
    await stage.show(second);
    expect(told()).toBe('It is the join.');
    expect(stage.find('[role="log"]').getAttribute('aria-live')).toBe('off');
  });
});

describe('a permission', () => {
  const items = until('turn_question', 'question');
  const asked = fold(items);
  const ask = (): HTMLElement => stage.find('.jctx-ask');

  it('is answered with the sha256 of what it shows', () => {
    const question = asked.question;

    expect(question).not.toBeNull();
    expect(question && digestOf(question)).toBe(question?.sha256);
  });

  it('shows the whole code, says that it is seen, and is told at once', async () => {
    await stage.show(asked);

    expect(ask().querySelector('pre')?.textContent).toBe(asked.question?.text);
    expect(stage.host.told('seen')).toEqual([{ question: 'q1' }]);
    expect(stage.find('.jctx-panel > [role="alert"]').textContent).toContain(asked.question?.title);
    expect(ask().dataset['lmSuppressShortcuts']).toBe('true');
  });

  it('goes through the changes of its step by J and K, and takes an answer to its own only', async () => {
    const question = asked.question && {
      ...asked.question,
      change: { op: 'edit', cell_id: 'c4', source: 'a = 1', cell_type: null, after: null } as const
    };
    await stage.show({ ...asked, question });
    await stage.pass(INERT_MS + 1);
    const text = asked.question?.text;
    const seen = (): string | undefined => ask().querySelector('pre')?.textContent;
    expect(ask().textContent).toContain('2 proposed changes 1 of 2');

    await stage.press(ask(), 'j');
    expect(seen()).toBe('churn.plot()');
    await stage.press(ask(), 'y');
    expect(stage.host.told('decide')).toEqual([]);
    await stage.press(ask(), 'k');
    expect(seen()).toBe(text);
    await stage.press(ask(), 'k');
    expect(seen()).toBe('churn.plot()');
    await stage.click(stage.button('Next change'));
    await stage.press(ask(), 'y');
    expect(stage.host.told('decide')).toHaveLength(1);
  });

  it('leaves J to others where one thing alone is asked', async () => {
    await stage.show(asked);
    expect(await stage.press(ask(), 'j')).toBe(false);
  });

  it('takes no answer before it was seen long enough', async () => {
    await stage.show(asked);
    await stage.pass(INERT_MS - 100);
    await stage.click(stage.button('Allow once'));
    await stage.press(ask(), 'y');
    expect(stage.host.told('decide')).toEqual([]);

    await stage.pass(200);
    await stage.click(stage.button('Allow once'));
    expect(stage.host.told('decide')).toEqual([
      { question: 'q1', sha256: asked.question?.sha256, choice: 'once', word: '', reason: '' }
    ]);
  });

  it('takes no click and no key that a script made', async () => {
    await stage.show(asked);
    await stage.pass(2 * INERT_MS);
    for (const name of ['Allow once', 'Allow for', 'Deny…']) {
      await stage.click(stage.button(name), false);
    }
    for (const key of ['y', 'a', 'n']) {
      await stage.press(ask(), key, {}, false);
    }

    expect(stage.host.told('decide')).toEqual([]);
    expect(stage.all('.jctx-ask input')).toHaveLength(0);
  });

  it('says of every answer for the session that it is one, and what it would cover', async () => {
    const offers = [
      { word: '', label: 'edit cell 4' },
      { word: 'any', label: 'edit any cell' }
    ];
    await stage.show({ ...asked, question: asked.question && { ...asked.question, offers } });

    const buttons = stage.all('.jctx-ask .btns button').map(one => one.textContent);
    expect(buttons[0]).toBe('Allow once Y');
    expect(buttons[2]).toBe('For session: edit any cell');
    expect(stage.find('.jctx-ask').textContent).toContain('For session: edit cell 4, until');
  });

  it.each([
    ['y', 'once', ''],
    ['Y', 'once', ''],
    ['a', 'always', '']
  ])('is answered by %s', async (key, choice, word) => {
    await stage.show(asked);
    await stage.pass(2 * INERT_MS);

    expect(await stage.press(ask(), key)).toBe(true);
    expect(stage.host.told('decide')).toMatchObject([{ choice, word }]);
  });

  it.each([{ ctrlKey: true }, { metaKey: true }, { altKey: true }])(
    'leaves chords to others: %o',
    async init => {
      await stage.show(asked);
      await stage.pass(2 * INERT_MS);

      expect(await stage.press(ask(), 'y', init)).toBe(false);
      expect(stage.host.told('decide')).toEqual([]);
    }
  );

  it('hands its focus to the prompt when it goes, and takes none that is elsewhere', async () => {
    const prompt = (): HTMLElement => stage.find('.jctx-box > textarea');
    await stage.show(asked);
    await stage.pass(2 * INERT_MS);
    stage.button('Allow once').focus();
    await stage.click(stage.button('Allow once'));
    await stage.show({ ...asked, question: null });
    expect(document.activeElement).toBe(prompt());

    prompt().blur();
    await stage.show(asked);
    await stage.show({ ...asked, question: null });
    expect(document.activeElement).toBe(document.body);
  });

  it('hands a letter that answers nothing to the prompt, with all that is typed after', async () => {
    await stage.show({ ...asked, question: null });
    const prompt = stage.find('.jctx-box > textarea');
    prompt.focus();
    await stage.show(asked);
    expect(document.activeElement).toBe(ask());

    expect(await stage.press(ask(), 'y')).toBe(true); // too early: it answers nothing
    expect(document.activeElement).toBe(ask());
    expect(await stage.press(ask(), 'e')).toBe(false); // the browser puts it where the focus is
    expect(document.activeElement).toBe(prompt);
    expect(stage.host.told('decide')).toEqual([]);
  });

  it('hands its focus to what stands around it where there is no prompt', () => {
    const cell = document.createElement('div');
    cell.tabIndex = -1;
    document.body.append(cell);
    const root = createRoot(cell);
    const draw = (question: React.ReactNode): void => {
      act(() => {
        const place = { host: stage.host, actions: NO_ACTIONS };
        root.render(<Place.Provider value={place}>{question}</Place.Provider>);
      });
    };
    draw(asked.question && <Permission question={asked.question} takesFocus={true} />);
    expect(cell.contains(document.activeElement)).toBe(true);
    draw(null);
    expect(document.activeElement).toBe(cell);
    act(() => {
      root.unmount();
    });
    cell.remove();
  });

  it('is answered once, whatever is pressed after', async () => {
    await stage.show(asked);
    await stage.pass(2 * INERT_MS);
    await stage.press(ask(), 'y');
    await stage.press(ask(), 'a');
    await stage.click(stage.button('Allow once'));

    expect(stage.host.told('decide')).toHaveLength(1);
  });

  it('is denied with a reason; letters are text there, Escape goes back', async () => {
    await stage.show(asked);
    await stage.pass(2 * INERT_MS);
    await stage.press(ask(), 'n');
    const field = stage.find('.jctx-ask input') as HTMLInputElement;
    expect(await stage.press(field, 'y')).toBe(false);
    await stage.press(field, 'Escape');
    expect(stage.all('.jctx-ask input')).toHaveLength(0);

    await stage.press(ask(), 'n');
    const again = stage.find('.jctx-ask input') as HTMLInputElement;
    await stage.type('use the id columns only', again);
    await stage.press(again, 'Enter', {}, false);
    expect(stage.host.told('decide')).toEqual([]);
    await stage.press(again, 'Enter');
    expect(stage.host.told('decide')).toMatchObject([
      { choice: 'deny', word: '', reason: 'use the id columns only' }
    ]);
  });

  it('never hands its answer on to the next question', async () => {
    await stage.show(asked);
    await stage.pass(2 * INERT_MS);
    const next = asked.question && { ...asked.question, id: 'q2', text: 'rm -rf' };
    await stage.show({ ...asked, question: next });
    await stage.press(ask(), 'y');
    expect(stage.host.told('decide')).toEqual([]);

    await stage.pass(2 * INERT_MS);
    await stage.press(ask(), 'y');
    expect(stage.host.told('decide')).toMatchObject([{ question: 'q2' }]);
    expect(stage.host.told('decide')[0]?.['sha256']).not.toBe(asked.question?.sha256);
  });

  it('stays, with the reason, where the answer did not arrive', async () => {
    stage.host.answers.set('decide', new CallError('gone', 'This question is closed.'));
    await stage.show(asked);
    await stage.pass(2 * INERT_MS);
    await stage.press(ask(), 'y');

    expect(stage.find('.jctx-ask [role="alert"]').textContent).toBe('This question is closed.');
  });
});

describe('the prompt', () => {
  it.each([
    ['enter', false, true],
    ['enter', true, false],
    ['shift-enter', false, false],
    ['shift-enter', true, true]
  ] as const)('sends on %s: shift %s, sent %s', async (sendOn, shiftKey, isSent) => {
    stage.actions = { ...NO_ACTIONS, sendOn };
    await stage.show(BEGUN);
    await stage.type('Why?');
    await stage.press(stage.prompt, 'Enter', { shiftKey });

    expect(stage.host.told('submit')).toEqual(isSent ? [{ text: 'Why?', images: [] }] : []);
    expect(stage.prompt.value).toBe(isSent ? '' : 'Why?');
  });

  it('does not send while a character is being composed', async () => {
    await stage.show(BEGUN);
    await stage.type('かな');
    await stage.press(stage.prompt, 'Enter', { isComposing: true });

    expect(stage.host.told('submit')).toEqual([]);
  });

  it('sends nothing that is empty', async () => {
    await stage.show(BEGUN);
    await stage.type('  \n');
    await stage.click(stage.button('Send'));

    expect(stage.host.told('submit')).toEqual([]);
  });

  it('keeps what was refused, in front of what was typed meanwhile', async () => {
    stage.host.answers.set(
      'submit',
      new CallError('refused', 'No variable, cell or file is called @cohrt.')
    );
    await stage.show(BEGUN);
    await stage.type('plot @cohrt');
    await stage.press(stage.prompt, 'Enter');

    expect(stage.prompt.value).toBe('plot @cohrt');
    expect(stage.find('.jctx-dock [role="alert"]').textContent).toContain('@cohrt');
  });

  it('takes a prompt back that could not run, once', async () => {
    await stage.show(BEGUN);
    const failed: Item = { kind: 'failed', id: 'p1', title: 'No key', detail: '', text: 'Why?' };
    const after = reduce(BEGUN, failed);
    await stage.show(after);
    expect(stage.prompt.value).toBe('Why?');
    await stage.type('');
    await stage.show({ ...after, log: [...after.log] });
    expect(stage.prompt.value).toBe('');
  });

  it('goes through the prompts of the conversation, and back to the draft', async () => {
    const told = fold([
      { ...STARTED, prompt: 'first' },
      ...itemsOf(SCENES.get('turn_tools')?.items ?? []).filter(
        ({ kind }) => kind === 'turn_finished'
      ),
      { ...STARTED, turn: 2, prompt: 'second' }
    ]);
    await stage.show(told);
    await stage.type('draft');
    const seen: string[] = [];
    for (const key of ['ArrowUp', 'ArrowUp', 'ArrowUp', 'ArrowDown', 'ArrowDown']) {
      await stage.press(stage.prompt, key);
      seen.push(stage.prompt.value);
    }

    expect(seen).toEqual(['second', 'first', 'first', 'second', 'draft']);
  });

  it('goes first to what was sent last, also where a command was sent before it', async () => {
    stage.host.answers.set('submit', { id: 'p1', queued: false });
    await stage.show(BEGUN);
    for (const text of ['/cost', 'first']) {
      await stage.type(text);
      await stage.press(stage.prompt, 'Enter');
    }
    await stage.show(
      fold([
        { ...STARTED, prompt: 'earlier' },
        { ...STARTED, turn: 2, prompt: 'first' }
      ])
    );
    const seen: string[] = [];
    for (let presses = 0; presses < 3; presses += 1) {
      await stage.press(stage.prompt, 'ArrowUp');
      seen.push(stage.prompt.value);
    }

    expect(seen).toEqual(['first', '/cost', 'earlier']);
  });

  it('leaves the arrows to a text of several lines', async () => {
    await stage.show(RUNNING);
    await stage.type('one\ntwo');

    expect(await stage.press(stage.prompt, 'ArrowUp')).toBe(false);
    expect(stage.prompt.value).toBe('one\ntwo');
  });

  it('completes the word at the caret, and nothing else', async () => {
    stage.host.answers.set('complete', {
      from: 5,
      items: [
        { text: '@cohort', detail: 'Series 12', kind: 'variable' },
        { text: '@costs', detail: 'DataFrame', kind: 'variable' }
      ]
    });
    await stage.show(BEGUN);
    await stage.type('plot @co');
    const options = stage.all('[role="option"]');
    expect(options.map(option => option.querySelector('code')?.textContent)).toEqual([
      '@cohort',
      '@costs'
    ]);
    await stage.press(stage.prompt, 'ArrowDown');
    const chosen = stage.find('[aria-selected="true"]');
    expect(stage.prompt.getAttribute('aria-activedescendant')).toBe(chosen.id);
    await stage.press(stage.prompt, 'Enter');
    expect(stage.prompt.value).toBe('plot @costs ');
    expect(stage.all('[role="listbox"]')).toHaveLength(0);
    expect(stage.find('.jctx-att').textContent).toBe('@costsDataFrame');
    expect(stage.host.told('submit')).toEqual([]);
  });

  it('sends what is typed out, and what is only begun by @', async () => {
    stage.host.answers.set('complete', {
      from: 0,
      items: [{ text: '/compact', detail: '', kind: 'command' }]
    });
    await stage.show(BEGUN);
    await stage.type('/compact');
    await stage.press(stage.prompt, 'Enter');

    expect(stage.host.told('submit')).toEqual([{ text: '/compact', images: [] }]);
  });

  it('closes the list on Escape, and takes nothing', async () => {
    stage.host.answers.set('complete', {
      from: 0,
      items: [{ text: '@df', detail: '', kind: 'variable' }]
    });
    await stage.show(RUNNING);
    await stage.type('@d');
    await stage.press(stage.prompt, 'Escape');

    expect(stage.all('[role="listbox"]')).toHaveLength(0);
    expect(stage.prompt.value).toBe('@d');
    expect(stage.host.told('stop')).toEqual([]);
  });

  it('takes images that are pasted, and tells what it cannot take', async () => {
    await stage.show(BEGUN);
    const files = [
      new File(['png'], 'plot.png', { type: 'image/png' }),
      new File(['%PDF'], 'paper.pdf', { type: 'application/pdf' })
    ];
    const paste = new Event('paste', { bubbles: true, cancelable: true });
    Object.defineProperty(paste, 'clipboardData', { value: { files } });
    await stage.send(stage.prompt, paste);
    await stage.pass(17);
    expect(stage.find('.jctx-att').textContent).toContain('plot.png');
    expect(stage.find('.jctx-dock [role="alert"]').textContent).toContain('paper.pdf is no image');
    await stage.click(stage.button('Send'));
    expect(stage.host.told('submit')).toEqual([
      { text: '', images: [{ media_type: 'image/png', data: btoa('png'), name: 'plot.png' }] }
    ]);
    expect(stage.all('.jctx-att')).toHaveLength(0);
  });

  it('takes text that is dropped', async () => {
    await stage.show(BEGUN);
    const drop = new Event('drop', { bubbles: true, cancelable: true });
    const dataTransfer = { files: [], types: ['text/plain'], getData: () => '@df' };
    Object.defineProperty(drop, 'dataTransfer', { value: dataTransfer });
    await stage.send(stage.find('.jctx-input'), drop);

    expect(stage.prompt.value).toBe('@df ');
  });

  it('takes a mention where the caret is', async () => {
    await stage.show(BEGUN);
    await stage.type('explain');
    await stage.act(() => {
      stage.handle.current?.insert('@cell:4');
    });
    await stage.pass(17);

    expect(stage.prompt.value).toBe('explain @cell:4 ');
  });
});

describe('what runs', () => {
  const line = (): HTMLElement => stage.find('.jctx-run');

  it('is told in words; the seconds are not', async () => {
    await stage.show(RUNNING);
    expect(stage.find('.jctx-run [role="status"]').textContent).toBe('Thinking · step 1');
    const before = line().textContent;
    await stage.pass(3000);
    expect(line().textContent).not.toBe(before);
    expect(stage.find('.jctx-run [role="status"]').textContent).toBe('Thinking · step 1');
    expect(line().querySelector('[aria-hidden] svg, .quiet')?.getAttribute('aria-hidden')).toBe(
      'true'
    );
  });

  it('keeps Stop in its place, and its second press goes on to the kernel', async () => {
    await stage.show(BEGUN);
    expect(stage.button('Stop').disabled).toBe(true);
    await stage.show(RUNNING);
    await stage.click(stage.find('.bar .stop'));
    expect(stage.find('.bar .stop').textContent).toContain('Stopping…');
    await stage.click(stage.find('.bar .stop'));
    expect(stage.host.told('stop')).toHaveLength(2);
    await stage.show(BEGUN);
    expect((stage.find('.bar .stop') as HTMLButtonElement).disabled).toBe(true);
    expect(stage.find('.bar .jctx-stopword').textContent).toBe('Stop');
  });

  it('queues what is sent meanwhile; a queued prompt is edited or removed', async () => {
    const queued: Item = { kind: 'queued', id: 'p2', text: 'then plot', attachments: [] };
    await stage.show(fold([queued], RUNNING));
    expect(stage.find('.bar .send').textContent).toContain('Queue');
    expect(stage.find('.jctx-queue').textContent).toContain('[2]then plot');
    stage.host.answers.set('prompt', { text: 'then plot it all' });
    await stage.click(stage.button('Edit queued prompt'));
    expect(stage.host.told('prompt')).toEqual([{ turn: null, id: 'p2' }]);
    expect(stage.host.told('unqueue')).toEqual([{ id: 'p2' }]);
    expect(stage.prompt.value).toBe('then plot it all');
    await stage.click(stage.button('Remove queued prompt'));
    expect(stage.host.told('unqueue')).toHaveLength(2);
  });

  it('says that it waits for a cell of the user to end, and no longer than it does', async () => {
    const awaited = (is_waiting: boolean): Item => ({ kind: 'kernel_awaited', is_waiting });
    await stage.show(fold([awaited(true)], BEGUN));
    expect(stage.find('.jctx-run').textContent).toContain('Waiting for the kernel');
    await stage.show(fold([awaited(true), awaited(false)], RUNNING));
    expect(stage.find('.jctx-run').textContent).not.toContain('Waiting for the kernel');
  });

  it('counts a wait down without telling each second', async () => {
    const now = Date.now() / 1000;
    const retry: Item = {
      kind: 'retry_scheduled',
      turn: 1,
      step: 1,
      attempt: 3,
      attempts: 8,
      wait_s: 30,
      reason: 'Anthropic is overloaded (529).',
      at: now
    };
    await stage.show(fold([retry], RUNNING));
    const note = stage.find('.jctx-note');
    expect(note.textContent).toContain('Next try in 0:30');
    await stage.pass(12_000);
    expect(note.textContent).toContain('Next try in 0:18');
    expect(note.querySelector('[role="status"]')?.textContent).not.toMatch(/0:/);

    const button = (): HTMLButtonElement =>
      stage
        .all('.jctx-note button')
        .find(one => one.textContent === 'Try now') as HTMLButtonElement;
    await stage.click(button());
    expect(stage.host.told('try_now')).toEqual([{ turn: 1, step: 1, attempt: 3 }]);
    expect(button().disabled).toBe(true);
    await stage.show(fold([retry, { ...retry, attempt: 4 }], RUNNING));
    expect(button().disabled).toBe(false);
  });
});

describe('a turn', () => {
  it('folds its steps once it is over, unless the reader has one open', async () => {
    const items = itemsOf(SCENES.get('turn_tools')?.items ?? []);
    await stage.show(fold(items.slice(0, -1)));
    expect(stage.all('.jctx-tools > details').length).toBeGreaterThan(1);
    await stage.show(fold(items));
    expect(stage.all('.jctx-body > .jctx-tools > details')).toHaveLength(1);
    expect(stage.find('.jctx-tools summary').textContent).toContain('3 steps: inspected 1');
  });

  it('names its rows in words, a failure too', async () => {
    await stage.show(fold(itemsOf(SCENES.get('turn_tools')?.items ?? [])));

    expect(stage.find('.jctx-tools').textContent).toContain('Ran code, 1 line: 1/0 · failed');
    const tokens = stage.all('.jctx-tools summary .w').map(one => one.textContent);
    expect(tokens.filter(one => /^≈ \d+ tok$/.test(one)).length).toBeGreaterThan(2);
    expect(tokens.filter(one => one !== '' && !one.startsWith('≈ '))).toEqual([]);
  });

  it('is an article with its number, in a log', async () => {
    await stage.show(fold(itemsOf(SCENES.get('turn_tools')?.items ?? [])));

    expect(stage.find('[role="log"] article').getAttribute('aria-label')).toBe('Turn 1');
  });

  it('goes back only when asked twice, and then puts the prompt into the box', async () => {
    await stage.show(fold(itemsOf(SCENES.get('turn_tools')?.items ?? [])));
    await stage.click(stage.button('Edit'));
    expect(stage.host.told('rewind')).toEqual([]);
    stage.host.answers.set('prompt', { text: 'How does churn change by cohort, all of it?' });
    await stage.click(stage.button('Rewind and edit'));
    expect(stage.host.told('rewind')).toEqual([{ turn: 1 }]);
    expect(stage.prompt.value).toBe('How does churn change by cohort, all of it?');
  });

  it('stays where it is if its prompt cannot come back whole', async () => {
    await stage.show(fold(itemsOf(SCENES.get('turn_tools')?.items ?? [])));
    stage.host.answers.set('prompt', new Error('This prompt is too long to be edited here.'));
    await stage.click(stage.button('Edit'));
    await stage.click(stage.button('Rewind and edit'));

    expect(stage.host.told('rewind')).toEqual([]);
    expect(stage.prompt.value).toBe('');
    expect(stage.find('[role="alert"]').textContent).toContain('too long to be edited');
  });
});

describe('a figure', () => {
  it('is in sight without a click, in its place, and the other steps fold', async () => {
    const picture = { output_type: 'display_data', data: { 'image/png': 'AA==' }, metadata: {} };
    const line = { output_type: 'stream', name: 'stdout', text: 'x' };
    stage.host.answers.set('outputs', { outputs: [line, picture] });
    const items = itemsOf(SCENES.get('turn_figure')?.items ?? []);
    await stage.show(fold(items));

    expect(stage.host.told('outputs')).toEqual([{ tool_use_id: 'toolu_01' }]);
    expect(stage.host.rendered).toEqual([[picture]]);
    expect(stage.find('.jctx-outputs.figure').closest('details')).toBeNull();
    expect(stage.all('.jctx-body > .jctx-tools')).toHaveLength(2);
  });
});

describe('the rows of the log', () => {
  it('are gone through by the arrows', async () => {
    await stage.show(fold(itemsOf(SCENES.get('turn_tools')?.items ?? []).slice(0, -1)));
    vi.spyOn(Element.prototype, 'getClientRects').mockReturnValue([{}] as unknown as DOMRectList);
    const rows = stage.all('.jctx-tools summary');
    rows[0]?.focus();
    expect(await stage.press(rows[0] as HTMLElement, 'ArrowDown')).toBe(true);
    expect(document.activeElement).toBe(rows[1]);
    await stage.press(rows[1] as HTMLElement, 'ArrowRight');
    expect(rows[1]?.parentElement?.hasAttribute('open')).toBe(true);
    await stage.press(rows[1] as HTMLElement, 'ArrowLeft');
    expect(rows[1]?.parentElement?.hasAttribute('open')).toBe(false);
  });
});

describe('a question that nobody answered here', () => {
  it('says how it ended', async () => {
    const asked = fold(until('turn_question', 'question'));
    const closed: Item = { kind: 'question_closed', id: 'q1', how: 'elsewhere', reason: '' };
    await stage.show(reduce(asked, closed));

    expect(stage.all('.jctx-ask')).toHaveLength(0);
    expect(stage.find('.jctx-log').textContent).toContain('The question was answered elsewhere.');
  });
});

describe('a compaction', () => {
  it('asks for its summary when it is opened; Undo that is off says why', async () => {
    stage.host.answers.set('summary', {
      n: 1,
      trigger: 'manual',
      summary: 'The user counts.',
      replaced: { first_turn: 1, last_turn: 1, messages: 2 },
      tokens_before: 1000,
      tokens_after: 100,
      seconds: 1,
      cost_usd: null,
      reinjected: [],
      state: 'active',
      replaced_items: [{ ...STARTED, prompt: 'One?' }],
      undo: { ok: false, reason: 'Choose a larger model first.', price: '' }
    });
    await stage.show(fold(itemsOf(SCENES.get('turn_compaction')?.items ?? [])));
    const divider = stage.find('.jctx-compact') as HTMLDetailsElement;
    expect(stage.host.told('summary')).toEqual([]);
    // What a narrow panel cuts are the words; the figures are no part of them.
    expect(stage.find('.jctx-compact > summary > .cut').textContent).not.toContain('→');
    expect(stage.find('.jctx-compact > summary > .figures').textContent).toContain('→');
    await stage.act(() => {
      divider.open = true;
      divider.dispatchEvent(new Event('toggle'));
    });
    await stage.pass(17);
    expect(stage.host.told('summary')).toEqual([{ n: 1 }]);
    expect(divider.textContent).toContain('The user counts.');
    expect(divider.textContent).toContain('One?');
    expect(stage.button('Undo').disabled).toBe(true);
    const why = stage.button('Undo').getAttribute('aria-describedby') ?? '';
    expect(document.getElementById(why)?.textContent).toBe('Choose a larger model first.');
  });

  it('says of each kind what was put back, once, with the tokens of all its things', async () => {
    const back = (kind: string, id: string, tokens: number) => ({ kind, id, tokens });
    stage.host.answers.set('summary', {
      n: 1,
      trigger: 'manual',
      summary: 'Counted.',
      replaced: { first_turn: 1, last_turn: 2, messages: 4 },
      tokens_before: 5000,
      tokens_after: 3000,
      seconds: 1,
      cost_usd: null,
      parts: null,
      reinjected: [
        back('instruction', 'prompt-1', 10),
        back('instruction', 'prompt-2', 11),
        back('cell', 'c1', 100),
        back('pin', '1', 5),
        back('cell', 'c2', 200),
        back('plan', '1', 7),
        back('plan', '2', 8),
        back('variable', 'df', 3),
        back('news', 'x', 4)
      ],
      state: 'active',
      replaced_items: [],
      undo: { ok: true, reason: '', price: '' }
    });
    await stage.show(fold(itemsOf(SCENES.get('turn_compaction')?.items ?? [])));
    const divider = stage.find('.jctx-compact') as HTMLDetailsElement;
    await stage.act(() => {
      divider.open = true;
      divider.dispatchEvent(new Event('toggle'));
    });
    await stage.pass(17);
    const rows = stage
      .all('.jctx-compact tbody tr')
      .map(row => [...row.children].map(cell => cell.textContent).join(' | '));

    expect(rows).toEqual([
      'Your instructions, 2 | 21',
      'Source of cells c1, c2 | 300',
      'Pins, 1 | 5',
      'Plan, 2 steps | 15',
      'Kernel: 1 name | 3',
      'news, 1 | 4'
    ]);
  });
});

describe('every fixture', () => {
  it.each([...SCENES.keys()])(
    '%s is drawn, and puts no markup of its own into the page',
    async name => {
      await stage.show(fold(itemsOf(SCENES.get(name)?.items ?? [])));

      expect(stage.all('.jctx-log')).toHaveLength(1);
      expect(stage.all('script, iframe, img, [onerror]')).toHaveLength(0);
    }
  );
});

describe('the plan', () => {
  const plan: Item = {
    kind: 'plan_changed',
    turn: 1,
    items: [
      { text: 'Load', state: 'done' },
      { text: 'Clean', state: 'in_progress' },
      { text: 'Plot', state: 'pending' }
    ]
  };

  it('stands above the prompt: how far it is, what is done now, and all of it', async () => {
    await stage.show(reduce(RUNNING, plan));

    expect(stage.find('.jctx-plan > summary').textContent).toBe('Plan1 of 3· Clean');
    expect(stage.all('.jctx-plan li').map(node => node.textContent)).toEqual([
      'done: Load',
      'in progress: Clean',
      'to do: Plot'
    ]);
    await stage.show(reduce(RUNNING, { ...plan, items: [] }));
    expect(stage.all('.jctx-plan')).toEqual([]);
  });

  it('goes into the prompt to be edited, as the command reads it', async () => {
    await stage.show(reduce(RUNNING, plan));
    await stage.click(stage.button('Edit in the prompt'));
    await stage.pass(17);

    expect(stage.prompt.value).toBe('/plan edit\n- [x] Load\n- [>] Clean\n- [ ] Plot');
  });
});

describe('what was kept for later sessions', () => {
  const kept: Item = {
    kind: 'memory_changed',
    turn: 1,
    facts: ['Amounts are in cents.', 'Plots have titles.'],
    is_undone: false
  };

  it('is told where it was stated, and taken back by Undo, also while the turn runs', async () => {
    await stage.show(reduce(RUNNING, kept));
    await stage.click(stage.button('Undo'));

    expect(stage.host.told('forget')).toEqual([{ facts: kept.facts }]);
  });

  it('has Undo for what is left of it only', async () => {
    const one = reduce(reduce(RUNNING, kept), {
      ...kept,
      facts: ['Plots have titles.'],
      is_undone: true
    });
    await stage.show(one);
    expect(stage.all('.jctx-kept s').map(node => node.textContent)).toEqual(['Plots have titles.']);
    await stage.click(stage.button('Undo'));
    expect(stage.host.told('forget')).toEqual([{ facts: ['Amounts are in cents.'] }]);

    await stage.show(reduce(one, { ...kept, is_undone: true }));
    expect(stage.find('.jctx-note h3').textContent).toBe('Taken out of the memory');
    expect(stage.button('Undo').disabled).toBe(true);
  });

  it('says why it could not be taken back', async () => {
    await stage.show(reduce(RUNNING, kept));
    stage.host.answers.set('forget', new CallError('failed', 'The disk is full.'));
    await stage.click(stage.button('Undo'));
    await stage.pass(1);

    expect(stage.find('.jctx-note [role="alert"]').textContent).toBe('The disk is full.');
    expect(stage.button('Undo').disabled).toBe(false);
  });
});

describe('the models to pick from', () => {
  it('are asked for as the menu opens, each with what a switch would cost', async () => {
    const costs = 'window 200,000 tokens · ≈5,000 tokens, $0.01';
    stage.host.answers.set('models', {
      rows: [
        { name: 'demo', help: 'in use' },
        { name: 'claude-a', help: costs }
      ]
    });
    await stage.show({ ...BEGUN, models: ['claude-a'] });
    expect(stage.host.told('models')).toEqual([]);
    await stage.click(stage.find('[aria-label="Model: demo"]'));

    const rows = stage.all('.jctx-menu [role="menuitemradio"]').map(row => row.textContent);
    expect(rows).toEqual(['demo in use', `claude-a ${costs}`]);
    expect(stage.host.told('set_model')).toEqual([]);
  });
});

describe('the estimate of a prompt', () => {
  const shown = (): string | undefined => stage.all('.jctx-est')[0]?.textContent;

  it('is asked for once typing rests, and goes with the text', async () => {
    stage.host.answers.set('estimate', { tokens: 1640, mentions: 1 });
    await stage.show(BEGUN);
    await stage.type('Plot');
    await stage.pass(100);
    await stage.type('Plot @df');
    await stage.pass(250);
    expect(stage.host.told('estimate')).toEqual([]);
    await stage.pass(100);
    expect(stage.host.told('estimate')).toEqual([{ text: 'Plot @df', images: [] }]);
    expect(shown()).toBe('≈ 1,640 + @ tok');

    await stage.type('');
    expect(shown()).toBeUndefined();
  });

  it('is none of a command, nor where the kernel tells none', async () => {
    stage.host.answers.set('estimate', new CallError('unknown', 'There is no such operation.'));
    await stage.show(BEGUN);
    await stage.type('/compact');
    await stage.pass(400);
    expect(stage.host.told('estimate')).toEqual([]);
    await stage.type('Why?');
    await stage.pass(400);
    expect(stage.host.told('estimate')).toHaveLength(1);
    expect(shown()).toBeUndefined();
    expect(
      stage
        .all('[role="alert"]')
        .map(one => one.textContent)
        .join('')
    ).toBe('');
  });

  it('goes where a later one fails: an old figure would be of another text', async () => {
    stage.host.answers.set('estimate', { tokens: 12, mentions: 0 });
    await stage.show(BEGUN);
    await stage.type('Why?');
    await stage.pass(400);
    expect(shown()).toBe('≈ 12 tok');
    stage.host.answers.set('estimate', new CallError('internal', 'The kernel is gone.'));
    await stage.type('Why so?');
    await stage.pass(400);
    expect(shown()).toBeUndefined();
    expect(stage.prompt.value).toBe('Why so?');
  });
});
