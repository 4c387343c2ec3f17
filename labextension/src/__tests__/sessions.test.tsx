// @vitest-environment happy-dom
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { CallError } from '../host';
import type { IQuestion, ISessionRow, ISessions } from '../panel';
import { formatWhen, groupRows, markWords } from '../sessions';
import { loadPanel } from './panelfixtures';
import { BEGUN, Stage } from './stage';

const NOON = new Date(2026, 10, 30, 12).getTime(); // a Monday
const HOUR_S = 3600;

function row(id: string, more: Partial<ISessionRow> = {}): ISessionRow {
  return {
    id,
    title: `Title ${id}`,
    notebook: 'churn.ipynb',
    turns: 7,
    cost_usd: 1.06,
    updated: NOON / 1000 - HOUR_S,
    state: '',
    found: '',
    excerpt: '',
    ...more
  };
}

const QUESTION: IQuestion = {
  kind: 'question',
  id: 'q',
  sha256: '',
  turn: 1,
  step: 1,
  tool_use_id: 't',
  verb: 'run code',
  title: 'The agent asks to run code:',
  text: '1',
  info: 'python',
  cell_id: null,
  change: null,
  offers: [],
  at: 0
};

function answer(rows: readonly ISessionRow[], more: Partial<ISessions> = {}): ISessions {
  return { rows, total: rows.length, trashed: [], ...more };
}

describe('groupRows', () => {
  it('names the days of the calendar, weeks from Monday on', () => {
    const hours = [1, 13, 40, 48, 8 * 24, 400 * 24];
    const rows = hours.map(ago => row(String(ago), { updated: NOON / 1000 - ago * HOUR_S }));

    expect(groupRows(rows, NOON).map(group => [group.name, group.rows.length])).toEqual([
      ['Today', 1],
      ['Yesterday', 1],
      ['Last week', 2],
      ['Earlier', 2]
    ]);
    const sunday = NOON + 6 * 24 * HOUR_S * 1000;
    expect(groupRows([row('m')], sunday).map(group => group.name)).toEqual(['This week']);
  });

  it('takes a time that is none', () => {
    expect(groupRows([row('a', { updated: 1e300 })], NOON)).toHaveLength(1);
  });
});

describe('formatWhen', () => {
  it('tells the time, the day, or the year', () => {
    const at = NOON / 1000;

    expect(formatWhen(at, NOON)).toBe('12:00');
    expect(formatWhen(at - 24 * HOUR_S, NOON)).toBe('12:00');
    expect(formatWhen(at - 6 * 24 * HOUR_S, NOON)).toBe('24 Nov');
    expect(formatWhen(at - 365 * 24 * HOUR_S, NOON)).toBe('30 Nov 2025');
    expect([formatWhen(0, NOON), formatWhen(1e300, NOON)]).toEqual(['', '']);
  });
});

describe('markWords', () => {
  it.each([
    ['…a Left  join on id', 'left join', ['Left  join']],
    ['joined', 'JOIN', ['join']],
    ['a (b) [c] .*', '.* (b)', ['(b)', '.*']],
    ['nothing', 'left join', []],
    ['all', '  ', []]
  ])('finds in %j the words of %j', (text, searched, found) => {
    const pieces = markWords(text, searched);

    expect(pieces.map(piece => piece.text).join('')).toBe(text);
    expect(pieces.filter(piece => piece.isFound).map(piece => piece.text)).toEqual(found);
  });
});

