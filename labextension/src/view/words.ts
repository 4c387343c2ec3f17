/** Sentences of the conversation: pure. Thousands with a comma, a space before %, ≈ for estimates. */

import type { Activity, IConversation, IToolPart, ITurn, LogEntry } from '../conversation';
import type { IReinjected, ISession } from '../panel';
import { formatCount } from './format';

export function isTurn(entry: LogEntry): entry is ITurn {
  return entry.kind === 'turn';
}

/** 0:42, 12:05, 1:02:03 */
export function formatClock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (value: number): string => String(value).padStart(2, '0');
  const minutes = Math.floor(whole / 60);
  return minutes < 60
    ? `${minutes}:${two(whole % 60)}`
    : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(whole % 60)}`;
}

/** 0.6 s, 24 s, 3 min 05 s; "" for what is not known or took no time. */
export function formatSeconds(seconds: number | null): string {
  if (seconds === null || seconds < 0.05) {
    return '';
  }
  if (seconds < 9.95) {
    return `${seconds.toFixed(1)} s`;
  }
  const whole = Math.round(seconds);
  return whole < 60
    ? `${whole} s`
    : `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, '0')} s`;
}

/** $0.04, <$0.01; "" if the price is not known. */
export function formatMoney(usd: number | null): string {
  if (usd === null) {
    return '';
  }
  return usd !== 0 && usd < 0.005 ? '<$0.01' : `$${usd.toFixed(2)}`;
}

const TIME = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });

/** 11:51, where the reader is. */
export function formatTime(at: number): string {
  return TIME.format(at * 1000);
}

export function count(number: number, noun: string): string {
  return `${formatCount(number)} ${noun}${number === 1 ? '' : 's'}`;
}

/** A row's words; the time has a column of its own, so it is taken from the end of the label. */
export function stepLine(tool: IToolPart): { text: string; tokens: string; time: string } {
  const { result, edits } = tool;
  const label = tool.label.replace(/ · (?:<0\.1 s|\d+(?:\.\d+)? s|\d+ min \d\d s)$/, '');
  const more = [
    result?.decision === 'once' && 'allowed once',
    result?.decision === 'always' && 'allowed for session',
    edits.length > 0 && edits.every(edit => edit.isUndone) && 'undone'
  ].filter(Boolean);
  return {
    text: [label, ...more].join(' · '),
    tokens: tool.tokens === null ? '' : `≈ ${formatCount(tool.tokens)} tok`,
    time: formatSeconds(result?.seconds ?? null)
  };
}

const DID: Readonly<Record<string, readonly [string, string]>> = {
  run_code: ['ran code', 'ran code % times'],
  inspect: ['inspected 1', 'inspected %'],
  list_cells: ['listed the cells', 'listed the cells % times'],
  read_cell: ['read 1 cell', 'read % cells'],
  insert_cell: ['inserted 1 cell', 'inserted % cells'],
  edit_cell: ['edited 1 cell', 'edited % cells'],
  move_cell: ['moved 1 cell', 'moved % cells'],
  delete_cell: ['deleted 1 cell', 'deleted % cells'],
  run_cell: ['ran 1 cell', 'ran % cells'],
  read_result: ['read stored text', 'read stored text % times'],
  read_file: ['read 1 file', 'read % files'],
  write_file: ['wrote 1 file', 'wrote % files'],
  edit_file: ['edited 1 file', 'edited % files'],
  search_files: ['searched the files', 'searched the files % times'],
  update_plan: ['updated the plan', 'updated the plan % times'],
  remember: ['kept 1 fact', 'kept % facts']
};

/**
 * 6 steps: read 1 cell, ran code 3 times, 1 failed. A step is one model call: `steps` of them, as
 * the turn told when it ended; those that called a tool where it did not.
 */
export function summarise(tools: readonly IToolPart[], steps: number | null): string {
  const done = new Map<string, number>();
  let denied = 0;
  let failed = 0;
  for (const { name, result } of tools) {
    if (result?.isDenied) {
      denied += 1;
      continue;
    }
    failed += result?.isError ? 1 : 0;
    done.set(name, (done.get(name) ?? 0) + 1);
  }
  const said = [...done].map(([name, times]) => {
    const [one, many] = DID[name] ?? [`used ${name}`, `used ${name} % times`];
    return times === 1
      ? one
      : many.replace('% times', times === 2 ? 'twice' : '% times').replace('%', String(times));
  });
  const calls = steps ?? new Set(tools.map(tool => tool.step)).size;
  const rest = [failed > 0 ? `${failed} failed` : '', denied > 0 ? `${denied} denied` : ''];
  return `${count(calls, 'step')}: ${[...said, ...rest].filter(Boolean).join(', ')}`;
}

export function totals(tools: readonly IToolPart[]): { tokens: string; time: string } {
  const tokens = tools.reduce((sum, tool) => sum + (tool.tokens ?? 0), 0);
  const seconds = tools.reduce((sum, { result }) => sum + (result?.seconds ?? 0), 0);
  return {
    tokens: tokens > 0 ? `≈ ${formatCount(tokens)} tok` : '',
    time: formatSeconds(seconds)
  };
}

/** The code or source that a call brings along, to be read whole; null if it brings none. */
export function toolCode(tool: IToolPart): { text: string; language: string } | null {
  const { input } = tool;
  if (input === null) {
    return null;
  }
  for (const name of ['code', 'source', 'content', 'new_text', 'new']) {
    const text = input[name];
    if (typeof text === 'string' && text !== '') {
      const isCode = name === 'code' || (name === 'source' && input['cell_type'] !== 'markdown');
      return { text, language: isCode ? 'python' : '' };
    }
  }
  const other = Object.entries(input).filter(([name]) => !SAID.has(name));
  return other.length === 0
    ? null
    : { text: JSON.stringify(Object.fromEntries(other), null, 2), language: 'json' };
}

/** Arguments that the label says already. */
const SAID = new Set(['cell_id', 'names', 'path', 'tool_use_id', 'pattern', 'glob']);

const DOES: Readonly<Record<Exclude<Activity, null>, string>> = {
  thinking: 'Thinking',
  writing: 'Writing',
  tool: 'Running',
  waiting: 'Waiting for you',
  compacting: 'Compacting',
  retrying: 'Waiting to try again'
};

/** What the run line says: "Running code · step 5"; "" if nothing runs. */
export function runLine(
  activity: Activity,
  conversation: Pick<IConversation, 'live' | 'isRunning' | 'isKernelAwaited' | 'question'>,
  isStopping: boolean
): string {
  const { live, question, isKernelAwaited } = conversation;
  if (activity === null && !conversation.isRunning && !isKernelAwaited) {
    return '';
  }
  const step = question?.step ?? live?.step ?? 0;
  const what = isStopping
    ? 'Stopping'
    : isKernelAwaited && question === null
      ? 'Waiting for the kernel'
      : activity === 'tool'
        ? runningWhat(live)
        : activity === null
          ? 'Working'
          : DOES[activity];
  return step > 0 ? `${what} · step ${step}` : what;
}

function runningWhat(live: IConversation['live']): string {
  const tool = live?.parts.find(part => part.kind === 'tool' && part.result === null);
  const name = tool?.kind === 'tool' ? tool.name : '';
  return RUNS[name] ?? 'Running a tool';
}

const RUNS: Readonly<Record<string, string>> = {
  run_code: 'Running code',
  run_cell: 'Running a cell',
  inspect: 'Inspecting',
  edit_cell: 'Editing a cell',
  insert_cell: 'Inserting a cell',
  read_cell: 'Reading a cell',
  read_file: 'Reading a file',
  search_files: 'Searching the files'
};

const ASKS: Readonly<Record<ISession['permission_mode'], string>> = {
  ask: 'It asks before it runs code or edits a cell.',
  edits: 'It edits cells and files by itself, and asks before it runs code.',
  auto: 'It runs code and edits cells without asking.',
  plan: 'It only reads.'
};

/** What the agent can see and may do, before the first turn. */
export function firstLine(session: ISession): string {
  const kernel =
    session.variables > 0 ? `its ${count(session.variables, 'variable')}` : 'its variables';
  const sees = `The agent can see the notebook's cells and ${kernel}.`;
  return `${sees} ${ASKS[session.permission_mode]}`;
}

