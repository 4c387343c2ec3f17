/**
 * The panel's part of the protocol: items, calls and answers, as jupyter_ctx/panel/wire.py makes
 * them; narrowed once, here. Times are seconds since the epoch, durations seconds.
 */

import type { Part } from './events';
import type { Fields } from './narrow';

// Items -------------------------------------------------------------------------------------------

export const TRIGGERS = ['proactive', 'reactive', 'manual'] as const;
export type Trigger = (typeof TRIGGERS)[number];

export const ORIGINS = ['panel', 'cell'] as const;
export type Origin = (typeof ORIGINS)[number];

export const LEVELS = ['info', 'warning', 'error'] as const;
export type Level = (typeof LEVELS)[number];

export const OUTCOMES = ['done', 'stopped', 'failed'] as const;
export type Outcome = (typeof OUTCOMES)[number];

export const PERMISSION_MODES = ['ask', 'edits', 'auto', 'plan'] as const;
export type PermissionMode = (typeof PERMISSION_MODES)[number];

export const UNQUEUED = ['started', 'cancelled'] as const;
export const CLOSED = ['once', 'always', 'denied', 'expired', 'elsewhere'] as const;
export type Closed = (typeof CLOSED)[number];

export const DECISIONS = ['once', 'always'] as const;
export type Decision = (typeof DECISIONS)[number];

export const CONDITIONS = ['active', 'edited', 'undone'] as const;
export type SummaryCondition = (typeof CONDITIONS)[number];

export const PLAN_STATES = ['pending', 'in_progress', 'done'] as const;
export type PlanState = (typeof PLAN_STATES)[number];

/** Something attached to a prompt, in words: `@df`, `DataFrame, 1,000 × 12`. */
export interface IAttachment {
  readonly label: string;
  readonly detail: string;
}

/** A turn begins; `turn` counts from 1. */
export interface ITurnStarted {
  readonly kind: 'turn_started';
  readonly turn: number;
  readonly prompt: string;
  readonly origin: Origin;
  readonly cell_id: string | null;
  readonly at: number;
  readonly attachments: readonly IAttachment[];
}

export interface IStepStarted {
  readonly kind: 'step_started';
  readonly turn: number;
  readonly step: number;
}

/** Some more of an answer; `block` tells the text blocks of a turn apart. */
export interface ITextDelta {
  readonly kind: 'text_delta';
  readonly turn: number;
  readonly block: number;
  readonly text: string;
}

/** A text block is complete; `text` is the whole of it. */
export interface ITextFinished {
  readonly kind: 'text_finished';
  readonly turn: number;
  readonly block: number;
  readonly text: string;
}

export interface IThinkingDelta {
  readonly kind: 'thinking_delta';
  readonly turn: number;
  readonly text: string;
}

/** What was shown of the running step is void. */
export interface IStepDiscarded {
  readonly kind: 'step_discarded';
  readonly turn: number;
  readonly step: number;
}

/** A tool runs now. Texts in `input` that are very long come cut. */
export interface IToolStarted {
  readonly kind: 'tool_started';
  readonly turn: number;
  readonly step: number;
  readonly tool_use_id: string;
  readonly name: string;
  readonly input: Fields;
  readonly label: string;
}

/** The end of what a running tool printed so far; it replaces the one before. */
export interface IToolOutput {
  readonly kind: 'tool_output';
  readonly turn: number;
  readonly tool_use_id: string;
  readonly text: string;
}

/**
 * A tool is done, or was denied: then no `tool_started` came before, and `input` tells what it was
 * (else null). `text` is the beginning of its text of `chars` and `lines`. `seconds` is null where
 * that is not known.
 */
