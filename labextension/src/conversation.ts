/**
 * The conversation that a page shows, folded from items. Pure, no DOM, no front end.
 *
 * Its law: the same session gives the same conversation, whether its items came one by one, joined,
 * or in the answer to `open`. What a delta changes is copied, the settled part of `log` is not.
 */

import type { Fields } from './narrow';
import type {
  Closed,
  Decision,
  IAttachment,
  ICommand,
  ICompactionFailed,
  ICompactionFinished,
  IEarlier,
  IFailed,
  IOpened,
  IPanelItems,
  IPlanItem,
  IQuestion,
  IQueued,
  IRetryScheduled,
  ISession,
  IShown,
  IToolFinished,
  IToolStarted,
  ITurnFinished,
  ITurnStarted,
  Item,
  Level,
  Origin,
  Outcome,
  SummaryCondition,
  Trigger
} from './panel';

/** Text of an answer, as Markdown. `isDone`: no more of it comes. */
export interface ITextPart {
  readonly kind: 'text';
  readonly step: number;
  readonly block: number;
  readonly text: string;
  readonly isDone: boolean;
}

export interface IThinkingPart {
  readonly kind: 'thinking';
  readonly step: number;
  readonly text: string;
}

/** How a tool ended. `text` is its beginning; what is null is not known. */
export interface IToolResult {
  readonly text: string;
  readonly isError: boolean;
  readonly isDenied: boolean;
  readonly isInterrupted: boolean;
  readonly chars: number;
  readonly lines: number;
  readonly seconds: number | null;
  readonly decision: Decision | null;
  readonly hasOutputs: boolean;
  readonly images: number;
}

/** A cell or a file that a tool edited. */
export interface IToolEdit {
  readonly cellId: string | null;
  readonly path: string | null;
  readonly isUndone: boolean;
}

/**
 * One call of a tool. `output` is the end of what it printed while it runs. `result` null: it runs.
 * `stored`: the model sees so many characters of its result, `tokens`: about so many tokens. `input`
 * and `tokens` null: not known.
 */
export interface IToolPart {
  readonly kind: 'tool';
  readonly step: number;
  readonly id: string;
  readonly name: string;
  readonly input: Fields | null;
  readonly label: string;
  readonly output: string;
  readonly result: IToolResult | null;
  readonly stored: {
    readonly chars: number;
    readonly lines: number;
    readonly shownChars: number;
  } | null;
  readonly tokens: number | null;
  readonly edits: readonly IToolEdit[];
}

/** A try that waits; `isOver`: it was made, or never will be. */
export interface IRetryPart {
  readonly kind: 'retry';
  readonly step: number;
  readonly attempt: number;
  readonly attempts: number;
  readonly waitS: number;
  readonly reason: string;
  readonly at: number;
  readonly isOver: boolean;
}

/** A compaction where it happened. `done` null: it runs, or `failed` says why nothing came of it. */
export interface ICompaction {
  readonly kind: 'compaction';
  /** Null of one that failed before it began. */
  readonly n: number | null;
  readonly trigger: Trigger | null;
  readonly condition: SummaryCondition;
  readonly done: {
    readonly tokensBefore: number;
    readonly tokensAfter: number;
    readonly seconds: number;
    readonly costUsd: number | null;
    readonly firstTurn: number;
    readonly lastTurn: number;
  } | null;
  readonly failed: {
    readonly reason: string;
    readonly failures: number;
    readonly isPaused: boolean;
  } | null;
}

export interface INote {
  readonly kind: 'note';
  readonly level: Level;
  readonly title: string;
  readonly detail: string;
}

/** Facts that were kept for later sessions, where that happened; `undone`: taken out again. */
export interface IMemory {
  readonly kind: 'memory';
  readonly facts: readonly string[];
  readonly undone: readonly string[];
}

/** What stands in a turn or between two. */
export type Aside = ICompaction | INote | IMemory | IShown | IFailed;

export type TurnPart = ITextPart | IThinkingPart | IToolPart | IRetryPart | Aside;

export interface ITurnEnd {
  readonly outcome: Outcome;
  readonly stopReason: string;
  readonly steps: number;
  readonly tokens: number | null;
  readonly costUsd: number | null;
  readonly seconds: number | null;
  readonly error: string | null;
  readonly footer: string;
}