export const MODES: readonly {
  readonly mode: ISession['permission_mode'];
  readonly label: string;
  readonly short: string;
  readonly help: string;
}[] = [
  { mode: 'ask', label: 'Ask first', short: 'Ask', help: 'Asks before it runs code or edits' },
  {
    mode: 'edits',
    label: 'Edits',
    short: 'Edits',
    help: 'Edits by itself, asks before it runs code'
  },
  { mode: 'auto', label: 'Auto', short: 'Auto', help: 'Does all without asking' },
  { mode: 'plan', label: 'Plan', short: 'Plan', help: 'Reads only' }
];

/** The model's name without its provider's: sonnet-5.5 */
export function shortModel(model: string): string {
  return model.replace(/^claude-/, '').replace(/^(.*-\d)-(\d)$/, '$1.$2');
}

/** The name of a file without its folders. */
export function baseName(path: string): string {
  return path.split('/').pop() ?? path;
}

/** Things of one kind that a compaction put back, in the order of their coming. */
export interface IReinjectedGroup {
  readonly kind: string;
  readonly ids: readonly string[];
  readonly tokens: number;
}

/** One group a kind; what has the same id twice is named once. */
export function groupReinjected(entries: readonly IReinjected[]): IReinjectedGroup[] {
  const groups = new Map<string, { ids: Set<string>; tokens: number }>();
  for (const { kind, id, tokens } of entries) {
    const group = groups.get(kind) ?? { ids: new Set(), tokens: 0 };
    group.ids.add(id);
    group.tokens += tokens;
    groups.set(kind, group);
  }
  return [...groups].map(([kind, { ids, tokens }]) => ({ kind, ids: [...ids], tokens }));
}

/** Kinds whose things are named one by one; of the others their number says enough. */
const NAMED: Readonly<Record<string, readonly [string, string]>> = {
  cell: ['Source of cell', 'Source of cells'],
  file: ['File', 'Files'],
  skill: ['Skill', 'Skills']
};

export function isNamed(kind: string): boolean {
  return kind in NAMED;
}

/** Your instructions, 2; Plan, 5 steps; Kernel: 12 names; Source of cells */
export function nameReinjected(kind: string, number: number): string {
  const named = NAMED[kind];
  if (named) {
    return named[number === 1 ? 0 : 1];
  }
  switch (kind) {
    case 'instruction':
      return `Your instructions, ${number}`;
    case 'pin':
      return `Pins, ${number}`;
    case 'plan':
      return `Plan, ${count(number, 'step')}`;
    case 'variable':
      return `Kernel: ${count(number, 'name')}`;
    case 'result':
      return `List of ${count(number, 'stored result')}`;
    case 'hook':
      return 'Said by hooks';
    default:
      return `${kind}, ${number}`;
  }
}