export interface IToolFinished {
  readonly kind: 'tool_finished';
  readonly turn: number;
  readonly step: number;
  readonly tool_use_id: string;
  readonly name: string;
  readonly input: Fields | null;
  readonly label: string;
  readonly text: string;
  readonly is_error: boolean;
  readonly denied: boolean;
  readonly interrupted: boolean;
  readonly chars: number;
  readonly lines: number;
  readonly seconds: number | null;
  readonly decision: Decision | null;
  readonly has_outputs: boolean;
  /** How many pictures it returned. */
  readonly images: number;
}

/** A large result went to the store: the model sees `shown_chars` of its `chars`. */
export interface IResultOffloaded {
  readonly kind: 'result_offloaded';
  readonly turn: number;
  readonly tool_use_id: string;
  readonly name: string;
  readonly chars: number;
  readonly lines: number;
  readonly shown_chars: number;
}

/** So many tokens of a result the model sees, about. */
export interface IResultCounted {
  readonly kind: 'result_counted';
  readonly turn: number;
  readonly tool_use_id: string;
  readonly tokens: number;
}

export interface IStepFinished {
  readonly kind: 'step_finished';
  readonly turn: number;
  readonly step: number;
  readonly stop_reason: string;
  readonly cost_usd: number | null;
}

/** Try `attempt` of `attempts` follows `wait_s` after `at`. */
export interface IRetryScheduled {
  readonly kind: 'retry_scheduled';
  readonly turn: number;
  readonly step: number;
  readonly attempt: number;
  readonly attempts: number;
  readonly wait_s: number;
  readonly reason: string;
  readonly at: number;
}

export interface ICompactionStarted {
  readonly kind: 'compaction_started';
  readonly turn: number;
  readonly n: number;
  readonly trigger: Trigger;
}

export interface ICompactionFinished {
  readonly kind: 'compaction_finished';
  readonly turn: number;
  readonly n: number;
  readonly trigger: Trigger;
  readonly tokens_before: number;
  readonly tokens_after: number;
  readonly seconds: number;
  readonly cost_usd: number | null;
  readonly first_turn: number;
  readonly last_turn: number;
}

/** No compaction came of it. `paused`: no more automatic tries. */
export interface ICompactionFailed {
  readonly kind: 'compaction_failed';
  readonly turn: number;
  readonly reason: string;
  readonly failures: number;
  readonly paused: boolean;
}

export interface INoteAdded {
  readonly kind: 'note_added';
  readonly turn: number;
  readonly level: Level;
  readonly title: string;
  readonly detail: string;
}

/** The turn is over. `tokens` and `cost_usd` are null where the provider or price is silent. */
export interface ITurnFinished {
  readonly kind: 'turn_finished';
  readonly turn: number;
  readonly outcome: Outcome;
  readonly stop_reason: string;
  readonly text: string;
  readonly steps: number;
  readonly tokens: number | null;
  readonly cost_usd: number | null;
  readonly seconds: number | null;
  readonly error: string | null;
  readonly footer: string;
}

/** Who the conversation is. `why` is the sentence why no key or model is in use, "" if none. */
export interface ISession {
  readonly kind: 'session';
  readonly id: string | null;
  readonly title: string;
  readonly notebook: string | null;
  readonly model: string;
  readonly permission_mode: PermissionMode;
  readonly is_demo: boolean;
  readonly why: string;
  readonly turns: number;
  readonly cells: number;
  readonly variables: number;
}

export interface IQueued {
  readonly kind: 'queued';
  readonly id: string;
  readonly text: string;
  readonly attachments: readonly IAttachment[];
}

export interface IUnqueued {
  readonly kind: 'unqueued';
  readonly id: string;
  readonly how: (typeof UNQUEUED)[number];
}

/**
 * Something that can be allowed for the session: `word` goes back; `label` says what it is, as a part
 * of a sentence: `run code`, `edit any cell`.
 */
export interface IOffer {
  readonly word: string;
  readonly label: string;
}

export const CELL_TYPES = ['code', 'markdown', 'raw'] as const;
export type CellType = (typeof CELL_TYPES)[number];