/** One turn. `step` is the running or last step (0: none yet); `end` null: it runs, or is cut off. */
export interface ITurn {
  readonly kind: 'turn';
  readonly turn: number;
  readonly prompt: string;
  readonly origin: Origin;
  readonly cellId: string | null;
  readonly at: number;
  readonly attachments: readonly IAttachment[];
  readonly parts: readonly TurnPart[];
  readonly step: number;
  readonly end: ITurnEnd | null;
}

export type LogEntry = ITurn | Aside;

/** The last question that was closed, for the page that showed it. */
export interface IClosedQuestion {
  readonly id: string;
  readonly how: Closed;
  readonly reason: string;
}

export interface IConversation {
  /** Null before the first answer to `open`. */
  readonly epoch: string | null;
  /** Number of the next item. */
  readonly seq: number;
  /** Items are missing: call `open`. What comes meanwhile is kept in `held`. */
  readonly isStale: boolean;
  readonly held: readonly IPanelItems[];
  readonly session: ISession | null;
  /** What is settled, oldest first; the same list as long as nothing in it changes. */
  readonly log: readonly LogEntry[];
  /** The running turn; it stands behind `log`. */
  readonly live: ITurn | null;
  readonly queue: readonly IQueued[];
  readonly question: IQuestion | null;
  readonly closed: IClosedQuestion | null;
  /** The plan as it is now; empty: there is none. */
  readonly plan: readonly IPlanItem[];
  readonly firstTurn: number | null;
  readonly hasEarlier: boolean;
  /** A turn or a compaction runs. */
  readonly isRunning: boolean;
  /** What runs waits until a cell of the user's has ended. */
  readonly isKernelAwaited: boolean;
  readonly commands: readonly ICommand[];
  readonly models: readonly string[];
}

/** What the run line says; null: nothing runs. */
export type Activity =
  'thinking' | 'writing' | 'tool' | 'waiting' | 'compacting' | 'retrying' | null;

export const EMPTY: IConversation = {
  epoch: null,
  seq: 0,
  isStale: false,
  held: [],
  session: null,
  log: [],
  live: null,
  queue: [],
  question: null,
  closed: null,
  plan: [],
  firstTurn: null,
  hasEarlier: false,
  isRunning: false,
  isKernelAwaited: false,
  commands: [],
  models: []
};

/** So many messages are kept while items are missing. */
const MOST_HELD = 2_000;

// From the wire -----------------------------------------------------------------------------------

/**
 * Return the conversation after a message of the kernel: each item counts once, by its number. One
 * of another epoch, or behind a gap, is held until `opened` brings what is missing.
 */
export function receive(before: IConversation, message: IPanelItems): IConversation {
  const isOurs = message.epoch === before.epoch;
  const known = before.seq - message.seq;
  if (isOurs && known >= message.items.length) {
    return before;
  }
  if (before.isStale || !isOurs || known < 0) {
    const held = [...before.held, message].slice(-MOST_HELD);
    return { ...before, isStale: true, held };
  }
  const after = message.items.slice(known).reduce(reduce, before);
  return { ...after, seq: message.seq + message.items.length };
}

/** Return the conversation that the answer to `open` tells, with what was held meanwhile. */
export function opened(before: IConversation, answer: IOpened): IConversation {
  const folded = answer.items.reduce(reduce, { ...EMPTY, session: answer.session });
  const fresh: IConversation = {
    ...folded,
    epoch: answer.epoch,
    seq: answer.seq,
    session: answer.session,
    queue: answer.queue,
    question: answer.question,
    plan: answer.plan,
    firstTurn: answer.first_turn,
    hasEarlier: answer.has_earlier,
    isKernelAwaited: answer.is_kernel_awaited,
    commands: answer.commands,
    models: answer.models
  };
  return before.held
    .filter(message => message.epoch === answer.epoch)
    .reduce(receive, answer.is_running ? fresh : settled(fresh));
}

/** Return the conversation with nothing running: a turn that was, is settled as it stands. */
export function settled(before: IConversation): IConversation {
  const { live, log } = before;
  return live === null
    ? { ...before, isRunning: false }
    : { ...before, log: [...log, cutOff(live)], live: null, isRunning: false };
}

