/**
 * Changes of cells, proposed and made, read from a conversation. Pure: no DOM, no front end.
 *
 * An edit is shown as the difference between the cell as it stands and the whole new source. The
 * question carries a diff of its own, which is what its sha256 covers: the edit is fresh only if
 * that diff makes the one of the other, so what is shown is what is asked. Of a new, a deleted or a
 * moved cell the question's text is the whole source, and that is what is drawn.
 */

import { Chunk } from '@codemirror/merge';
import { Text } from '@codemirror/state';

import type { IConversation, IToolEdit, ITurn, LogEntry } from './conversation';
import type { CellType, ICellChange, IQuestion } from './panel';

interface IAsked {
  readonly toolUseId: string;
  readonly turn: number;
  readonly step: number;
  /** null: it is asked about after those before it. */
  readonly question: IQuestion | null;
}

/** A new source for a cell. */
export interface IEdit {
  readonly op: 'edit';
  readonly cellId: string;
  readonly proposed: string;
}

/** A new cell below `after`, null: at the end. */
export interface IInsert {
  readonly op: 'insert';
  readonly cellId: null;
  readonly after: string | null;
  readonly type: CellType;
  readonly proposed: string;
}

export interface IDelete {
  readonly op: 'delete';
  readonly cellId: string;
}

/** A cell goes below `after`, null: to the top. */
export interface IMove {
  readonly op: 'move';
  readonly cellId: string;
  readonly after: string | null;
}

/** A change of the notebook's cells that the agent asks for. Sources are as the model wrote them. */
export type IProposal = IAsked & (IEdit | IInsert | IDelete | IMove);

type Moment = Pick<IConversation, 'question' | 'live'>;

/**
 * Return what is proposed now; the very list of before if nothing of it has changed.
 *
 * Between two questions of a step nothing is asked, so the changes that were told to come stay,
 * until they are called, or the step is over.
 */
export function nextProposals(
  before: readonly IProposal[],
  { question, live }: Moment
): readonly IProposal[] {
  const coming = before
    .map(one => ({ ...one, question: null }))
    .filter(one => live?.turn === one.turn && live.step === one.step && !isCalled(live, one))
    .filter(
      one => !before.some(({ toolUseId, question: was }) => was && toolUseId === one.toolUseId)
    );
  const now = [...proposalsOf(question)];
  for (const one of coming) {
    if (now.every(other => other.toolUseId !== one.toolUseId && !isBuiltOn(one, other))) {
      now.push(one);
    }
  }
  return isEqual(before, now) ? before : now;
}

/** Return the change that is asked about and those of the same step behind it. */
function proposalsOf(question: IQuestion | null): readonly IProposal[] {
  if (!question?.change) {
    return [];
  }
  const { turn, step, tool_use_id: id, change } = question;
  const found: IProposal[] = [];
  for (const one of [{ ...change, tool_use_id: id }, ...(question.coming ?? [])]) {
    const its = found.length === 0 && one.tool_use_id === id ? question : null;
    const proposal = proposalOf(one, { toolUseId: one.tool_use_id, turn, step, question: its });
    const isTwice = found.some(other => other.toolUseId === one.tool_use_id);
    if (proposal && !isTwice && !found.some(other => isBuiltOn(proposal, other))) {
      found.push(proposal);
    }
  }
  return found[0]?.question ? found : [];
}

/** Return the change, null if it is none that can be drawn. */
function proposalOf(change: ICellChange, asked: IAsked): IProposal | null {
  const { op, cell_id: cellId, source, cell_type: type, after } = change;
  if (op === 'insert') {
    return source === null || type === null
      ? null
      : { ...asked, op, cellId: null, after, type, proposed: source };
  }
  if (cellId === null) {
    return null;
  }
  switch (op) {
    case 'edit':
      return source === null ? null : { ...asked, op, cellId, proposed: source };
    case 'delete':
      return { ...asked, op, cellId };
    case 'move':
      return after === cellId ? null : { ...asked, op, cellId, after };
  }
}

