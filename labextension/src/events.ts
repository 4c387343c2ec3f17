/** The messages of the kernel, as jupyter_ctx/ipython/gauge.py writes them; narrowed once, here. */

import { Malformed, amount, choice, count, flag, object, orNull, say, text } from './narrow';
import type { Fields } from './narrow';

/** The one version of the protocol that this page speaks. */
export const PROTOCOL = 1;

/** The comm target that both sides use. */
export const TARGET = 'jupyter_ctx';

/** The parts of the window, in request order. */
export const PARTS = [
  'system',
  'tools',
  'summary',
  'reinjected',
  'notebook',
  'conversation',
  'results'
] as const;
export type Part = (typeof PARTS)[number];

const PHASES = ['idle', 'running', 'compacting', 'paused'] as const;
export type Phase = (typeof PHASES)[number];

const SOURCES = ['api', 'server', 'error', 'table', 'unknown'] as const;
export type WindowSource = (typeof SOURCES)[number];

const MODES = ['economic', 'crush', 'claude-code', 'manual', 'off'] as const;
export type CompactionMode = (typeof MODES)[number];

/** Tokens of the whole session, by what the provider charges for; null where it does not say. */
export interface IUsage {
  readonly uncached: number | null;
  readonly cache_read: number | null;
  readonly cache_write: number | null;
  readonly output: number | null;
}

/** What the tokens of the whole session cost, in USD. */
export type ICosts = Readonly<Record<keyof IUsage, number>>;

/**
 * What fills the window; whole tokens. `parts` add up to `used_tokens`, which is
 * `measured_tokens` + `estimated_tokens`; null is "not known". `is_estimate`: some of it is.
 */
export interface IContext {
  readonly model: string;
  readonly window_tokens: number | null;
  readonly window_source: WindowSource;
  readonly used_tokens: number;
  readonly measured_tokens: number;
  readonly estimated_tokens: number;
  readonly is_estimate: boolean;
  readonly parts: Readonly<Record<Part, number>>;
  readonly free_tokens: number | null;
  readonly reserve_tokens: number | null;
  readonly usage: IUsage;
  readonly cost_usd: number | null;
  readonly cache_read_ratio: number | null;
  readonly compactions: number;
  readonly compaction: {
    readonly mode: CompactionMode;
    readonly account: number | null;
    readonly price: number | null;
    readonly steps_left: number | null;
  };
}

/** The kernel's first message on every comm. `session` is null before the first turn. */
export interface IHello {
  readonly type: 'hello';
  readonly package_version: string;
  readonly session: string | null;
}

/** The window's filling moved, or the phase did. `context` is null before the first turn. */
export interface IContextChanged {
  readonly type: 'context';
  readonly phase: Phase;
  readonly context: IContext | null;
  /** What `context.usage` cost; null where a price is not known. */
  readonly costs: ICosts | null;
}

/** What the kernel may ask of a notebook; `hello` only for a word. */
export const OPS = [
  'hello',
  'notebook',
  'insert_cell',
  'edit_cell',
  'delete_cell',
  'move_cell',
  'set_outputs'
] as const;
export type Op = (typeof OPS)[number];

/** The kernel asks something; `to` is the client that is meant, null: whoever hears it. */
export interface IRequest {
  readonly type: 'request';
  readonly id: string;
  readonly op: Op;
  readonly args: Readonly<Record<string, unknown>>;
  readonly to: string | null;
}

/** What is answered: the result, or why not. */
export type Answer =
  { readonly ok: true; readonly result: object } | { readonly ok: false; readonly error: IRefusal };

/** `kind` says why in a word, as jupyter_ctx/ipython/frontend.py lists them. */
export interface IRefusal {
  readonly kind: string;
  readonly message: string;
  readonly [detail: string]: unknown;
}

/** One message of an answer or a call: `text` is a piece of its JSON, `part` counts from 1. */
export interface IPart<T extends 'reply' | 'call'> {
  readonly version: number;
  readonly type: T;
  readonly id: string;
  readonly client: string;
  readonly part: number;
  readonly parts: number;
  readonly text: string;
}

/**
 * Longest piece of an answer or a call, in UTF-16 units. JSON within JSON takes at most 3 bytes for each, so
 * that no message reaches 64 KB.
 */
export const PART_CHARS = 20_000;