/** Return the conversation with the turns of an answer to `earlier` in front. */
export function withEarlier(before: IConversation, answer: IEarlier): IConversation {
  const folded = answer.items.reduce(reduce, EMPTY);
  const older = folded.live === null ? folded.log : [...folded.log, folded.live];
  const first = before.firstTurn ?? Infinity;
  const end = older.findIndex(entry => entry.kind === 'turn' && entry.turn >= first);
  return {
    ...before,
    log: [...(end < 0 ? older : older.slice(0, end)), ...before.log],
    firstTurn: answer.first_turn ?? before.firstTurn,
    hasEarlier: answer.has_earlier
  };
}

// One item ----------------------------------------------------------------------------------------

/** Return the conversation after `item`; the same one if it says nothing new. Pure and total. */
export function reduce(before: IConversation, item: Item): IConversation {
  switch (item.kind) {
    case 'turn_started':
      return startTurn(before, item);
    case 'step_started':
    case 'text_delta':
    case 'text_finished':
    case 'thinking_delta':
    case 'step_discarded':
    case 'tool_started':
    case 'tool_output':
    case 'step_finished':
    case 'retry_scheduled':
    case 'tool_finished':
    case 'result_offloaded':
      return inLive(before, item.turn, turn => inTurn(turn, item));
    case 'result_counted':
      return withTool(before, item.tool_use_id, tool => ({ ...tool, tokens: item.tokens }));
    case 'edit_made':
      return withTool(before, item.tool_use_id, tool => ({
        ...tool,
        edits: [...tool.edits, { cellId: item.cell_id, path: item.path, isUndone: false }]
      }));
    case 'edit_undone':
      return withTool(before, item.tool_use_id, tool => ({
        ...tool,
        edits: tool.edits.map(edit => ({ ...edit, isUndone: true }))
      }));
    case 'compaction_started':
      return {
        ...beside(before, item.turn, { ...COMPACTION, n: item.n, trigger: item.trigger }),
        isRunning: true
      };
    case 'compaction_finished':
    case 'compaction_failed':
      return endCompaction(before, item);
    case 'summary_changed':
      return withCompaction(before, item.n, old => ({ ...old, condition: item.condition }));
    case 'note_added': {
      const { level, title, detail } = item;
      return beside(before, item.turn, { kind: 'note', level, title, detail });
    }
    case 'plan_changed':
      return { ...before, plan: item.items };
    case 'memory_changed':
      return item.is_undone
        ? forget(before, item.facts)
        : beside(before, item.turn, { kind: 'memory', facts: item.facts, undone: [] });
    case 'turn_finished':
      return finishTurn(before, item);
    case 'session':
      return { ...before, session: item };
    case 'kernel_awaited':
      return { ...before, isKernelAwaited: item.is_waiting };
    case 'queued':
      return before.queue.some(one => one.id === item.id)
        ? before
        : { ...before, queue: [...before.queue, item] };
    case 'unqueued':
      return { ...before, queue: before.queue.filter(one => one.id !== item.id) };
    case 'question':
      return { ...before, question: item };
    case 'question_closed': {
      const closed = { id: item.id, how: item.how, reason: item.reason };
      return before.question?.id === item.id
        ? { ...before, question: null, closed }
        : { ...before, closed };
    }
    case 'shown':
      return beside(before, null, item);
    case 'failed':
      return beside(before, null, item);
    case 'rewound':
      return rewind(before, item.turn);
    case 'cleared': {
      const { epoch, seq, session, held, commands, models } = before;
      return { ...EMPTY, epoch, seq, session, held, commands, models, isStale: true };
    }
    default:
      return assertNever(item);
  }
}

function startTurn(before: IConversation, item: ITurnStarted): IConversation {
  const live: ITurn = {
    kind: 'turn',
    turn: item.turn,
    prompt: item.prompt,
    origin: item.origin,
    cellId: item.cell_id,
    at: item.at,
    attachments: item.attachments,
    parts: [],
    step: 0,
    end: null
  };
  // A turn that was left open (its kernel died) is settled as it stands.
  const { log } = settled(before);
  const firstTurn = before.firstTurn ?? item.turn;
  return { ...before, log, live, firstTurn, isRunning: true };
}