/** Whether a change is made of what an earlier one leaves: it cannot be shown yet. */
function isBuiltOn(one: IProposal, earlier: IProposal): boolean {
  if (earlier.cellId === null) {
    return false;
  }
  const isPlaced = one.op === 'insert' || one.op === 'move';
  const isGone = earlier.op === 'delete' || earlier.op === 'move';
  return one.cellId === earlier.cellId || (isPlaced && isGone && one.after === earlier.cellId);
}

/**
 * Whether a change still is what the kernel asks about, with the cell's source as it stands: what
 * is shown is then what the answer's sha256 covers. One that is not asked about yet may be.
 *
 * `sourceOf` returns a cell's source, null if there is no such cell.
 */
export function isAsShown(
  proposal: IProposal,
  sourceOf: (cellId: string) => string | null
): boolean {
  const text = proposal.question?.text ?? null;
  const source = proposal.cellId === null ? null : sourceOf(proposal.cellId);
  const hasPlace = (after: string | null): boolean => after === null || sourceOf(after) !== null;
  switch (proposal.op) {
    case 'insert':
      return hasPlace(proposal.after) && (text === null || isText(text, proposal.proposed));
    case 'edit':
      return source !== null && (text === null || makes(text, source, lined(proposal)));
    case 'delete':
      return source !== null && (text === null || isText(text, source));
    case 'move':
      return source !== null && hasPlace(proposal.after) && (text === null || isText(text, source));
  }
}

/** Whether a question's text is that source, spelled. */
function isText(text: string, source: string): boolean {
  return spelled(source.replace(/\r\n/g, '\n')) === text;
}

/** Return the new source that a change brings, as an editor will hold it. */
export function lined({ proposed }: { readonly proposed: string }): string {
  return sourceLines(proposed);
}

/** Where something is drawn: in a cell, or at its end or its top as one more cell. */
export interface ISpot {
  readonly cellId: string;
  readonly at: 'top' | 'in' | 'end';
}

/**
 * Return where a change is drawn among the cells `ids`, null: nowhere, its cell is not there.
 *
 * A new place whose neighbour is gone is drawn at the end, where it can be declined.
 */
export function spotOf(proposal: IProposal, ids: readonly string[]): ISpot | null {
  const [first, last] = [ids[0], ids.at(-1)];
  const { cellId } = proposal;
  if (first === undefined || last === undefined || (cellId !== null && !ids.includes(cellId))) {
    return null;
  }
  switch (proposal.op) {
    case 'edit':
    case 'delete':
      return { cellId: proposal.cellId, at: 'in' };
    case 'insert':
    case 'move': {
      const { op, after } = proposal;
      if (after === null && op === 'move') {
        return { cellId: first, at: 'top' };
      }
      const isThere = after !== null && ids.includes(after);
      return { cellId: isThere ? after : last, at: 'end' };
    }
  }
}

/**
 * Return the changes from top to bottom, as they will stand once they are made in their order: of
 * two below one cell the later one comes first, since it goes between.
 */
export function inOrder(
  proposals: readonly IProposal[],
  ids: readonly string[]
): readonly { readonly proposal: IProposal; readonly spot: ISpot }[] {
  const ranks = { top: 0, in: 1, end: 2 };
  const placed = proposals.flatMap((proposal, at) => {
    const spot = spotOf(proposal, ids);
    if (!spot) {
      return [];
    }
    const isEnd = proposal.op === 'insert' && proposal.after === null;
    const among = isEnd ? proposals.length + at : -at;
    return [{ proposal, spot, key: [ids.indexOf(spot.cellId), ranks[spot.at], among] as const }];
  });
  return placed.sort(
    ({ key: one }, { key: other }) => one[0] - other[0] || one[1] - other[1] || one[2] - other[2]
  );
}

