/** What the page asks of the kernel: each call in parts, its answer joined, and a deadline. */

import { split } from './events';
import type { IPart } from './events';
import { CallError } from './host';

/** Longest wait for an answer, in milliseconds; `open` may have to load a long conversation. */
export const CALL_MS = 10_000;
export const OPEN_MS = 20_000;

/**
 * How often a short call is sent again until it is answered: the kernel carries out each once, and
 * the comm that the first went out on may have been that of a page which is gone.
 */
export const AGAIN_MS = 2_000;

/** So many parts a call has at most that is sent again. */
const SHORT_PARTS = 2;

/** So many characters of one call at most, in UTF-16 units. */
export const MOST_CHARS = 8_000_000;

/** One message of an answer, as the kernel sends it. */
interface IAnswerPart {
  readonly id: string;
  readonly to: string;
  readonly part: number;
  readonly parts: number;
  readonly text: string;
}

interface IWaiting {
  readonly parts: Map<number, string>;
  readonly settle: (outcome: unknown) => void;
  readonly fail: (error: CallError) => void;
  readonly timer: ReturnType<typeof setTimeout>;
  readonly again: ReturnType<typeof setInterval> | null;
}

/** The calls of one page to one kernel that have no answer yet. */
export class Calls {
  /** `client` is this page's name, `send` puts one message on the way. */
  constructor(
    private readonly _client: string,
    private readonly _send: (part: IPart<'call'>) => void
  ) {}

  /**
   * Ask the kernel; resolves with the result. Rejects with a CallError, at the latest at the
   * deadline: what the kernel says, or `lost` (no answer in time), `absent` (no extension there),
   * `broken` (an answer that is none), `too_long`.
   */
  call(op: string, args: object, deadlineMs = op === 'open' ? OPEN_MS : CALL_MS): Promise<unknown> {
    const text = JSON.stringify({ op, args });
    if (text.length > MOST_CHARS) {
      const most = 'Too long: 8 MB may be sent at once. Leave a picture out, or attach a file.';
      return Promise.reject(new CallError('too_long', most));
    }
    const id = `${this._client}-${++this._last}`; // no page gets a client's name a second time
    return new Promise((resolve, reject) => {
      const parts = split('call', id, this._client, text);
      const send = (): void => {
        parts.forEach(this._send);
      };
      const late = (): void => {
        this._end(id);
        const seconds = Math.round(deadlineMs / 1000);
        reject(new CallError('lost', `The kernel did not answer within ${seconds} s (${op}).`));
      };
      this._waiting.set(id, {
        parts: new Map(),
        settle: resolve,
        fail: reject,
        timer: setTimeout(late, deadlineMs),
        again: parts.length > SHORT_PARTS ? null : setInterval(send, AGAIN_MS)
      });
      send();
    });
  }

  /** Take a piece of an answer; one to another page, heard before, or of no shape does nothing. */
  hear(answer: unknown): void {
    const isOurs = isAnswer(answer) && answer.to === this._client;
    const waiting = isOurs ? this._waiting.get(answer.id) : undefined;
    if (!isOurs || !waiting) {
      return;
    }
    waiting.parts.set(answer.part, answer.text);
    if (waiting.parts.size < answer.parts) {
      return;
    }
    this._end(answer.id);
    const pieces = [...waiting.parts].sort(([one], [other]) => one - other);
    const outcome = readOutcome(pieces.map(([, text]) => text).join(''));
    if (outcome instanceof CallError) {
      waiting.fail(outcome);
    } else {
      waiting.settle(outcome.result);
    }
  }

  /** The kernel is gone: nothing will be answered any more. */
  abandon(kind: string, message: string): void {
    for (const [id, { fail }] of [...this._waiting]) {
      this._end(id);
      fail(new CallError(kind, message));
    }
  }

  private _end(id: string): void {
    const waiting = this._waiting.get(id);
    if (waiting) {
      clearTimeout(waiting.timer);
      clearInterval(waiting.again ?? undefined);
      this._waiting.delete(id);
    }
  }

  private readonly _waiting = new Map<string, IWaiting>();
  private _last = 0;
}

function isAnswer(data: unknown): data is IAnswerPart {
  const answer = (data ?? {}) as Readonly<Record<keyof IAnswerPart, unknown>>;
  return (
    typeof answer.id === 'string' &&
    typeof answer.to === 'string' &&
    typeof answer.text === 'string' &&
    isPlace(answer.part, answer.parts)
  );
}

/** Whether a part is one of so many, counted from 1. */
function isPlace(part: unknown, parts: unknown): boolean {
  const isWhole = Number.isInteger(part) && Number.isInteger(parts);
  return isWhole && Number(part) >= 1 && Number(part) <= Number(parts);
}

/** Return the result in the joined text of an answer, or what went wrong. */
function readOutcome(text: string): { readonly result: unknown } | CallError {
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch {
    return new CallError('broken', 'An answer of the kernel could not be read.');
  }
  const outcome = (found ?? {}) as { ok?: unknown; result?: unknown; error?: unknown };
  if (outcome.ok === true) {
    return { result: outcome.result };
  }
  const error = (outcome.error ?? {}) as { kind?: unknown; message?: unknown };
  if (outcome.ok === false && typeof error.kind === 'string' && typeof error.message === 'string') {
    return new CallError(error.kind, error.message);
  }
  return new CallError('broken', 'An answer of the kernel could not be read.');
}