function finishTurn(before: IConversation, item: ITurnFinished): IConversation {
  const { live } = before;
  if (live?.turn !== item.turn) {
    return before;
  }
  const done: ITurn = {
    ...cutOff(live),
    end: {
      outcome: item.outcome,
      stopReason: item.stop_reason,
      steps: item.steps,
      tokens: item.tokens,
      costUsd: item.cost_usd,
      seconds: item.seconds,
      error: item.error,
      footer: item.footer
    }
  };
  return { ...before, log: [...before.log, done], live: null, question: null, isRunning: false };
}

/** A turn that goes on no more: nothing in it waits or runs. */
function cutOff(turn: ITurn): ITurn {
  return { ...turn, parts: turn.parts.map(closed) };
}

/** A part as it stays when its turn is over: nothing in it waits or runs. */
function closed(part: TurnPart): TurnPart {
  switch (part.kind) {
    case 'text':
      return part.isDone ? part : { ...part, isDone: true };
    case 'retry':
      return part.isOver ? part : { ...part, isOver: true };
    case 'tool':
      return part.result === null ? { ...part, result: CUT_OFF } : part;
    case 'compaction':
      return isRunning(part) ? { ...part, failed: NOT_FINISHED } : part;
    case 'thinking':
    case 'note':
    case 'memory':
    case 'shown':
    case 'failed':
      return part;
    default:
      return assertNever(part);
  }
}

/** What a call came to whose turn ended before it did. */
const CUT_OFF: IToolResult = {
  text: '',
  isError: true,
  isDenied: false,
  isInterrupted: true,
  chars: 0,
  lines: 0,
  seconds: null,
  decision: null,
  hasOutputs: false,
  images: 0
};

const NOT_FINISHED = { reason: 'It was stopped.', failures: 0, isPaused: false };

function rewind(before: IConversation, turn: number): IConversation {
  const at = before.log.findIndex(entry => entry.kind === 'turn' && entry.turn >= turn);
  const log = at < 0 ? before.log : before.log.slice(0, at);
  const live = before.live !== null && before.live.turn >= turn ? null : before.live;
  return { ...before, log, live, question: live === null ? null : before.question };
}

// The running turn --------------------------------------------------------------------------------

type TurnItem = Extract<
  Item,
  {
    kind:
      | 'step_started'
      | 'text_delta'
      | 'text_finished'
      | 'thinking_delta'
      | 'step_discarded'
      | 'tool_started'
      | 'tool_output'
      | 'tool_finished'
      | 'result_offloaded'
      | 'step_finished'
      | 'retry_scheduled';
  }
>;

function inTurn(turn: ITurn, item: TurnItem): ITurn {
  switch (item.kind) {
    case 'step_started':
      return { ...tried(turn), step: item.step };
    case 'text_delta':
      return addText(tried(turn), item.block, item.text, false);
    case 'text_finished':
      return addText(tried(turn), item.block, item.text, true);
    case 'thinking_delta':
      return addThinking(tried(turn), item.text);
    case 'step_discarded':
      return { ...turn, parts: turn.parts.filter(part => !isVoid(part, item.step)) };
    case 'tool_started':
      return addTool(tried(turn), item);
    case 'tool_output':
      return inTool(turn, item.tool_use_id, tool => ({ ...tool, output: item.text }));
    case 'tool_finished':
      return finishTool(turn, item);
    case 'result_offloaded': {
      const { chars, lines, shown_chars: shownChars } = item;
      return inTool(turn, item.tool_use_id, tool => ({
        ...tool,
        stored: { chars, lines, shownChars }
      }));
    }
    case 'step_finished':
      return { ...turn, parts: mapLast(tried(turn).parts, isOpenText, closed) };
    case 'retry_scheduled':
      return addRetry(turn, item);
    default:
      return assertNever(item);
  }
}

/** Whether a part was shown of step `step`, whose stream broke. */
function isVoid(part: TurnPart, step: number): boolean {
  return (part.kind === 'text' || part.kind === 'thinking') && part.step === step;
}

function isOpenText(part: TurnPart): boolean {
  return part.kind === 'text' && !part.isDone;
}

/** What waited for another try goes on. */
function tried(turn: ITurn): ITurn {
  const last = turn.parts.at(-1);
  return last?.kind === 'retry' && !last.isOver
    ? { ...turn, parts: replaceAt(turn.parts, turn.parts.length - 1, closed(last)) }
    : turn;
}