function isCalled(live: ITurn, { toolUseId }: IProposal): boolean {
  return live.parts.some(part => part.kind === 'tool' && part.id === toolUseId);
}

function isEqual(before: readonly IProposal[], now: readonly IProposal[]): boolean {
  return (
    before.length === now.length &&
    before.every((one, at) => {
      const other = now[at];
      return (
        other !== undefined && isSameChange(one, other) && one.question?.id === other.question?.id
      );
    })
  );
}

/** Whether what was shown, and answered, as `before` still is what is proposed. */
export function isStill(before: IProposal, now: IProposal): boolean {
  const isOfQuestion = before.question === null || before.question.id === now.question?.id;
  return isOfQuestion && isSameChange(before, now);
}

/** A call's id alone says little: some servers give the same ones in each step. */
function isSameChange(one: IProposal, other: IProposal): boolean {
  return sameness(one) === sameness(other);
}

function sameness(proposal: IProposal): string {
  const { toolUseId, turn, step, op, cellId } = proposal;
  const { after = null, type = null, proposed = null } = proposal as Partial<IInsert>;
  return JSON.stringify([toolUseId, turn, step, op, cellId, after, type, proposed]);
}

/** Return a source as an editor holds it: one kind of line end. */
export function sourceLines(source: string): string {
  return source.replace(/\r\n?/g, '\n');
}

// C0 without tab and newline, DEL, C1; and what is not seen, or moves what is: as _CONTROL and
// _DECEPTIVE in jupyter_ctx/ipython/plaintext.py, which spells the question's text.
const SPELLED_RANGES =
  '0-8 b-1f 7f-9f a0 ad 34f 61c 115f-1160 1680 17b4-17b5 180b-180f 2000-200f 2028-202f 205f-206f ' +
  '2800 3000 3164 fe00-fe0f feff ffa0 fff0-fffb 13430-13440 1bca0-1bca3 1d173-1d17a e0000-e0fff';
const SPELLED = new RegExp(
  SPELLED_RANGES.split(' ')
    .map(range => `[${range.replace(/[0-9a-f]+/g, '\\u{$&}')}]`)
    .join('|'),
  'gu'
);