/** Return the messages that carry `text`, each short enough; no character is torn. */
export function split<T extends 'reply' | 'call'>(
  type: T,
  id: string,
  client: string,
  text: string
): IPart<T>[] {
  const pieces: string[] = [];
  for (let start = 0; start < text.length; start += pieces[pieces.length - 1]?.length ?? 1) {
    let end = Math.min(start + PART_CHARS, text.length);
    if (end < text.length && isHighSurrogate(text.charCodeAt(end - 1))) {
      end -= 1;
    }
    pieces.push(text.slice(start, end));
  }
  return pieces.map((piece, at) => ({
    version: PROTOCOL,
    type,
    id,
    client,
    part: at + 1,
    parts: pieces.length,
    text: piece
  }));
}

/** Whether a UTF-16 unit is the first half of a character that takes two. */
export function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

/** What moves the gauge. */
export type PanelMessage = IHello | IContextChanged;

export type WireMessage = PanelMessage | IRequest;

/** Why a message was not taken: one or two sentences for the person. */
export interface IRefused {
  readonly type: 'refused';
  readonly reason: string;
}

/** Return the message in `data`, or why it is refused. Never throws, never half understands. */
export function parseMessage(data: unknown): WireMessage | IRefused {
  try {
    const fields = object(data, 'message');
    if (fields['version'] !== PROTOCOL) {
      return refuse(
        `The kernel speaks protocol ${say(fields['version'])}, this page speaks ${PROTOCOL}. ` +
          'Install one version of jupyter-ctx for both, then restart the kernel and reload the page.'
      );
    }
    return parseBody(fields);
  } catch (error) {
    if (error instanceof Malformed) {
      return refuse(`A message of the kernel could not be read: ${error.message}.`);
    }
    throw error;
  }
}

function parseBody(fields: Fields): WireMessage | IRefused {
  switch (fields['type']) {
    case 'hello':
      return {
        type: 'hello',
        package_version: text(fields, 'package_version'),
        session: fields['session'] === null ? null : text(fields, 'session')
      };
    case 'context':
      return {
        type: 'context',
        phase: choice(fields, 'phase', PHASES),
        context: fields['context'] === null ? null : parseContext(fields['context']),
        costs: fields['costs'] == null ? null : parseCosts(fields['costs'])
      };
    case 'request':
      return {
        type: 'request',
        id: text(fields, 'id'),
        op: choice(fields, 'op', OPS),
        args: object(fields['args'], 'args'),
        to: orNull(fields, 'to', text)
      };
    default:
      throw new Malformed(`its type is ${say(fields['type'])}`);
  }
}

function parseCosts(data: unknown): ICosts {
  const fields = object(data, 'costs');
  return {
    uncached: amount(fields, 'uncached'),
    cache_read: amount(fields, 'cache_read'),
    cache_write: amount(fields, 'cache_write'),
    output: amount(fields, 'output')
  };
}

function parseContext(data: unknown): IContext {
  const fields = object(data, 'context');
  if (fields['version'] !== 1) {
    throw new Malformed(`the context has version ${say(fields['version'])}`);
  }
  const parts = object(fields['parts'], 'parts');
  const usage = object(fields['usage'], 'usage');
  const compaction = object(fields['compaction'], 'compaction');
  return {
    model: text(fields, 'model'),
    window_tokens: orNull(fields, 'window_tokens', count),
    window_source: choice(fields, 'window_source', SOURCES),
    used_tokens: count(fields, 'used_tokens'),
    measured_tokens: count(fields, 'measured_tokens'),
    estimated_tokens: count(fields, 'estimated_tokens'),
    is_estimate: flag(fields, 'is_estimate'),
    parts: Object.fromEntries(PARTS.map(part => [part, count(parts, part)])) as Record<
      Part,
      number
    >,
    free_tokens: orNull(fields, 'free_tokens', count),
    reserve_tokens: orNull(fields, 'reserve_tokens', count),
    usage: {
      uncached: orNull(usage, 'uncached', count),
      cache_read: orNull(usage, 'cache_read', count),
      cache_write: orNull(usage, 'cache_write', count),
      output: orNull(usage, 'output', count)
    },
    cost_usd: orNull(fields, 'cost_usd', amount),
    cache_read_ratio: orNull(fields, 'cache_read_ratio', amount),
    compactions: count(fields, 'compactions'),
    compaction: {
      mode: choice(compaction, 'mode', MODES),
      account: orNull(compaction, 'account', amount),
      price: orNull(compaction, 'price', amount),
      steps_left: orNull(compaction, 'steps_left', count)
    }
  };
}

function refuse(reason: string): IRefused {
  return { type: 'refused', reason };
}