function addText(turn: ITurn, block: number, text: string, isWhole: boolean): ITurn {
  const at = lastIndex(turn.parts, part => part.kind === 'text' && part.block === block);
  const old = turn.parts[at];
  if (old?.kind !== 'text') {
    const part: ITextPart = { kind: 'text', step: turn.step, block, text, isDone: isWhole };
    return { ...turn, parts: [...turn.parts, part] };
  }
  if (old.isDone && !isWhole) {
    return turn;
  }
  const part = { ...old, text: isWhole ? text : old.text + text, isDone: isWhole };
  return { ...turn, parts: replaceAt(turn.parts, at, part) };
}

function addThinking(turn: ITurn, text: string): ITurn {
  const last = turn.parts.at(-1);
  return last?.kind === 'thinking' && last.step === turn.step
    ? {
        ...turn,
        parts: replaceAt(turn.parts, turn.parts.length - 1, { ...last, text: last.text + text })
      }
    : { ...turn, parts: [...turn.parts, { kind: 'thinking', step: turn.step, text }] };
}

function addTool(turn: ITurn, item: IToolStarted): ITurn {
  const part: IToolPart = {
    kind: 'tool',
    step: item.step,
    id: item.tool_use_id,
    name: item.name,
    input: item.input,
    label: item.label,
    output: '',
    result: null,
    stored: null,
    tokens: null,
    edits: []
  };
  return turn.parts.some(one => one.kind === 'tool' && one.id === part.id)
    ? turn
    : { ...turn, parts: [...turn.parts, part] };
}

function finishTool(turn: ITurn, item: IToolFinished): ITurn {
  const begun = { ...item, input: item.input ?? {}, kind: 'tool_started' as const };
  return inTool(addTool(turn, begun), item.tool_use_id, tool => ({
    ...tool,
    input: item.input ?? tool.input,
    label: item.label,
    output: '',
    result: {
      text: item.text,
      isError: item.is_error,
      isDenied: item.denied,
      isInterrupted: item.interrupted,
      chars: item.chars,
      lines: item.lines,
      seconds: item.seconds,
      decision: item.decision,
      hasOutputs: item.has_outputs,
      images: item.images
    }
  }));
}

function addRetry(turn: ITurn, item: IRetryScheduled): ITurn {
  const part: IRetryPart = {
    kind: 'retry',
    step: item.step,
    attempt: item.attempt,
    attempts: item.attempts,
    waitS: item.wait_s,
    reason: item.reason,
    at: item.at,
    isOver: false
  };
  // The tries of one step share a row.
  const last = turn.parts.at(-1);
  const parts =
    last?.kind === 'retry' && last.step === item.step ? turn.parts.slice(0, -1) : turn.parts;
  return { ...turn, parts: [...parts, part] };
}

// What stands beside ------------------------------------------------------------------------------

const COMPACTION: ICompaction = {
  kind: 'compaction',
  n: null,
  trigger: null,
  condition: 'active',
  done: null,
  failed: null
};

/** Whether a compaction is under way. */
export function isRunning(compaction: ICompaction): boolean {
  return compaction.done === null && compaction.failed === null;
}

/** Put something where the conversation is: into the running turn, else behind the last. */
function beside(before: IConversation, turn: number | null, aside: Aside): IConversation {
  const { live } = before;
  if (live !== null && (turn === null || turn === live.turn)) {
    return { ...before, live: { ...live, parts: [...live.parts, aside] } };
  }
  return { ...before, log: [...before.log, aside] };
}

/** Facts were taken out of the memory: of each, the newest note that kept it says so. */
function forget(before: IConversation, facts: readonly string[]): IConversation {
  return facts.reduce(
    (after, fact) =>
      change(
        after,
        part => part.kind === 'memory' && part.facts.includes(fact),
        part =>
          part.kind === 'memory' && !part.undone.includes(fact)
            ? { ...part, undone: [...part.undone, fact] }
            : part
      ) ?? after,
    before
  );
}

