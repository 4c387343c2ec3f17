/** Sample data of the drawn interface; all figures add up. */

import type { PanelEvent } from '../src/state';
import type { ICompletions, ISessionRow, ISessions, ISummary, Item } from '../src/panel';
import measured from '../../tests/fixtures/wire/context_measured.json';
import estimate from '../../tests/fixtures/wire/context_estimate.json';

export const MEASURED = measured as unknown as PanelEvent;
export const ESTIMATE = estimate as unknown as PanelEvent;

export const AT = 1_790_000_000;

export const SESSION: Extract<Item, { kind: 'session' }> = {
  kind: 'session',
  id: 's1',
  title: 'Churn by cohort',
  notebook: 'work/churn.ipynb',
  model: 'claude-sonnet-5-5',
  permission_mode: 'ask',
  is_demo: false,
  why: '',
  turns: 7,
  cells: 9,
  variables: 12
};

export const MODELS = [
  { name: 'claude-sonnet-5-5', help: '200,000 tokens · in use' },
  { name: 'claude-opus-5-5', help: '1,000,000 tokens · ≈81,900 tokens, $0.41' },
  { name: 'claude-haiku-5-5', help: '200,000 tokens · ≈81,900 tokens, $0.01' },
  { name: 'openai:gpt-6', help: '272,000 tokens · ≈74,300 tokens, $0.13 · no key' },
  { name: 'demo', help: '9,100 tokens · no room' }
];

export const PROMPT =
  'Why does March dip? Is it the join or the data? Keep the fix to one cell. @df @cell:4';

export const FINDING =
  'It is the join. 1,207 of the 9,020 March users changed their address, so an inner join on `email` drops them. The data has all 9,020.\n\n';

export const FIX =
  "m = df.merge(users, on='user_id', how='left',\n             validate='m:1')\ncohort = m.groupby('signup_month').user_id.nunique()";

export function started(turn: number, prompt = PROMPT): Item {
  return {
    kind: 'turn_started',
    turn,
    prompt,
    origin: 'panel',
    cell_id: null,
    at: AT,
    attachments: []
  };
}

interface ITool {
  step: number;
  name: string;
  label: string;
  tokens: number;
  seconds?: number;
  input?: Record<string, unknown>;
  text?: string;
  more?: Partial<Extract<Item, { kind: 'tool_finished' }>>;
}

export function tool(turn: number, told: ITool): Item[] {
  const id = `t${turn}-${told.step}`;
  const { step, name, label, tokens, seconds = 0, input = {}, text = '', more = {} } = told;
  const done: Item = {
    kind: 'tool_finished',
    turn,
    step,
    tool_use_id: id,
    name,
    input: null,
    label,
    text,
    is_error: false,
    denied: false,
    interrupted: false,
    chars: text.length,
    lines: text.split('\n').length,
    seconds,
    decision: null,
    has_outputs: false,
    images: 0,
    ...more
  };
  const counted: Item = { kind: 'result_counted', turn, tool_use_id: id, tokens };
  const step_started: Item = { kind: 'step_started', turn, step };
  return done.denied
    ? [step_started, { ...done, input }]
    : [
        step_started,
        { kind: 'tool_started', turn, step, tool_use_id: id, name, input, label: `${label}…` },
        done,
        counted
      ];
}

/** The four steps of turn 7. */
export const STEPS: Item[] = [
  ...tool(7, { step: 1, name: 'read_cell', label: 'Read cell 4', tokens: 212 }),
  ...tool(7, { step: 2, name: 'inspect', label: 'Inspected df, users', tokens: 640 }),
  ...tool(7, {
    step: 3,
    name: 'run_code',
    label: 'Ran code, 2 lines',
    tokens: 612,
    seconds: 1.4,
    input: {
      code: "m = df.merge(users, on='email', how='inner')\nm.groupby('signup_month').user_id.nunique()"
    },
    text: 'signup_month\n2025-01    8123\n2025-02    7611\n2025-03    7813',
    more: { chars: 1_204_331, lines: 48_210 }
  }),
  {
    kind: 'result_offloaded',
    turn: 7,
    tool_use_id: 't7-3',
    name: 'run_code',
    chars: 1_204_331,
    lines: 48_210,
    shown_chars: 1836
  },
  ...tool(7, {
    step: 4,
    name: 'run_code',
    label: 'Ran code, 1 line: KeyError uid · failed',
    tokens: 188,
    seconds: 0.1,
    input: { code: "df['uid']" },
    text: "KeyError: 'uid'",
    more: { is_error: true }
  })
];

export function compacted(turn: number): Item[] {
  return [
    { kind: 'compaction_started', turn, n: 1, trigger: 'proactive' },
    {
      kind: 'compaction_finished',
      turn,
      n: 1,
      trigger: 'proactive',
      tokens_before: 158_214,
      tokens_after: 31_118,
      seconds: 12,
      cost_usd: 0.09,
      first_turn: 1,
      last_turn: 6
    }
  ];
}

const REPLACED: readonly (readonly [string, number])[] = [
  ['Load the orders and say what is in them', 38_204],
  ['Count sign-ups by month', 9871],
  ['Never write to orders.parquet', 1120],
  ['Join the users', 22_400],
  ['Plot churn by plan', 40_749],
  ['Keep each fix to one cell', 28_000]
];

export function finished(turn: number, tokens: number, seconds = 24): Item {
  return {
    kind: 'turn_finished',
    turn,
    outcome: 'done',
    stop_reason: 'end_turn',
    text: '',
    steps: 5,
    tokens,
    cost_usd: 0.04,
    seconds,
    error: null,
    footer: `5 steps, 24 s · ${tokens.toLocaleString('en-US')} tokens, $0.04 · context 41 %`
  };
}

