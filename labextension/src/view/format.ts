/** Numbers and sentences of the gauge: pure, in the words of the interface. */

import { PARTS } from '../events';
import type { IContext, Part } from '../events';
import type { IPanelState } from '../state';

export const PART_NAMES: Readonly<Record<Part, string>> = {
  system: 'System',
  tools: 'Tools',
  summary: 'Summary',
  reinjected: 'Re-injected',
  notebook: 'Notebook',
  conversation: 'Conversation',
  results: 'Results'
};

/** A window whose size is known. */
export type Sized = IContext & { readonly window_tokens: number };

/** Whether the window's size is known: without it there is no bar and no per cent. */
export function isSized(context: IContext): context is Sized {
  return context.window_tokens !== null && context.window_tokens > 0;
}

/** Whether nothing of the number is measured. What came since the last reply is no reason for ≈. */
export function isEstimate(context: IContext): boolean {
  return context.measured_tokens === 0;
}

/** What is left of a window: until it compacts, and of the reserve. With `used` they fill it. */
export function findRoom(context: Sized): { readonly free: number; readonly reserve: number } {
  const room = Math.max(0, context.window_tokens - context.used_tokens);
  const reserve = Math.min(room, context.reserve_tokens ?? 0);
  return { free: room - reserve, reserve };
}

/** Made once: `toLocaleString` looks its locale up at each number. */
const COUNT = new Intl.NumberFormat('en-US');

/** 81,930 */
export function formatCount(tokens: number): string {
  return COUNT.format(tokens);
}

/** 640, 8.2k, 81.9k, 200k, 1.2M: at most three digits before the unit, one after the point. */
export function formatShort(tokens: number): string {
  if (tokens < 1000) {
    return String(tokens);
  }
  if (tokens < 999_500) {
    return `${scaled(tokens / 1000)}k`;
  }
  return `${scaled(tokens / 1_000_000)}M`;
}

function scaled(value: number): string {
  return value < 99.95 ? String(Math.round(value * 10) / 10) : String(Math.round(value));
}

/** Share of `tokens` in `window`, in per cent, unrounded. */
export function percent(tokens: number, window: number): number {
  return (100 * tokens) / window;
}

/** 41 % */
export function formatPercent(context: Sized): string {
  return `${Math.round(percent(context.used_tokens, context.window_tokens))} %`;
}

/** 16.2 % */
export function formatShare(tokens: number, window: number): string {
  return `${percent(tokens, window).toFixed(1)} %`;
}

/** 1.06, and a cost below half a cent with the two digits that matter: 0.0031. */
export function formatUsd(usd: number): string {
  return usd > 0 && usd < 0.005 ? usd.toPrecision(2) : usd.toFixed(2);
}

/** Shares of a cost as they are shown: with its digits, rounded so that they add up to it. */
export function shareUsd(shares: readonly number[], total: number): string[] {
  const digits = formatUsd(total).split('.')[1]?.length ?? 2;
  const unit = 10 ** digits;
  const exact = shares.map(share => Math.max(0, share) * unit);
  const whole = exact.map(Math.floor);
  const left = Math.round(total * unit) - whole.reduce((sum, one) => sum + one, 0);
  const byRest = exact.map((one, at) => [one % 1, at] as const).sort(([a], [b]) => b - a);
  for (const [, at] of byRest.slice(0, Math.max(0, left))) {
    whole[at] = (whole[at] ?? 0) + 1;
  }
  return whole.map(one => (one / unit).toFixed(digits));
}

/** The largest part: where to look when nothing more can be freed. */
export function findLargest(context: IContext): Part {
  return PARTS.reduce((best, part) => (context.parts[part] > context.parts[best] ? part : best));
}

/** The line in the status bar. */
export function gaugeText({ link, phase, context }: IPanelState): string {
  if (link === 'refused') {
    return 'Agent: other version';
  }
  if (!context) {
    return phase === 'idle' ? 'Agent: no turn yet' : 'Agent: first turn';
  }
  const mark = isEstimate(context) ? '≈ ' : '';
  if (!isSized(context)) {
    return `${mark}${formatShort(context.used_tokens)} tokens, window unknown`;
  }
  switch (phase) {
    case 'compacting':
      return `Compacting · ${mark}${formatPercent(context)}`;
    case 'paused':
      return `${mark}${formatPercent(context)} · compaction paused`;
    case 'idle':
    case 'running': {
      const used = `${formatShort(context.used_tokens)} of ${formatShort(context.window_tokens)}`;
      const steps = shortForecast(context);
      return `${mark}${used} · ${formatPercent(context)}${steps && ` · ${steps}`}`;
    }
  }
}

/** The widest line that this window brings in the ordinary run of things: keeps its place. */
export function gaugeSizer({ context }: IPanelState): string {
  return context && isSized(context)
    ? `≈ 00.0k of ${formatShort(context.window_tokens)} · 00 % · ≈ 00 steps`
    : '';
}

/** What a screen reader says, and the tooltip shows. */
export function gaugeSentence(state: IPanelState): string {
  const { link, phase, context, refusal } = state;
  if (link === 'refused') {
    return refusal ?? '';
  }
  if (!context) {
    return 'Context: no turn yet. Open breakdown';
  }
  return [before(phase), `${filling(context)}.`, forecast(phase, context), 'Open breakdown']
    .filter(Boolean)
    .join(' ');
}

function before(phase: IPanelState['phase']): string {
  return { idle: '', running: '', compacting: 'Compacting.', paused: 'Compaction paused.' }[phase];
}

function filling(context: IContext): string {
  const used = `${isEstimate(context) ? 'about ' : ''}${formatCount(context.used_tokens)}`;
  const estimate = isEstimate(context) ? ', an estimate' : '';
  return isSized(context)
    ? `Context: ${used} of ${formatCount(context.window_tokens)} tokens${estimate}, ` +
        formatPercent(context).replace('%', 'per cent')
    : `Context: ${used} tokens${estimate}, window unknown`;
}

function forecast(phase: IPanelState['phase'], context: IContext): string {
  const steps = stepsLeft(context);
  if (steps === null || phase === 'compacting' || phase === 'paused') {
    return '';
  }
  return steps < 1 ? 'Compacts after this step.' : `About ${formatSteps(steps)} until compaction.`;
}

/** The forecast for the status bar: none where it is so far off that it says nothing. */
function shortForecast(context: IContext): string {
  const steps = stepsLeft(context);
  if (steps === null || steps > 99) {
    return '';
  }
  return steps < 1 ? 'compacts next' : `≈ ${formatSteps(steps)}`;
}

export function formatSteps(steps: number): string {
  return `${formatCount(steps)} ${steps === 1 ? 'step' : 'steps'}`;
}

/** Steps until the window compacts by itself; null when it will not, or nobody knows. */
export function stepsLeft({ compaction }: IContext): number | null {
  return compactsItself(compaction.mode) ? compaction.steps_left : null;
}

/** Whether the account may compact before the reserve is reached: its price is known. */
export function compactsByAccount({ compaction }: IContext): boolean {
  return compaction.mode === 'economic' && compaction.price !== null;
}

export function compactsItself(mode: IContext['compaction']['mode']): boolean {
  return mode !== 'manual' && mode !== 'off';
}