export const CHANGES = ['edit', 'insert', 'delete', 'move'] as const;

/**
 * What a call changes of the notebook's cells, as the model wrote it. `cell_id` is null for an
 * insertion, `source` for all but edit and insertion, `cell_type` for all but that. `after` is the
 * cell that a new or moved one is to stand below; null: a new one at the end, a moved one at the top.
 */
export interface ICellChange {
  readonly op: (typeof CHANGES)[number];
  readonly cell_id: string | null;
  readonly source: string | null;
  readonly cell_type: CellType | null;
  readonly after: string | null;
}

/** A change that the same step asks for later: it is asked about when its turn comes. */
export interface IComingChange extends ICellChange {
  readonly tool_use_id: string;
}

/**
 * A permission is asked for. `text` is all of what is asked about, and `info` its language: `python`,
 * `diff`, `json`, `markdown`, `text`; `change` is what it is about, if that can be drawn in the
 * notebook.
 */
export interface IQuestion {
  readonly kind: 'question';
  readonly id: string;
  readonly sha256: string;
  readonly turn: number;
  readonly step: number;
  readonly tool_use_id: string;
  readonly verb: string;
  readonly title: string;
  readonly text: string;
  readonly info: string;
  readonly cell_id: string | null;
  readonly change: ICellChange | null;
  readonly offers: readonly IOffer[];
  readonly coming?: readonly IComingChange[];
  readonly at: number;
}

export interface IQuestionClosed {
  readonly kind: 'question_closed';
  readonly id: string;
  readonly how: Closed;
  readonly reason: string;
}

/** What a command showed; `markdown` is safe, `data` is JSON for programs by MIME type. */
export interface IShown {
  readonly kind: 'shown';
  readonly id: string;
  readonly command: string;
  readonly markdown: string;
  readonly text: string;
  readonly data: Fields;
}

/** A prompt that could not run; `text` goes back to the composer. */
export interface IFailed {
  readonly kind: 'failed';
  readonly id: string | null;
  readonly title: string;
  readonly detail: string;
  readonly text: string;
}

export interface ISummaryChanged {
  readonly kind: 'summary_changed';
  readonly n: number;
  readonly condition: SummaryCondition;
}

/** Back to before turn `turn`: it and all behind it are gone. */
export interface IRewound {
  readonly kind: 'rewound';
  readonly turn: number;
}

/** Another conversation is open: everything shown is void. */
export interface ICleared {
  readonly kind: 'cleared';
}

/** Whether a turn waits until a cell of the user's has ended. */
export interface IKernelAwaited {
  readonly kind: 'kernel_awaited';
  readonly is_waiting: boolean;
}

export interface IEditMade {
  readonly kind: 'edit_made';
  readonly turn: number;
  readonly tool_use_id: string;
  readonly cell_id: string | null;
  readonly path: string | null;
}

export interface IEditUndone {
  readonly kind: 'edit_undone';
  readonly tool_use_id: string;
}

export interface IPlanItem {
  readonly text: string;
  readonly state: PlanState;
}

/** What the plan is now; without items there is none any more. */
export interface IPlanChanged {
  readonly kind: 'plan_changed';
  readonly turn: number;
  readonly items: readonly IPlanItem[];
}

/** Facts that are kept for later sessions, or taken out again. */
export interface IMemoryChanged {
  readonly kind: 'memory_changed';
  readonly turn: number;
  readonly facts: readonly string[];
  readonly is_undone: boolean;
}

export type Item =
  | ITurnStarted
  | IStepStarted
  | ITextDelta
  | ITextFinished
  | IThinkingDelta
  | IStepDiscarded
  | IToolStarted
  | IToolOutput
  | IToolFinished
  | IResultOffloaded
  | IResultCounted
  | IStepFinished
  | IRetryScheduled
  | ICompactionStarted
  | ICompactionFinished
  | ICompactionFailed
  | INoteAdded
  | ITurnFinished
  | ISession
  | IQueued
  | IUnqueued
  | IQuestion
  | IQuestionClosed
  | IShown
  | IFailed
  | ISummaryChanged
  | IRewound
  | ICleared
  | IEditMade
  | IEditUndone
  | IPlanChanged
  | IMemoryChanged
  | IKernelAwaited;

