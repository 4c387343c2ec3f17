/**
 * The log cut into stretches: what the browser skips, and React compares, as one. Pure.
 *
 * Its law: an entry keeps its key, and its stretch, when turns come in front or behind.
 */

import type { ITurn, LogEntry } from '../conversation';

/** So many turns make a stretch. */
export const TOGETHER = 16;

/** So much is drawn in one frame: rows and texts of turns, each turn being one more. */
const IN_A_FRAME = 40;

export interface IKeyed {
  readonly key: string;
  readonly entry: LogEntry;
  /** The turn it is, or that it stands behind; 0: it stands before the first. */
  readonly turn: number;
}

export interface IStretch {
  readonly key: string;
  readonly entries: readonly IKeyed[];
}

/** A key for each entry: asides are counted from their turn, so none changes by turns in front. */
export function keysOf(entries: readonly LogEntry[]): IKeyed[] {
  let turn = 0;
  let behind = 0;
  return entries.map(entry => {
    if (entry.kind === 'turn') {
      turn = entry.turn;
      behind = 0;
      return keyed(entry);
    }
    behind += 1;
    if (entry.kind === 'compaction' && entry.n !== null) {
      return { key: `compaction ${entry.n}`, entry, turn };
    }
    return { key: `${turn === 0 ? 'start' : `turn ${turn}`} + ${behind}`, entry, turn };
  });
}

function keyed(entry: ITurn): IKeyed {
  return { key: `turn ${entry.turn}`, entry, turn: entry.turn };
}

/** Return the stretches of a list, in its order. */
export function stretchesOf(list: readonly IKeyed[]): readonly IStretch[] {
  const stretches: { key: string; entries: IKeyed[] }[] = [];
  let last = -1;
  for (const one of list) {
    const at = Math.floor(one.turn / TOGETHER);
    if (at > last) {
      last = at;
      stretches.push({ key: `stretch ${at}`, entries: [] });
    }
    stretches.at(-1)?.entries.push(one);
  }
  return stretches;
}

/** Return the stretches with the running turn behind them; all but the last are the very same. */
export function withLive(before: readonly IStretch[], live: ITurn): readonly IStretch[] {
  const last = before.at(-1);
  const key = `stretch ${Math.floor(live.turn / TOGETHER)}`;
  return last?.key === key
    ? [...before.slice(0, -1), { key, entries: [...last.entries, keyed(live)] }]
    : [...before, { key, entries: [keyed(live)] }];
}

/** Return how many entries from `from` on, at least one and none from `end` on, a frame takes. */
export function sliceOf(list: readonly IKeyed[], from: number, end: number): number {
  let at = from;
  for (let weight = 0; at < end && weight < IN_A_FRAME; at += 1) {
    const entry = list[at]?.entry;
    weight += entry?.kind === 'turn' ? 1 + entry.parts.length : 1;
  }
  return at - from;
}
