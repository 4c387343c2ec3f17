/** The states of the drawn interface, and the fixtures of the wire, folded by the real reducer. */

import { EMPTY } from '../src/conversation';
import type { IConversation } from '../src/conversation';
import { reduce } from '../src/fold';
import type { Item } from '../src/panel';
import { isRefused, parseItem } from '../src/parse';
import { ABSENT, reduce as reduceState } from '../src/state';
import type { IPanelState } from '../src/state';
import { NO_ACTIONS } from '../src/view/panel';
import type { IActions } from '../src/view/panel';
import {
  AT,
  compacted,
  ESTIMATE,
  FINDING,
  finished,
  FIX,
  MEASURED,
  SESSION,
  started,
  STEPS,
  tool
} from './sample';

export interface IScene {
  readonly conversation: IConversation;
  readonly state: IPanelState;
  readonly actions: IActions;
}

const ACTIONS: IActions = {
  ...NO_ACTIONS,
  replaceLabel: 'Replace cell 5',
  canInsert: true,
  canOpen: true
};

const QUEUED: Item = {
  kind: 'queued',
  id: 'q8',
  text: 'then plot retention by plan, one line each',
  attachments: []
};

const QUESTION: Extract<Item, { kind: 'question' }> = {
  kind: 'question',
  id: 'ask5',
  sha256: '',
  turn: 7,
  step: 5,
  tool_use_id: 't7-5',
  verb: 'run code',
  title: 'The agent asks to run code:',
  text: `${FIX}\nassert cohort['2025-03'] == 9020`,
  info: 'python',
  cell_id: null,
  change: null,
  offers: [{ word: '', label: 'run code' }],
  at: AT
};

function text(turn: number, block: number, written: string, isDone = false): Item[] {
  return [
    isDone
      ? { kind: 'text_finished', turn, block, text: written }
      : { kind: 'text_delta', turn, block, text: written }
  ];
}

function scene(items: readonly Item[], change: Partial<IScene> = {}): IScene {
  const begun: IConversation = {
    ...EMPTY,
    epoch: 'gallery',
    session: SESSION,
    models: ['claude-opus-5', 'claude-sonnet-5-5', 'demo'],
    commands: []
  };
  const conversation = items.reduce(reduce, begun);
  return {
    conversation: { ...conversation, isRunning: conversation.live !== null },
    state: reduceState(ABSENT, MEASURED),
    actions: ACTIONS,
    ...change
  };
}

const step5: Item = { kind: 'step_started', turn: 7, step: 5 };
const ANSWER = `${FINDING}\`\`\`python\n${FIX}\n\`\`\`\n\nWith \`user_id\` as the key all 9,020 stay, and \`validate\` stops the merge if a user ever appears tw`;

const FIRST = scene([], {
  state: reduceState(ABSENT, ESTIMATE),
  actions: {
    ...ACTIONS,
    examples: [
      'Explain the KeyError in cell 3',
      'What is in df, and what looks wrong?',
      'Plot retention by sign-up month'
    ]
  }
});

