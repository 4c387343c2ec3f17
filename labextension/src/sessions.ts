/** The list of sessions, in words: pure. Days and times are those of the reader. */

import type { ISessionRow } from './panel';

export interface IGroup {
  readonly name: string;
  readonly rows: readonly ISessionRow[];
}

/** Return rows, the newest first, under the words for when they were used; `now` in milliseconds. */
export function groupRows(rows: readonly ISessionRow[], now: number): IGroup[] {
  const groups: { name: string; rows: ISessionRow[] }[] = [];
  for (const row of rows) {
    const name = dayName(row.updated * 1000, now);
    const last = groups.at(-1);
    if (last?.name === name) {
      last.rows.push(row);
    } else {
      groups.push({ name, rows: [row] });
    }
  }
  return groups;
}

/** Today, Yesterday, This week, Last week, Earlier; weeks begin on Monday. */
function dayName(at: number, now: number): string {
  const days = dayOf(now) - dayOf(at);
  const weekday = (new Date(now).getDay() + 6) % 7;
  if (days <= 0) {
    return 'Today';
  }
  if (days === 1) {
    return 'Yesterday';
  }
  if (days <= weekday) {
    return 'This week';
  }
  return days <= weekday + 7 ? 'Last week' : 'Earlier';
}

/** The number of a time's day, on the reader's calendar. */
function dayOf(at: number): number {
  const date = new Date(at);
  return Math.round(Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) / DAY_MS);
}

const DAY_MS = 24 * 3600 * 1000;

/** 11:51 of the last two days, 24 Nov of this year, 24 Nov 2025; "" of a time that is none. */
export function formatWhen(updated: number, now: number): string {
  const at = new Date(updated * 1000);
  if (updated <= 0 || Number.isNaN(at.getTime())) {
    return '';
  }
  if (dayOf(now) - dayOf(at.getTime()) <= 1) {
    return at.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
  }
  const isThisYear = at.getFullYear() === new Date(now).getFullYear();
  const day = { day: 'numeric', month: 'short' } as const;
  return at.toLocaleDateString('en-GB', isThisYear ? day : { ...day, year: 'numeric' });
}

export interface IPiece {
  readonly text: string;
  readonly isFound: boolean;
}

/** Cut a text where the words searched for begin and end; together the pieces are the text. */
export function markWords(text: string, searched: string): IPiece[] {
  const words = searched.split(/\s+/u).filter(word => word !== '');
  if (words.length === 0) {
    return [{ text, isFound: false }];
  }
  const longest = words.sort((one, other) => other.length - one.length);
  const pattern = longest.map(word => word.replace(/[\\^$.*+?()[\]{}|/]/gu, '\\$&')).join('|');
  const found = `(?:${pattern})(?:\\s+(?:${pattern}))*`; // words side by side are one piece
  return text
    .split(new RegExp(`(${found})`, 'giu'))
    .map((piece, at) => ({ text: piece, isFound: at % 2 === 1 }))
    .filter(piece => piece.text !== '');
}
