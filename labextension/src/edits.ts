/**
 * Edits of cells, proposed and made, read from a conversation. Pure: no DOM, no front end.
 *
 * A proposal is shown as the difference between the cell as it stands and the whole new source. The
 * question carries a diff of its own, which is what its sha256 covers: a proposal is fresh only if
 * that diff makes the one of the other, so what is shown is what is asked.
 */

import { Chunk } from '@codemirror/merge';
import { Text } from '@codemirror/state';

import type { IConversation, IToolEdit, ITurn } from './conversation';
import type { IQuestion } from './panel';

/** The group of calls that edit cells. */
export const EDIT_VERB = 'edit cells';

/** A new source for a cell. `question` null: it is asked about after those before it. */
export interface IProposal {
  readonly toolUseId: string;
  readonly turn: number;
  readonly step: number;
  readonly cellId: string;
  readonly proposed: string;
  readonly question: IQuestion | null;
}

type Moment = Pick<IConversation, 'question' | 'live'>;

/**
 * Return what is proposed now; the very list of before if nothing of it has changed.
 *
 * Between two questions of a step nothing is asked, so the edits that were told to come stay, until
 * they are called, or the step is over.
 */
export function nextProposals(
  before: readonly IProposal[],
  { question, live }: Moment
): readonly IProposal[] {
  const asked = proposalsOf(question);
  const coming = before
    .map(one => ({ ...one, question: null }))
    .filter(one => live?.turn === one.turn && live.step === one.step && !isCalled(live, one))
    .filter(
      one => !before.some(({ toolUseId, question: was }) => was && toolUseId === one.toolUseId)
    );
  const now = [...asked];
  for (const one of coming) {
    if (
      !now.some(({ toolUseId, cellId }) => toolUseId === one.toolUseId || cellId === one.cellId)
    ) {
      now.push(one);
    }
  }
  return isEqual(before, now) ? before : now;
}

/** Return the edit that is asked about and those of the same step behind it, one for a cell. */
function proposalsOf(question: IQuestion | null): readonly IProposal[] {
  if (question?.verb !== EDIT_VERB || question.cell_id === null || question.proposed === null) {
    return [];
  }
  const { turn, step, tool_use_id: id, cell_id: cell, proposed: source } = question;
  const first = { tool_use_id: id, cell_id: cell, proposed: source };
  const found: IProposal[] = [];
  for (const one of [first, ...(question.coming ?? [])]) {
    const { tool_use_id: toolUseId, cell_id: cellId } = one;
    // A second edit of a cell is made of what the first leaves: it cannot be shown yet.
    if (!found.some(other => other.cellId === cellId)) {
      const proposed = sourceLines(one.proposed);
      const its = one === first ? question : null;
      found.push({ toolUseId, turn, step, cellId, proposed, question: its });
    }
  }
  return found;
}

function isCalled(live: ITurn, { toolUseId }: IProposal): boolean {
  return live.parts.some(part => part.kind === 'tool' && part.id === toolUseId);
}

function isEqual(before: readonly IProposal[], now: readonly IProposal[]): boolean {
  return (
    before.length === now.length &&
    before.every((one, at) => {
      const other = now[at];
      return one.toolUseId === other?.toolUseId && one.question?.id === other.question?.id;
    })
  );
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
export function madeEdits(
  conversation: Pick<IConversation, 'log' | 'live'>
): ReadonlyMap<string, IMadeEdit> {
  const found = new Map<string, IMadeEdit>();
  const { log, live } = conversation;
  for (const entry of live ? [...log, live] : log) {
    if (entry.kind === 'turn') {
      for (const made of editsIn(entry)) {
        found.set(made.cellId, made);
      }
    }
  }
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
