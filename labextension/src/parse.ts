/** Reads the panel's items and the results of its calls: whole, or refused in a sentence. */

import { PARTS, PROTOCOL } from './events';
import type { IRefused, Part } from './events';
import {
  Malformed,
  amount,
  count,
  field,
  flag,
  json,
  listOf,
  nullable,
  object,
  of,
  oneOf,
  orElse,
  say,
  shaped,
  text
} from './narrow';
import type { Fields, Read, Shape } from './narrow';
import {
  CELL_TYPES,
  CHANGES,
  CLOSED,
  CONDITIONS,
  DECISIONS,
  FOUND,
  LEVELS,
  ORIGINS,
  OUTCOMES,
  PERMISSION_MODES,
  PLAN_STATES,
  SESSION_STATES,
  TRIGGERS,
  UNQUEUED
} from './panel';
import type {
  CallOp,
  CallResult,
  IAttachment,
  IPanelItems,
  IPlanItem,
  IQueued,
  ISession,
  ISessionRow,
  Item
} from './panel';

type Kind = Item['kind'];
type ItemOf<K extends Kind> = Extract<Item, { kind: K }>;
type Body<K extends Kind> = Omit<ItemOf<K>, 'kind'>;

const ATTACHMENTS: Read<readonly IAttachment[]> = listOf(of({ label: text, detail: text }));
const PLAN: Read<readonly IPlanItem[]> = listOf(of({ text, state: oneOf(PLAN_STATES) }));
const STEP = { turn: count, step: count };
const BLOCK = { turn: count, block: count, text };
const TOOL = { turn: count, tool_use_id: text };
const STORED = { chars: count, lines: count };
const CALLED = { ...STEP, tool_use_id: text, name: text, label: text };
const CHANGE = {
  op: oneOf(CHANGES),
  cell_id: nullable(text),
  source: nullable(text),
  cell_type: nullable(oneOf(CELL_TYPES)),
  after: nullable(text)
};
const COMPACTION = { turn: count, n: count, trigger: oneOf(TRIGGERS) };

const ITEMS: { readonly [K in Kind]: Shape<Body<K>> } = {
  turn_started: {
    turn: count,
    prompt: text,
    origin: oneOf(ORIGINS),
    cell_id: nullable(text),
    at: amount,
    attachments: ATTACHMENTS
  },
  step_started: STEP,
  text_delta: BLOCK,
  text_finished: BLOCK,
  thinking_delta: { turn: count, text },
  step_discarded: STEP,
  tool_started: { ...CALLED, input: json },
  tool_output: { ...TOOL, text },
  tool_finished: {
    ...CALLED,
    ...STORED,
    input: nullable(json),
    text,
    is_error: flag,
    denied: flag,
    interrupted: flag,
    seconds: nullable(amount),
    decision: nullable(oneOf(DECISIONS)),
    has_outputs: flag,
    images: count
  },
  result_offloaded: { ...TOOL, ...STORED, name: text, shown_chars: count },
  result_counted: { ...TOOL, tokens: count },
  step_finished: { ...STEP, stop_reason: text, cost_usd: nullable(amount) },
  retry_scheduled: {
    ...STEP,
    attempt: count,
    attempts: count,
    wait_s: amount,
    reason: text,
    at: amount
  },
  compaction_started: COMPACTION,
  compaction_finished: {
    ...COMPACTION,
    tokens_before: count,
    tokens_after: count,
    seconds: amount,
    cost_usd: nullable(amount),
    first_turn: count,
    last_turn: count
  },
  compaction_failed: { turn: count, reason: text, failures: count, paused: flag },
  note_added: { turn: count, level: oneOf(LEVELS), title: text, detail: text },
  turn_finished: {
    turn: count,
    outcome: oneOf(OUTCOMES),
    stop_reason: text,
    text,
    steps: count,
    tokens: nullable(count),
    cost_usd: nullable(amount),
    seconds: nullable(amount),
    error: nullable(text),
    footer: text
  },
  session: {
    id: nullable(text),
    title: text,
    notebook: nullable(text),
    model: text,
    permission_mode: oneOf(PERMISSION_MODES),
    is_demo: flag,
    why: text,
    turns: count,
    cells: count,
    variables: count
  },
  queued: { id: text, text, attachments: ATTACHMENTS },
  unqueued: { id: text, how: oneOf(UNQUEUED) },
  question: {
    id: text,
    sha256: text,
    turn: count,
    step: count,
    tool_use_id: text,
    verb: text,
    title: text,
    text,
    info: text,
    cell_id: nullable(text),
    change: orElse(null, nullable(of(CHANGE))),
    offers: listOf(of({ word: text, label: text })),
    coming: orElse([], listOf(of({ tool_use_id: text, ...CHANGE }))),
    at: amount
  },
  question_closed: { id: text, how: oneOf(CLOSED), reason: text },
  shown: { id: text, command: text, markdown: text, text, data: json },
  failed: { id: nullable(text), title: text, detail: text, text },
  summary_changed: { n: count, condition: oneOf(CONDITIONS) },
  rewound: { turn: count },
  cleared: {},
  edit_made: { ...TOOL, cell_id: nullable(text), path: nullable(text) },
  edit_undone: { tool_use_id: text },
  plan_changed: { turn: count, items: PLAN },
  memory_changed: { turn: count, facts: listOf(text), is_undone: flag },
  kernel_awaited: { is_waiting: flag }
};

