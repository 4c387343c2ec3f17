/** Folds items into one turn: its steps, texts, tools and retries. Pure. */

import { isRunning } from './conversation';
import type {
  IRetryPart,
  ITextPart,
  IToolPart,
  IToolResult,
  ITurn,
  TurnPart
} from './conversation';
import { lastIndex, mapLast, replaceAt } from './lists';
import { assertNever } from './narrow';
import type { IRetryScheduled, IToolFinished, IToolStarted, Item } from './panel';

/** What is said of the running turn alone. */
export type TurnItem = Extract<
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

/** Return the turn after `item`; the same one if it says nothing new. Pure and total. */
export function inTurn(turn: ITurn, item: TurnItem): ITurn {
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
    turn: item.turn,
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

function inTool(turn: ITurn, id: string, edit: (tool: IToolPart) => IToolPart): ITurn {
  const parts = mapLast(
    turn.parts,
    part => part.kind === 'tool' && part.id === id,
    part => (part.kind === 'tool' ? edit(part) : part)
  );
  return parts === turn.parts ? turn : { ...turn, parts };
}

// Its end -------------------------------------------------------------------------------------------

/** Return a turn that goes on no more: nothing in it waits or runs. */
export function cutOff(turn: ITurn): ITurn {
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