/** Return a source as a question shows it: characters that deceive appear as `\\uXXXX`. */
export function spelled(source: string): string {
  return source.replace(SPELLED, char => {
    const code = char.codePointAt(0) ?? 0;
    const digits = code.toString(16);
    return code < 0x10000 ? `\\u${digits.padStart(4, '0')}` : `\\U${digits.padStart(8, '0')}`;
  });
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@$/;
const NO_CHANGE = '(no change)';

/** Whether the diff of a question (hunks without head lines) makes `after` of `before`. */
export function makes(diff: string, before: string, after: string): boolean {
  return applies(diff, spelled(before), spelled(after));
}

function applies(diff: string, before: string, after: string): boolean {
  if (diff === NO_CHANGE) {
    return before === after;
  }
  const old = before.split('\n');
  const made: string[] = [];
  let at = 0;
  for (const line of diff.split('\n')) {
    const rest = line.slice(1);
    const hunk = HUNK.exec(line);
    if (hunk) {
      const start = Number(hunk[1]) - 1;
      if (start < at || start > old.length) {
        return false;
      }
      made.push(...old.slice(at, start));
      at = start;
    } else if (line.startsWith('+')) {
      made.push(rest);
    } else if ((line.startsWith(' ') || line.startsWith('-')) && old[at] === rest) {
      made.push(...(line.startsWith(' ') ? [rest] : []));
      at += 1;
    } else {
      return false;
    }
  }
  return [...made, ...old.slice(at)].join('\n') === after;
}

/** The lines that differ, counted from 1. */
export interface IDiffLines {
  /** Line numbers of the new source that were put in. */
  readonly added: readonly number[];
  /** Line numbers of the old source that are taken out. */
  readonly removed: readonly number[];
}

/** Return which lines differ, as the merge view draws them. */
export function diffLines(before: string, after: string): IDiffLines {
  const [old, new_] = [textOf(before), textOf(after)];
  const added: number[] = [];
  const removed: number[] = [];
  for (const chunk of Chunk.build(old, new_, DIFF)) {
    removed.push(...linesIn(old, chunk.fromA, chunk.toA, chunk.endA));
    added.push(...linesIn(new_, chunk.fromB, chunk.toB, chunk.endB));
  }
  return { added, removed };
}

/** How thoroughly differences are looked for; the same for what is counted and what is drawn. */
export const DIFF = { scanLimit: 500 };

/** A line that is put in at the end is one line only if the one before it ends with a newline. */
function textOf(source: string): Text {
  return Text.of([...source.split('\n'), '']);
}

function linesIn(text: Text, from: number, to: number, end: number): number[] {
  if (from >= to) {
    return [];
  }
  const first = text.lineAt(from).number;
  const last = text.lineAt(Math.min(end, text.length)).number;
  return Array.from({ length: last - first + 1 }, (_, at) => first + at);
}

/** Return, for each line of the new source, its number in the old one; null: it is not there. */
export function oldNumbers(lines: IDiffLines, count: number): (number | null)[] {
  const added = new Set(lines.added);
  const removed = new Set(lines.removed);
  let old = 0;
  return Array.from({ length: count }, (_, at) => {
    if (added.has(at + 1)) {
      return null;
    }
    do {
      old += 1;
    } while (removed.has(old));
    return old;
  });
}

/** Return what stands left of a line, `digits` wide each: ` 4    −`, `    5 +`, ` 4  5  `. */
export function rowHead(
  old: number | null,
  now: number | null,
  sign: ' ' | '+' | '−',
  digits: number
): string {
  const [left, right] = [old, now].map(one => (one === null ? '' : String(one)).padStart(digits));
  return `${left} ${right} ${sign}`;
}

/** Return `+2 −1`. */
export function countText({ added, removed }: IDiffLines): string {
  return `+${added.length} −${removed.length}`;
}

/** Return the same for someone who hears it. */
export function countWords({ added, removed }: IDiffLines): string {
  const lines = added.length === 1 ? 'line' : 'lines';
  return `${added.length} ${lines} added, ${removed.length} removed`;
}

/** An edit that was made and stands: of which cell, by which call, in which turn. */
export interface IMadeEdit {
  readonly toolUseId: string;
  readonly turn: number;
  readonly cellId: string;
}

/** Return the newest edit of each cell that is not undone, by the cell's id. */
export function madeEdits({
  log,
  live
}: Pick<IConversation, 'log' | 'live'>): ReadonlyMap<string, IMadeEdit> {
  const settled = settledEdits(log);
  const now = live ? editsIn(live) : [];
  return now.length === 0
    ? settled
    : new Map([...settled, ...now.map(made => [made.cellId, made] as const)]);
}

/** Of each log, which never changes: it is read once, however much is said behind it. */
const settledIn = new WeakMap<readonly LogEntry[], ReadonlyMap<string, IMadeEdit>>();

function settledEdits(log: readonly LogEntry[]): ReadonlyMap<string, IMadeEdit> {
  const known = settledIn.get(log);
  if (known) {
    return known;
  }
  const found = new Map<string, IMadeEdit>();
  for (const entry of log) {
    if (entry.kind === 'turn') {
      for (const made of editsIn(entry)) {
        found.set(made.cellId, made);
      }
    }
  }
  settledIn.set(log, found);
  return found;
}

function editsIn(turn: ITurn): IMadeEdit[] {
  return turn.parts.flatMap(part =>
    part.kind === 'tool' ? part.edits.flatMap(edit => madeOf(edit, part.id, turn.turn)) : []
  );
}

function madeOf({ cellId, isUndone }: IToolEdit, toolUseId: string, turn: number): IMadeEdit[] {
  return cellId === null || isUndone ? [] : [{ toolUseId, turn, cellId }];
}