/** So many things of one kind, which share `tokens` in whole numbers. */
function putBack(kind: string, number: number, tokens: number): ISummary['reinjected'] {
  return Array.from({ length: number }, (_, at) => ({
    kind,
    id: String(at + 1),
    tokens: Math.floor((tokens * (at + 1)) / number) - Math.floor((tokens * at) / number)
  }));
}

export const SUMMARY: ISummary = {
  n: 1,
  trigger: 'proactive',
  summary:
    '**Task.** Explain monthly churn of the 2025 sign-ups, by cohort and plan.\n\n' +
    '**Your instructions, verbatim.** “Never write to orders.parquet.” “Keep each fix to one cell.”\n\n' +
    '**Found.** `df` has 1,204,331 orders of 96,412 users. `users.email` is not unique over time. February was complete.\n\n' +
    '**Open.** March is 1,207 users short; the join in cell 5 is the suspect.',
  replaced: { first_turn: 1, last_turn: 6, messages: 42 },
  tokens_before: 158_214,
  tokens_after: 31_118,
  seconds: 12,
  cost_usd: 0.09,
  parts: {
    before: {
      system: 3214,
      tools: 6870,
      summary: 0,
      reinjected: 0,
      notebook: 8100,
      conversation: 60_030,
      results: 80_000
    },
    after: {
      system: 3214,
      tools: 6870,
      summary: 1842,
      reinjected: 11_406,
      notebook: 1786,
      conversation: 4000,
      results: 2000
    }
  },
  reinjected: [
    { kind: 'instruction', id: 'prompt-2', tokens: 300 },
    { kind: 'instruction', id: 'prompt-3', tokens: 112 },
    { kind: 'pin', id: '1', tokens: 36 },
    ...putBack('plan', 5, 288),
    ...putBack('variable', 12, 940),
    { kind: 'cell', id: 'a1b2', tokens: 4000 },
    { kind: 'cell', id: 'c3d4', tokens: 3520 },
    { kind: 'cell', id: 'e5f6', tokens: 1000 },
    ...putBack('result', 14, 1210)
  ],
  state: 'active',
  replaced_items: REPLACED.flatMap(([prompt, tokens], at) => [
    started(at + 1, prompt),
    finished(at + 1, tokens)
  ]),
  undo: {
    ok: false,
    reason:
      'Undo puts the 42 messages back. That needs 209,026 of 200,000 tokens now, so choose a larger model first.',
    price: ''
  }
};

export const COMPLETIONS: ICompletions = {
  from: 5,
  items: [
    { text: '@cohort', detail: 'Series 12, int64, cell 5', kind: 'variable' },
    { text: '@costs', detail: 'DataFrame 8,112 × 6, cell 8', kind: 'variable' },
    { text: '@cell:5', detail: "cohort = df.merge(users, on='email')", kind: 'cell' }
  ]
};

// Sessions ----------------------------------------------------------------------------------------

const DAY_S = 24 * 3600;

function session(id: string, title: string, more: Partial<ISessionRow>): ISessionRow {
  const rest = { turns: 7, cost_usd: 1.06, updated: AT - 600, state: '', found: '' } as const;
  return { id, title, notebook: 'churn.ipynb', ...rest, excerpt: '', ...more };
}

const LISTED: readonly ISessionRow[] = [
  session('s1', 'Churn by cohort', { state: 'here' }),
  session('s2', 'Refund outliers', {
    notebook: 'refunds.ipynb',
    turns: 4,
    cost_usd: 0.22,
    updated: AT - 9_000,
    state: 'elsewhere'
  }),
  session('s3', 'Why does the nightly import of the 2025 export take four hours, and since when?', {
    notebook: 'import-of-the-nightly-export-2025.ipynb',
    turns: 1,
    cost_usd: 0.004,
    updated: AT - DAY_S
  }),
  session('s4', 'Load the 2024 export', {
    notebook: 'import.ipynb',
    turns: 19,
    cost_usd: 3.4,
    updated: AT - 6 * DAY_S
  }),
  session('s5', 'Plans by country', { turns: null, cost_usd: null, updated: AT - 400 * DAY_S })
];

const EXCERPTS: Readonly<Record<string, string>> = {
  s1: '…a left join on user_id keeps all 9,020…',
  s2: '…try a left join and count nulls…',
  s4: '…then left join plans by code…'
};

const FOUND: readonly ISessionRow[] = LISTED.flatMap(row => {
  const excerpt = EXCERPTS[row.id];
  return excerpt === undefined ? [] : [{ ...row, found: 'prompt', excerpt }];
});

const TRASHED: readonly ISessionRow[] = [
  session('s6', 'Try the new join', { updated: AT - 2 * DAY_S, state: 'deleted', cost_usd: 0.08 })
];

/** What a search finds: all without words, three for "left join", else nothing. */
export function sessionsFor(text: string, isNew: boolean): ISessions {
  if (isNew) {
    const current = session('s1', '', { state: 'here', turns: 0, cost_usd: 0 });
    return { rows: text === '' ? [current] : [], total: 1, trashed: [] };
  }
  if (text === '') {
    return { rows: LISTED, total: 41, trashed: TRASHED };
  }
  return text === 'left join'
    ? { rows: FOUND, total: 3, trashed: [] }
    : { rows: [], total: 0, trashed: [] };
}

export const HELD_TEXT =
  'Another kernel has been using “Refund outliers” of refunds.ipynb. Two kernels never write to one session.';