// Messages ----------------------------------------------------------------------------------------

/** Items of the kernel; `seq` numbers the first, consecutive from 0 within `epoch`. */
export interface IPanelItems {
  readonly type: 'panel';
  readonly epoch: string;
  readonly seq: number;
  readonly items: readonly Item[];
}

// Calls: arguments and results ------------------------------------------------------------------

export type Choice = 'once' | 'always' | 'deny';

export interface ISize {
  readonly width_px: number;
  readonly height_px: number;
}

/** An image of a prompt; `data` is base64. */
export interface IImage {
  readonly media_type: string;
  readonly data: string;
  readonly name: string;
}

export interface ICommand {
  readonly name: string;
  readonly usage: string;
  readonly help: string;
}

/** The newest turns, as items for the same reducer; `seq` is that of the next item to come. */
export interface IOpened {
  readonly epoch: string;
  readonly seq: number;
  readonly session: ISession;
  readonly items: readonly Item[];
  readonly first_turn: number | null;
  readonly has_earlier: boolean;
  readonly queue: readonly IQueued[];
  readonly question: IQuestion | null;
  readonly plan: readonly IPlanItem[];
  readonly is_running: boolean;
  readonly is_kernel_awaited: boolean;
  readonly commands: readonly ICommand[];
  readonly models: readonly string[];
}

/** Turns before those that are shown. */
export interface IEarlier {
  readonly items: readonly Item[];
  readonly first_turn: number | null;
  readonly has_earlier: boolean;
}

export interface ICompletion {
  readonly text: string;
  readonly detail: string;
  readonly kind: string;
}

/** What the text from `from` (UTF-16 units) to the cursor may become. */
export interface ICompletions {
  readonly from: number;
  readonly items: readonly ICompletion[];
}

export interface IReinjected {
  readonly kind: string;
  readonly id: string;
  readonly tokens: number;
}

export const SESSION_STATES = ['', 'here', 'elsewhere', 'deleted'] as const;
export type SessionState = (typeof SESSION_STATES)[number];

export const FOUND = ['', 'title', 'prompt', 'text'] as const;

/**
 * A stored session. `updated` is when it was used last, of a deleted one when it was deleted; `turns`
 * and `cost_usd` are null where they are not known. `found` says which text has the words searched
 * for, `excerpt` is one line around them.
 */
export interface ISessionRow {
  readonly id: string;
  readonly title: string;
  readonly notebook: string | null;
  readonly turns: number | null;
  readonly cost_usd: number | null;
  readonly updated: number;
  readonly state: SessionState;
  readonly found: (typeof FOUND)[number];
  readonly excerpt: string;
}

/** The newest sessions that were searched for; `total` is how many there are. */
export interface ISessions {
  readonly rows: readonly ISessionRow[];
  readonly total: number;
  /** Deleted ones, the newest deleted first; only where no words were searched for. */
  readonly trashed: readonly ISessionRow[];
}

/** A compaction opened: what it says, what it replaced, and whether it can be undone. */
export interface ISummary {
  readonly n: number;
  readonly trigger: Trigger;
  readonly summary: string;
  readonly replaced: {
    readonly first_turn: number;
    readonly last_turn: number;
    readonly messages: number;
  };
  readonly tokens_before: number;
  readonly tokens_after: number;
  readonly seconds: number;
  readonly cost_usd: number | null;
  /** Tokens by part, which add up to the totals; null where a session was stored without. */
  readonly parts: {
    readonly before: Readonly<Record<Part, number>>;
    readonly after: Readonly<Record<Part, number>>;
  } | null;
  readonly reinjected: readonly IReinjected[];
  readonly state: SummaryCondition;
  readonly replaced_items: readonly Item[];
  readonly undo: { readonly ok: boolean; readonly reason: string; readonly price: string };
}

