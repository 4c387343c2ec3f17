/**
 * Folds items into the conversation that a page shows. Pure, no DOM, no front end.
 *
 * Its law: the same session gives the same conversation, whether its items came one by one, joined,
 * or in the answer to `open`. What a delta changes is copied, the settled part of `log` is not.
 */

import { EMPTY, isRunning } from './conversation';
import type {
  Aside,
  ICompaction,
  IConversation,
  IToolPart,
  ITurn,
  LogEntry,
  TurnPart
} from './conversation';
import { cutOff, inTurn } from './foldturn';
import { lastIndex, mapLast, replaceAt } from './lists';
import { assertNever } from './narrow';
import type {
  ICompactionFailed,
  ICompactionFinished,
  IEarlier,
  IOpened,
  IPanelItems,
  ITurnFinished,
  ITurnStarted,
  Item
} from './panel';

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

function rewind(before: IConversation, turn: number): IConversation {
  const at = before.log.findIndex(entry => entry.kind === 'turn' && entry.turn >= turn);
  const log = at < 0 ? before.log : before.log.slice(0, at);
  const live = before.live !== null && before.live.turn >= turn ? null : before.live;
  return { ...before, log, live, question: live === null ? null : before.question };
}

// What stands beside --------------------------------------------------------------------------------

const COMPACTION: ICompaction = {
  kind: 'compaction',
  n: null,
  trigger: null,
  condition: 'active',
  done: null,
  failed: null
};

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