function endCompaction(
  before: IConversation,
  item: ICompactionFinished | ICompactionFailed
): IConversation {
  const end = (old: ICompaction): ICompaction =>
    item.kind === 'compaction_finished'
      ? {
          ...old,
          n: item.n,
          trigger: item.trigger,
          done: {
            tokensBefore: item.tokens_before,
            tokensAfter: item.tokens_after,
            seconds: item.seconds,
            costUsd: item.cost_usd,
            firstTurn: item.first_turn,
            lastTurn: item.last_turn
          }
        }
      : {
          ...old,
          failed: { reason: item.reason, failures: item.failures, isPaused: item.paused }
        };
  const after =
    change(
      before,
      part => part.kind === 'compaction' && isRunning(part),
      part => (part.kind === 'compaction' ? end(part) : part)
    ) ?? beside(before, item.turn, end(COMPACTION));
  return { ...after, isRunning: before.live !== null };
}

function withCompaction(
  before: IConversation,
  n: number,
  edit: (old: ICompaction) => ICompaction
): IConversation {
  const found = change(
    before,
    part => part.kind === 'compaction' && part.n === n,
    part => (part.kind === 'compaction' ? edit(part) : part)
  );
  return found ?? before;
}

function withTool(
  before: IConversation,
  id: string,
  edit: (tool: IToolPart) => IToolPart
): IConversation {
  const found = change(
    before,
    part => part.kind === 'tool' && part.id === id,
    part => (part.kind === 'tool' ? edit(part) : part)
  );
  return found ?? before;
}

/** Change the newest part that `is` finds, wherever it stands; null if there is none. */
function change(
  before: IConversation,
  is: (part: TurnPart) => boolean,
  edit: (part: TurnPart) => TurnPart
): IConversation | null {
  const { live, log } = before;
  if (live?.parts.some(is)) {
    return { ...before, live: { ...live, parts: mapLast(live.parts, is, edit) } };
  }
  const at = lastIndex(log, entry => (entry.kind === 'turn' ? entry.parts.some(is) : is(entry)));
  const found = log[at];
  if (found === undefined) {
    return null;
  }
  const changed =
    found.kind === 'turn' ? { ...found, parts: mapLast(found.parts, is, edit) } : edit(found);
  return { ...before, log: replaceAt(log, at, changed as LogEntry) };
}

function inLive(before: IConversation, turn: number, edit: (turn: ITurn) => ITurn): IConversation {
  if (before.live?.turn !== turn) {
    return before;
  }
  const live = edit(before.live);
  return live === before.live ? before : { ...before, live };
}

function inTool(turn: ITurn, id: string, edit: (tool: IToolPart) => IToolPart): ITurn {
  const parts = mapLast(
    turn.parts,
    part => part.kind === 'tool' && part.id === id,
    part => (part.kind === 'tool' ? edit(part) : part)
  );
  return parts === turn.parts ? turn : { ...turn, parts };
}

// What is seen of it ------------------------------------------------------------------------------

/** Return what the run line says. */
export function activityOf(conversation: IConversation): Activity {
  const { live, question, log } = conversation;
  if (question !== null) {
    return 'waiting';
  }
  const last = live === null ? log.at(-1) : live.parts.at(-1);
  if (last?.kind === 'compaction' && isRunning(last)) {
    return 'compacting';
  }
  if (live === null) {
    return null;
  }
  if (live.parts.some(part => part.kind === 'tool' && part.result === null)) {
    return 'tool';
  }
  if (last?.kind === 'retry' && !last.isOver) {
    return 'retrying';
  }
  return last?.kind === 'text' && !last.isDone ? 'writing' : 'thinking';
}

// Lists -------------------------------------------------------------------------------------------

function lastIndex<T>(list: readonly T[], is: (one: T) => boolean): number {
  let at = list.length - 1;
  while (at >= 0 && !is(list[at] as T)) {
    at -= 1;
  }
  return at;
}

function replaceAt<T>(list: readonly T[], at: number, one: T): readonly T[] {
  const copy = list.slice();
  copy[at] = one;
  return copy;
}

function mapLast<T>(
  list: readonly T[],
  is: (one: T) => boolean,
  edit: (one: T) => T
): readonly T[] {
  const at = lastIndex(list, is);
  const found = list[at];
  return found === undefined ? list : replaceAt(list, at, edit(found));
}

function assertNever(item: never): never {
  throw new Error(`unknown item ${JSON.stringify(item)}`);
}