/** A piece of a stored result; `next` is where to go on (null: at its end). */
export interface IResultText {
  readonly text: string;
  readonly next: number | null;
  readonly chars: number;
}

/** Every call: its arguments and its result. */
export interface ICalls {
  readonly open: { args: { turns: number }; result: IOpened };
  readonly earlier: { args: { before: number; turns: number }; result: IEarlier };
  readonly submit: {
    args: { text: string; images: readonly IImage[] };
    result: { readonly id: string; readonly queued: boolean };
  };
  /** The whole text of a turn's prompt, or of one that waits: items have it cut. */
  readonly prompt: {
    args: { turn: number } | { turn: null; id: string };
    result: { readonly text: string };
  };
  readonly unqueue: { args: { id: string }; result: Fields };
  /** `seq`: the number of the next item, so that a prompt the page knows nothing of goes on. */
  readonly stop: { args: { readonly seq?: number }; result: Fields };
  /** End the wait before a try; `tried` is false if it is over. */
  readonly try_now: {
    args: { turn: number; step: number; attempt: number };
    result: { readonly tried: boolean };
  };
  readonly decide: {
    args: { question: string; sha256: string; choice: Choice; word: string; reason: string };
    result: { readonly how: string };
  };
  readonly seen: { args: { question: string }; result: Fields };
  readonly complete: { args: { text: string; cursor: number }; result: ICompletions };
  /** What a prompt takes, without what it mentions; `mentions`: so many are in it. */
  readonly estimate: {
    args: { text: string; images: readonly ISize[] };
    result: { readonly tokens: number; readonly mentions: number };
  };
  readonly summary: { args: { n: number | null }; result: ISummary };
  readonly edit_summary: { args: { n: number; text: string }; result: Fields };
  readonly undo_summary: { args: Record<string, never>; result: Fields };
  readonly compact: { args: { focus: string }; result: Fields };
  readonly outputs: {
    args: { tool_use_id: string };
    result: { readonly outputs: readonly Fields[] };
  };
  readonly result: { args: { tool_use_id: string; start: number }; result: IResultText };
  readonly context: { args: Record<string, never>; result: { readonly markdown: string } };
  readonly undo_edit: { args: { tool_use_id: string | null }; result: Fields };
  /** Take facts out of the memory again; also while a turn runs. */
  readonly forget: { args: { facts: readonly string[] }; result: Fields };
  readonly rewind: { args: { turn: number }; result: Fields };
  /** In titles and prompts; `full`: in every message. */
  readonly sessions: { args: { text: string; full: boolean }; result: ISessions };
  /** Go on with a session, or with a copy; `waits`: a cell runs, it is opened after that. */
  readonly resume: {
    args: { id: string; copy: boolean };
    result: { readonly waits: boolean };
  };
  readonly delete_session: { args: { id: string }; result: Fields };
  readonly restore_session: { args: { id: string }; result: Fields };
  readonly configure: {
    args: { settings: Readonly<Record<string, unknown>> };
    result: { readonly refused: Readonly<Record<string, string>> };
  };
  readonly set_mode: { args: { mode: PermissionMode }; result: Fields };
  /** What there is to switch to, and what each would cost now. */
  readonly models: {
    args: Record<string, never>;
    result: { readonly rows: readonly { readonly name: string; readonly help: string }[] };
  };
  readonly set_model: { args: { name: string }; result: { readonly said: string } };
}
export type CallOp = keyof ICalls;
export type CallArgs<T extends CallOp> = ICalls[T]['args'];
export type CallResult<T extends CallOp> = ICalls[T]['result'];