describe('the list', () => {
  let stage: Stage;

  beforeEach(() => {
    stage = new Stage();
    vi.setSystemTime(NOON);
  });

  afterEach(() => {
    stage.end();
  });

  /** Show the list with these sessions. */
  async function list(found: ISessions): Promise<void> {
    stage.host.answers.set('sessions', found);
    stage.host.answers.set('resume', { waits: false });
    await stage.show(BEGUN);
    await stage.click(stage.find('.jctx-head .title'));
    await stage.pass(0);
  }

  const field = (): HTMLInputElement => stage.find('.jctx-find input') as HTMLInputElement;
  const listbox = (): HTMLElement => stage.find('[role=listbox]');
  const chosen = (): string => stage.find('[aria-selected=true] .name').textContent;
  const isShown = (): boolean => stage.all('.jctx-shelf').length === 1;

  it('is read again with the same words when a turn begins or ends', async () => {
    await list(answer([row('here', { state: 'here', title: '', turns: 0 })]));
    await stage.type('left', field());
    expect(stage.host.told('sessions')).toEqual([
      { text: '', full: false },
      { text: 'left', full: false }
    ]);
    stage.host.answers.set('sessions', answer([row('here', { state: 'here' })]));
    for (const isRunning of [true, false]) {
      await stage.show({ ...BEGUN, isRunning });
      await stage.pass(100);
    }
    expect(stage.host.told('sessions').slice(2)).toEqual([
      { text: 'left', full: false },
      { text: 'left', full: false }
    ]);
    expect(stage.all('[role=option]')[0]?.textContent).toContain('Title here');
  });

  it('shows what each is, and where the words searched for are', async () => {
    await list(
      answer([
        row('here', { state: 'here' }),
        row('other', { state: 'elsewhere', cost_usd: null }),
        row('found', { found: 'prompt', excerpt: '…a left join on…', turns: 1 })
      ])
    );
    const texts = stage.all('[role=option]').map(option => option.textContent);

    expect(texts[0]).toBe('Title here11:00churn.ipynb7 turns$1.06');
    expect(texts[1]).toBe('Title other11:00churn.ipynbin another kernel');
    expect(texts[2]).toContain('…a left join on…');
    expect(texts[2]).toContain('1 turn$');
    await stage.type('left', field());
    await stage.pass(0);
    expect(stage.all('mark').map(mark => mark.textContent)).toEqual(['left']);
    expect(stage.host.told('sessions')).toEqual([
      { text: '', full: false },
      { text: 'left', full: false }
    ]);
  });

  it('shows hostile texts as texts', async () => {
    const { result } = loadPanel('sessions') as { result: ISessions };
    await list(result);
    await stage.type('left join', field());
    await stage.pass(0);

    expect(stage.all('img, script, .jctx-ses b')).toEqual([]);
    expect(stage.find('.jctx-shelf').textContent).toContain('<img src=x onerror=alert(1)>');
    expect(stage.all('mark').map(mark => mark.textContent)).toEqual(['left join', 'left join']);
  });

  it('moves by arrows and goes on with the chosen one by Enter, a copy by Ctrl Enter', async () => {
    await list(answer([row('a', { state: 'here' }), row('b'), row('c')]));
    expect(document.activeElement).toBe(field());
    await stage.press(field(), 'ArrowDown');
    expect(document.activeElement).toBe(listbox());
    await stage.press(listbox(), 'End');
    await stage.press(listbox(), 'ArrowUp');
    expect(chosen()).toBe('Title b');
    const active = listbox().getAttribute('aria-activedescendant') ?? '';
    expect(document.getElementById(active)?.textContent).toContain('Title b');
    await stage.press(listbox(), 'Enter', { ctrlKey: true });
    await stage.pass(0);

    expect(stage.host.told('resume')).toEqual([{ id: 'b', copy: true }]);
    expect(isShown()).toBe(false);
    expect(document.activeElement).toBe(stage.prompt);
  });

  it('goes back for the session that is open here, and by Escape', async () => {
    await list(answer([row('a', { state: 'here' })]));
    await stage.press(field(), 'Enter');
    expect(isShown()).toBe(false);
    expect(stage.host.told('resume')).toEqual([]);
    await stage.click(stage.find('.jctx-head .title'));
    await stage.type('x', field());
    await stage.press(field(), 'Escape');
    expect([isShown(), field().value]).toEqual([true, '']);
    await stage.press(field(), 'Escape');
    expect(isShown()).toBe(false);
  });

  it('does not go on with what an older search found', async () => {
    await list(answer([row('a')]));
    stage.host.answers.set('sessions', new CallError('lost', 'No answer.'));
    await stage.type('other', field());
    await stage.press(field(), 'Enter');

    expect(stage.host.told('resume')).toEqual([]);
    expect(stage.find('.jctx-none').textContent).toBe('No answer.');
  });

  it('asks before it goes on with a copy of one that another kernel has', async () => {
    await list(answer([row('a', { state: 'elsewhere' })]));
    stage.host.answers.set('resume', new CallError('elsewhere', 'Two kernels never write.'));
    await stage.press(field(), 'Enter');
    await stage.pass(0);
    expect(stage.find('[role=alertdialog]').textContent).toContain('Two kernels never write.');
    expect(document.activeElement?.textContent).toBe('Continue in a copy');
    await stage.press(document.activeElement as HTMLElement, 'Escape');
    expect([stage.all('[role=alertdialog]').length, isShown()]).toEqual([0, true]);
    await stage.press(field(), 'Enter');
    await stage.pass(0);
    stage.host.answers.set('resume', { waits: false });
    await stage.click(stage.button('Continue in a copy'));
    await stage.pass(0);

    const copies = stage.host.told('resume').map(({ copy }) => copy);
    expect(copies).toEqual([false, false, true]);
    expect(isShown()).toBe(false);
  });

  it('leaves a deleted one where it stood, struck, until it is taken back', async () => {
    await list(answer([row('a'), row('b')]));
    await stage.press(field(), 'Delete');
    expect(stage.host.told('delete_session')).toEqual([]); // while typing it takes a letter
    await stage.press(field(), 'ArrowDown');
    await stage.press(listbox(), 'Delete');
    await stage.pass(0);
    expect(stage.host.told('delete_session')).toEqual([{ id: 'b' }]);
    expect(stage.all('.jctx-ses').map(one => one.querySelector('s') !== null)).toEqual([
      false,
      true
    ]);
    await stage.press(listbox(), 'Delete');
    await stage.click(stage.find('.jctx-ses.gone'));
    expect(stage.host.told('delete_session')).toHaveLength(1);
    expect(stage.host.told('resume')).toEqual([]);
    await stage.click(stage.find('.undo'));
    await stage.pass(0);

    expect(stage.host.told('restore_session')).toEqual([{ id: 'b' }]);
    expect(stage.all('s')).toEqual([]);
  });

  it('takes back by Enter what was deleted before', async () => {
    await list(answer([], { trashed: [row('gone', { state: 'deleted' })] }));
    expect(stage.find('[role=group] .jctx-grp').textContent).toBe('Deleted');
    await stage.press(field(), 'Enter');
    await stage.pass(0);

    expect(stage.host.told('restore_session')).toEqual([{ id: 'gone' }]);
  });

  it('says what the kernel refuses, and changes nothing', async () => {
    await list(answer([row('a')]));
    stage.host.answers.set('delete_session', new CallError('failed', 'It is open in a kernel.'));
    await stage.press(field(), 'ArrowDown');
    await stage.press(listbox(), 'Delete');
    await stage.pass(0);

    expect(stage.find('.jctx-shelf-foot [role=alert]').textContent).toBe('It is open in a kernel.');
    expect(stage.all('s')).toEqual([]);
  });

  it('says that there is no other, that nothing was found, and searches every message', async () => {
    await list(answer([row('a', { state: 'here', title: '', turns: 0 })]));
    expect(stage.find('.jctx-none').textContent).toContain('No other session yet');
    expect(chosen()).toBe('New session');
    stage.host.answers.set('sessions', answer([]));
    await stage.type('zebra', field());
    await stage.pass(0);
    expect(stage.find('.jctx-none').textContent).toContain(
      'No session has “zebra” in its title or a prompt'
    );
    await stage.click(stage.button('Search every message'));
    await stage.pass(0);

    expect(stage.host.told('sessions').at(-1)).toEqual({ text: 'zebra', full: true });
    expect(stage.find('.jctx-none').textContent).toBe('No message has “zebra”');
  });

  it('keeps the draft and leads back to a question', async () => {
    stage.host.answers.set('sessions', answer([row('a')]));
    await stage.show({ ...BEGUN, question: QUESTION });
    await stage.type('a draft');
    await stage.act(() => stage.handle.current?.showSessions());
    expect(isShown()).toBe(true);
    expect(stage.button('Back to Churn by cohort').title).toBe('Back');
    await stage.press(field(), 'F6', { shiftKey: true });
    expect(document.activeElement?.closest('.jctx-head')).not.toBeNull();
    await stage.click(stage.button('Waiting for you'));

    expect(stage.prompt.value).toBe('a draft');
    expect(isShown()).toBe(false);
  });
});
