/**
 * Splits an answer into blocks that can be drawn one by one. Pure.
 *
 * Its law: a block that another follows never changes, however the text goes on. So what is
 * finished is drawn once, and only the last block again while it grows.
 */

export interface IBlock {
  readonly kind: 'text' | 'code';
  /** Markdown; or the code alone, without its fences. */
  readonly text: string;
  /** The word behind the opening fence; "" for text. */
  readonly language: string;
  /** Whether the fence is closed; true for text. */
  readonly isClosed: boolean;
  /** Where the block begins in the whole text. */
  readonly start: number;
}

export interface ISplit {
  readonly text: string;
  readonly blocks: readonly IBlock[];
}

export const NOTHING: ISplit = { text: '', blocks: [] };

const OPENING = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)[^`]*$/;
/** A number alone may become an item when its dot comes. */
const LIST_ITEM = /^ {0,3}(?:(?:[-*+]|\d{1,9}[.)])(?:\s|$)|\d{1,9}$)/;
const MATH = /^ {0,3}\$\$/;

/** Split `text`, taking from `past` what cannot have changed. */
export function split(text: string, past: ISplit = NOTHING): ISplit {
  if (text === past.text) {
    return past;
  }
  const last = past.blocks[past.blocks.length - 1];
  if (!last || !text.startsWith(past.text)) {
    return { text, blocks: scan(text, 0) };
  }
  return { text, blocks: [...past.blocks.slice(0, -1), ...scan(text, last.start)] };
}

interface IOpen {
  readonly start: number;
  readonly lines: string[];
  readonly isList: boolean;
}

function scan(text: string, from: number): IBlock[] {
  const blocks: IBlock[] = [];
  let open: IOpen | null = null;
  let isAfterBlank = false;
  let isMath = false;
  let at = from;
  const close = (): void => {
    if (open) {
      blocks.push(textBlock(open));
    }
    open = null;
  };
  while (at < text.length) {
    const end = text.indexOf('\n', at);
    const next = end < 0 ? text.length : end + 1;
    const line = text.slice(at, end < 0 ? text.length : end);
    const isIndented = open !== null && /^[ \t]/.test(line);
    const fence = isMath || (isIndented && open?.isList) ? null : OPENING.exec(line);
    if (fence) {
      close();
      const code = takeCode(text, at, next, fence[1] ?? '', fence[2] ?? '');
      blocks.push(code.block);
      at = code.next;
      isAfterBlank = false;
      continue;
    }
    if (!isMath && line.trim() === '') {
      isAfterBlank = true;
      open?.lines.push(line);
    } else {
      const goesOn =
        isMath || !isAfterBlank || isIndented || (open?.isList && LIST_ITEM.test(line));
      if (!goesOn) {
        close();
      }
      open ??= { start: at, lines: [], isList: LIST_ITEM.test(line) };
      open.lines.push(line);
      isAfterBlank = false;
      isMath = MATH.test(line) && !/\S.*\$\$\s*$/.test(line.trim().slice(2)) ? !isMath : isMath;
    }
    at = next;
  }
  close();
  return blocks;
}

function textBlock({ start, lines }: IOpen): IBlock {
  return { kind: 'text', text: lines.join('\n').trimEnd(), language: '', isClosed: true, start };
}

/** The code behind the fence that opens at `start`, up to one at least as long, or to the end. */
function takeCode(
  text: string,
  start: number,
  from: number,
  fence: string,
  language: string
): { block: IBlock; next: number } {
  const closing = new RegExp(`^ {0,3}\\${fence.charAt(0)}{${fence.length},}[ \\t]*$`);
  let at = from;
  while (at < text.length) {
    const end = text.indexOf('\n', at);
    const next = end < 0 ? text.length : end + 1;
    if (closing.test(text.slice(at, end < 0 ? text.length : end))) {
      const code = text.slice(from, Math.max(from, at - 1));
      return { block: { kind: 'code', text: code, language, isClosed: true, start }, next };
    }
    at = next;
  }
  const code = text.slice(from);
  return { block: { kind: 'code', text: code, language, isClosed: false, start }, next: at };
}
