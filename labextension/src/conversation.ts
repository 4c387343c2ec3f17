/** The conversation that a page shows: its values, and what is seen of it. `fold.ts` makes it. */

import type { Fields } from './narrow';
import type {
  Closed,
  Decision,
  IAttachment,
  ICommand,
  IFailed,
  IPanelItems,
  IPlanItem,
  IQuestion,
  IQueued,
  ISession,
  IShown,
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
  readonly turn: number;
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

/** Whether a compaction is under way. */
export function isRunning(compaction: ICompaction): boolean {
  return compaction.done === null && compaction.failed === null;
}

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