const DRAWN: Readonly<Record<string, IScene>> = {
  writing: scene([...compacted(6), started(7), ...STEPS, step5, ...text(7, 5, ANSWER), QUEUED]),
  waiting: scene([
    started(7),
    ...STEPS,
    step5,
    ...text(7, 5, FINDING.trim(), true),
    QUESTION,
    QUEUED
  ]),
  changes: scene([
    started(7),
    ...STEPS,
    step5,
    {
      ...QUESTION,
      verb: 'edit cells',
      title: 'The agent asks to edit code cell 5:',
      text: "@@ -1 +1 @@\n-m = df.merge(users, on='email')\n+m = df.merge(users, on='user_id')",
      info: 'diff',
      cell_id: 'a1b2',
      change: { op: 'edit', cell_id: 'a1b2', source: FIX, cell_type: null, after: null },
      coming: [
        {
          tool_use_id: 't7-6',
          op: 'insert',
          cell_id: null,
          source: 'cohort.plot.bar()',
          cell_type: 'code',
          after: 'a1b2'
        },
        {
          tool_use_id: 't7-7',
          op: 'delete',
          cell_id: 'c3d4',
          source: null,
          cell_type: null,
          after: null
        }
      ]
    }
  ]),
  decisions: scene([
    started(7),
    ...tool(7, {
      step: 1,
      name: 'run_code',
      label: 'Ran code, 4 lines',
      tokens: 96,
      seconds: 0.6,
      input: { code: FIX },
      more: { decision: 'once' }
    }),
    ...tool(7, {
      step: 2,
      name: 'run_code',
      label: 'Code not run, 4 lines · Denied by the user: use the id columns only',
      tokens: 12,
      input: { code: FIX },
      more: { denied: true, is_error: true }
    }),
    ...tool(7, {
      step: 3,
      name: 'run_code',
      label: 'Ran code, 3 lines',
      tokens: 80,
      seconds: 0.5,
      input: { code: FIX },
      more: { decision: 'always' }
    })
  ]),
  running: scene([
    started(7),
    ...STEPS.slice(0, 6),
    { kind: 'step_started', turn: 7, step: 3 },
    {
      kind: 'tool_started',
      turn: 7,
      step: 3,
      tool_use_id: 'run',
      name: 'run_code',
      input: { code: FIX },
      label: 'Running code, 2 lines'
    },
    { kind: 'tool_output', turn: 7, tool_use_id: 'run', text: 'merging 1,204,331 rows…  62 %' }
  ]),
  finished: scene([
    ...compacted(6),
    started(7),
    ...STEPS,
    ...text(7, 5, `${FINDING}Cell 5 now joins on \`user_id\`, and March shows 9,020.`, true),
    finished(7, 12_431)
  ]),
  plan: scene([
    started(7),
    {
      kind: 'plan_changed',
      turn: 7,
      items: [
        { text: 'Join on user_id and check that all 9,020 stay', state: 'done' },
        { text: 'Count churn by cohort and plan', state: 'done' },
        {
          text: 'Plot retention by plan, one line each, with the month of sign-up on the axis',
          state: 'in_progress'
        },
        { text: 'Compare with @plans', state: 'pending' },
        { text: 'Write what was found into cell 9', state: 'pending' }
      ]
    },
    ...STEPS,
    {
      kind: 'memory_changed',
      turn: 7,
      facts: ['A user counts as churned after 60 days without a payment.'],
      is_undone: false
    },
    ...text(7, 5, FINDING, true)
  ]),
  'plan-done': scene([
    started(7),
    ...STEPS,
    {
      kind: 'plan_changed',
      turn: 7,
      items: [
        { text: 'Join on user_id', state: 'done' },
        { text: 'Count churn by cohort', state: 'done' }
      ]
    },
    {
      kind: 'memory_changed',
      turn: 7,
      facts: ['Amounts are in cents.', 'Plots have a title and units on both axes.'],
      is_undone: false
    },
    { kind: 'memory_changed', turn: 7, facts: ['Amounts are in cents.'], is_undone: true },
    finished(7, 12_431)
  ]),
  stopped: scene([
    started(7),
    ...STEPS,
    step5,
    { ...(finished(7, 9000) as Extract<Item, { kind: 'turn_finished' }>), outcome: 'stopped' }
  ]),
  compacting: scene([
    started(7),
    ...STEPS,
    { kind: 'compaction_started', turn: 7, n: 2, trigger: 'reactive' }
  ]),
  'first-run': {
    ...FIRST,
    conversation: {
      ...FIRST.conversation,
      session: { ...SESSION, title: '', turns: 0, model: 'demo', is_demo: true }
    }
  },
  faults: scene([
    started(7),
    {
      kind: 'retry_scheduled',
      turn: 7,
      step: 5,
      attempt: 3,
      attempts: 8,
      wait_s: 60,
      reason: 'Anthropic is overloaded (529).',
      at: AT
    },
    {
      kind: 'note_added',
      turn: 7,
      level: 'error',
      title: 'Prompt too long: 214,310 of 200,000 tokens',
      detail:
        'A compaction freed only 2 %, so it was not repeated. Your prompt is kept in the box below.'
    },
    {
      kind: 'note_added',
      turn: 7,
      level: 'info',
      title: 'This session is open in another kernel',
      detail:
        'churn-copy.ipynb has been using “Churn by cohort” since 10:04. Two kernels never write to one session.'
    },
    {
      kind: 'compaction_failed',
      turn: 7,
      reason: 'The summary came back empty.',
      failures: 3,
      paused: true
    }
  ]),
  'no-notebook': scene([], {
    state: ABSENT,
    conversation: EMPTY,
    actions: {
      ...NO_ACTIONS,
      fault: {
        title: 'Open a notebook to begin',
        text: 'Past sessions stay in the list above.'
      }
    }
  }),
  'no-package': scene([], {
    state: ABSENT,
    conversation: EMPTY,
    actions: {
      ...NO_ACTIONS,
      fault: {
        title: 'jupyter_ctx is not installed in this kernel',
        text: 'Install it there, then try again.',
        command: '%pip install jupyter_ctx',
        isError: true,
        buttons: [{ label: 'Try again', run: () => undefined }]
      }
    }
  })
};

const FIXTURES = import.meta.glob<{ items?: readonly unknown[] }>(
  '../../tests/fixtures/panel/*.json',
  { eager: true, import: 'default' }
);

function fixtureScenes(): [string, IScene][] {
  return Object.entries(FIXTURES).flatMap(([path, { items }]) => {
    const read = (items ?? []).map(parseItem).filter(item => !isRefused(item)) as Item[];
    const name = path.replace(/^.*\/(.*)\.json$/, '$1');
    return read.length === 0 ? [] : [[`fixture-${name}`, scene(read)]];
  });
}

export const SCENES: Readonly<Record<string, IScene>> = {
  ...DRAWN,
  ...Object.fromEntries(fixtureScenes())
};