const KINDS = Object.keys(ITEMS) as Kind[];

const item: Read<Item> = (fields, name) => {
  const body = object(field(fields, name), name);
  const kind = oneOf(KINDS)(body, 'kind');
  return { kind, ...shaped<object>(body, kind, ITEMS[kind]) } as Item;
};

/** Read a field that is an item of one kind. */
function itemOf<K extends Kind>(kind: K): Read<ItemOf<K>> {
  return (fields, name) => {
    const found = item(fields, name);
    if (found.kind !== kind) {
      throw new Malformed(`${name} is a ${found.kind}`);
    }
    return found as ItemOf<K>;
  };
}

const session: Read<ISession> = itemOf('session');
const queued: Read<IQueued> = itemOf('queued');
const items: Read<readonly Item[]> = listOf(item);

// Results of calls --------------------------------------------------------------------------------

const PAGE = { items, first_turn: nullable(count), has_earlier: flag };

const SESSIONS: Read<readonly ISessionRow[]> = listOf(
  of({
    id: text,
    title: text,
    notebook: nullable(text),
    turns: nullable(count),
    cost_usd: nullable(amount),
    updated: amount,
    state: oneOf(SESSION_STATES),
    found: oneOf(FOUND),
    excerpt: text
  })
);

const reasons: Read<Readonly<Record<string, string>>> = (fields, name) => {
  const found = json(fields, name);
  return Object.fromEntries(Object.keys(found).map(key => [key, text(found, key)]));
};

const TOKENS: Read<Readonly<Record<Part, number>>> = of(
  Object.fromEntries(PARTS.map(part => [part, count])) as Shape<Record<Part, number>>
);

/** A result in which nothing is read: that it came is all. */
const NOTHING = {} as Shape<Fields>;

const RESULTS: { readonly [T in CallOp]: Shape<CallResult<T>> } = {
  open: {
    ...PAGE,
    epoch: text,
    seq: count,
    session,
    queue: listOf(queued),
    question: nullable(itemOf('question')),
    plan: PLAN,
    is_running: flag,
    is_kernel_awaited: flag,
    commands: listOf(of({ name: text, usage: text, help: text })),
    models: listOf(text)
  },
  earlier: PAGE,
  submit: { id: text, queued: flag },
  prompt: { text },
  unqueue: NOTHING,
  stop: NOTHING,
  try_now: { tried: flag },
  decide: { how: text },
  seen: NOTHING,
  estimate: { tokens: count, mentions: count },
  complete: { from: count, items: listOf(of({ text, detail: text, kind: text })) },
  summary: {
    n: count,
    trigger: oneOf(TRIGGERS),
    summary: text,
    replaced: of({ first_turn: count, last_turn: count, messages: count }),
    tokens_before: count,
    tokens_after: count,
    seconds: amount,
    cost_usd: nullable(amount),
    parts: orElse(null, nullable(of({ before: TOKENS, after: TOKENS }))),
    reinjected: listOf(of({ kind: text, id: text, tokens: count })),
    state: oneOf(CONDITIONS),
    replaced_items: items,
    undo: of({ ok: flag, reason: text, price: text })
  },
  edit_summary: NOTHING,
  undo_summary: NOTHING,
  compact: NOTHING,
  outputs: { outputs: listOf((fields, name) => json(fields, name)) },
  result: { text, next: nullable(count), chars: count },
  context: { markdown: text },
  undo_edit: NOTHING,
  forget: NOTHING,
  rewind: NOTHING,
  sessions: { rows: SESSIONS, total: count, trashed: SESSIONS },
  resume: { waits: flag },
  delete_session: NOTHING,
  restore_session: NOTHING,
  configure: { refused: reasons },
  set_mode: NOTHING,
  models: { rows: listOf(of({ name: text, help: text })) },
  set_model: { said: text }
};

/** Every operation that the page asks for. */
export const CALL_OPS = Object.keys(RESULTS) as readonly CallOp[];

// What is called ----------------------------------------------------------------------------------

/** Return a message of items, or why it is refused. Never throws, never half understands. */
export function parsePanel(data: unknown): IPanelItems | IRefused {
  return readOr(() => {
    const fields = object(data, 'message');
    const version = field(fields, 'version');
    if (version !== PROTOCOL) {
      throw new Malformed(`it speaks protocol ${say(version)}, this page ${PROTOCOL}`);
    }
    oneOf(['panel'])(fields, 'type');
    return {
      type: 'panel',
      epoch: text(fields, 'epoch'),
      seq: count(fields, 'seq'),
      items: items(fields, 'items')
    };
  });
}

/** Return the result of a call, or why it is refused. Never throws, never half understands. */
export function parseResult<T extends CallOp>(op: T, data: unknown): CallResult<T> | IRefused {
  return readOr(() => shaped(data, op, RESULTS[op]));
}

/** Return one item, or why it is refused. */
export function parseItem(data: unknown): Item | IRefused {
  return readOr(() => item({ item: data }, 'item'));
}

/** Whether something was refused. */
export function isRefused(found: object): found is IRefused {
  return 'type' in found && found.type === 'refused';
}

function readOr<T>(read: () => T): T | IRefused {
  try {
    return read();
  } catch (error) {
    if (error instanceof Malformed) {
      const reason = `A message of the kernel could not be read: ${error.message}.`;
      return { type: 'refused', reason };
    }
    throw error;
  }
}
