import * as React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { describe, expect, it } from 'vitest';

import { ABSENT, reduce } from '../state';
import { Breakdown } from '../view/breakdown';
import {
  formatShort,
  formatUsd,
  gaugeSentence,
  gaugeSizer,
  gaugeText,
  shareUsd,
  stepsLeft
} from '../view/format';
import { Gauge } from '../view/gauge';
import { contextMessage, names, stateAfter } from './fixtures';

describe('numbers', () => {
  it.each([
    [0, '0'],
    [999, '999'],
    [1000, '1k'],
    [5190, '5.2k'],
    [81_930, '81.9k'],
    [99_960, '100k'],
    [158_214, '158k'],
    [200_000, '200k'],
    [999_499, '999k'],
    [999_500, '1M'],
    [1_000_000, '1M'],
    [1_234_567, '1.2M']
  ])('%i tokens are %s', (tokens, short) => {
    expect(formatShort(tokens)).toBe(short);
  });

  it.each([
    [0, '0.00'],
    [0.0031, '0.0031'],
    [0.005, '0.01'],
    [1.06, '1.06']
  ])('%f USD are %s', (usd, shown) => {
    expect(formatUsd(usd)).toBe(shown);
  });
});

describe('the line in the status bar', () => {
  it.each([
    ['context_before_first_turn', 'Agent: no turn yet'],
    ['context_estimate', '≈ 11.2k of 200k · 6 %'],
    ['context_measured', '81.9k of 200k · 41 % · ≈ 9 steps'],
    ['context_compacting', 'Compacting · 79 %'],
    ['context_paused', '96 % · compaction paused'],
    ['context_window_unknown', '81.9k tokens, window unknown'],
    ['context_manual', '81.9k of 200k · 41 %'],
    ['context_small_window', '5.2k of 16.4k · 32 % · ≈ 1 step']
  ])('%s', (name, line) => {
    expect(gaugeText(stateAfter(name))).toBe(line);
  });

  it('keeps room for the longest ordinary line of its window', () => {
    for (const name of ['context_estimate', 'context_measured', 'context_compacting']) {
      const state = stateAfter(name);
      expect(gaugeText(state).length).toBeLessThanOrEqual(gaugeSizer(state).length);
    }
  });

  it.each([
    [99, '81.9k of 200k · 41 % · ≈ 99 steps', 'About 99 steps'],
    [5760, '81.9k of 200k · 41 %', 'About 5,760 steps']
  ])('names %i steps only where they keep the place', (steps_left, line, sentence) => {
    const state = stateAfter('context_measured');
    const context = state.context && {
      ...state.context,
      compaction: { ...state.context.compaction, steps_left }
    };
    const far = { ...state, context };

    expect(gaugeText(far)).toBe(line);
    expect(gaugeText(far).length).toBeLessThanOrEqual(gaugeSizer(far).length);
    expect(gaugeSentence(far)).toContain(sentence);
  });

  it('promises no step where nothing compacts by itself', () => {
    const { context } = contextMessage('context_manual');

    expect(context).not.toBeNull();
    if (context) {
      const told = { ...context.compaction, steps_left: 4 };
      expect(stepsLeft({ ...context, compaction: told })).toBeNull();
    }
  });
});

describe('the sentence', () => {
  it('is said in words', () => {
    expect(gaugeSentence(stateAfter('context_measured'))).toBe(
      'Context: 81,930 of 200,000 tokens, 41 per cent. About 9 steps until compaction. Open breakdown'
    );
    expect(gaugeSentence(stateAfter('context_estimate'))).toBe(
      'Context: about 11,204 of 200,000 tokens, an estimate, 6 per cent. Open breakdown'
    );
    expect(gaugeSentence(stateAfter('context_paused'))).toBe(
      'Compaction paused. Context: 192,000 of 200,000 tokens, 96 per cent. Open breakdown'
    );
  });
});

describe('the gauge', () => {
  const draw = (name: string, showBar = true): string =>
    renderToStaticMarkup(
      <Gauge state={stateAfter(name)} showBar={showBar} isOpen={false} onToggle={() => undefined} />
    );

  it('draws four families that fill as much of the bar as the parts do of the window', () => {
    const widths = [
      ...draw('context_measured').matchAll(/class="c-(\w+)" style="width:([\d.]+)%/g)
    ];

    expect(widths.map(([, color, width]) => [color, Number(width)])).toEqual([
      ['tools', 5.04],
      ['summary', 6.62],
      ['conversation', 13.14],
      ['results', 16.16]
    ]);
  });

  it('has no bar when the window is unknown, or the person wants none', () => {
    expect(draw('context_window_unknown')).not.toContain('jctx-bar');
    expect(draw('context_measured', false)).not.toContain('jctx-bar');
  });

  it('alarms only when compaction cannot help', () => {
    const alarmed = names().filter(
      name => name.startsWith('context_') && draw(name).includes('jctx-warn')
    );

    expect(alarmed).toEqual(['context_paused']);
  });
});

describe('the breakdown', () => {
  const draw = (name: string): string =>
    renderToStaticMarkup(<Breakdown state={stateAfter(name)} takeFocus={false} />);

  it('says what is measured and what is estimated', () => {
    expect(draw('context_measured')).toContain('81,290 measured, 640 estimated since');
    expect(draw('context_estimate')).toContain('estimated, nothing is measured yet');
  });

  it('promises no place of the next compaction where the account may come first', () => {
    expect(draw('context_measured')).toContain('compacts at ');
    expect(draw('context_measured')).toContain(' until compaction</span>');
    expect(draw('context_economic')).toContain('at the latest at ');
    expect(draw('context_economic')).not.toContain(' until compaction</span>');
  });

  it('shows neither per cent nor mark when the window is unknown', () => {
    const unknown = draw('context_window_unknown');

    expect(unknown).not.toContain('compacts at');
    expect(unknown).not.toMatch(/\d %(?!<\/b> of input)/);
    expect(unknown).toContain('price unknown');
  });

  it('fills the window: parts, free and what is left of the reserve', () => {
    const tokens = (name: string): number[] =>
      [
        ...(draw(name).split('</table>')[0] ?? '').matchAll(
          /<td class="num">([\d,]+)<\/td><td class="num">/g
        )
      ].map(([, shown]) => Number(shown?.replaceAll(',', '')));

    for (const name of ['context_measured', 'context_compacting', 'context_paused']) {
      expect(tokens(name).reduce((sum, part) => sum + part)).toBe(200_000);
    }
  });

  it('prices every kind of token, and the prices add up to what is shown of the session', () => {
    const shown = [...draw('context_economic').matchAll(/<td class="num">(\d+\.\d\d)<\/td>/g)];
    expect(shown.map(([, usd]) => usd)).toEqual(['0.36', '0.37', '0.01', '0.32']);
    expect(draw('context_economic')).toContain('<b>1.06</b>');
    expect(draw('context_window_unknown')).not.toContain('USD');
  });

  it.each([
    [[0.004, 0.004, 0.004], 0.012, ['0.01', '0.00', '0.00']],
    [[0.0011, 0.002], 0.0031, ['0.0011', '0.0020']],
    [[0, 0], 0, ['0.00', '0.00']]
  ])('rounds %j so that they add up to %f', (shares, total, shown) => {
    expect(shareUsd(shares, total)).toEqual(shown);
  });

  it('offers to compact only where that can be asked for', () => {
    const state = stateAfter('context_measured');
    const able = <Breakdown state={state} takeFocus={false} compact={() => undefined} />;
    expect(renderToStaticMarkup(able)).toContain('Compact now');
    expect(draw('context_measured')).not.toContain('Compact now');
  });

  it('says so where the provider does not tell its cache figures', () => {
    expect(draw('context_window_unknown')).toContain('from cache</th><td class="num">unknown');
  });

  it('names the largest part when compaction is paused', () => {
    expect(draw('context_paused')).toContain('part: Results, 101,916 tokens');
  });

  it('says that there is no forecast yet, whatever it waits for', () => {
    const { context } = contextMessage('context_measured');
    const unknown = context && {
      ...context,
      compaction: { ...context.compaction, steps_left: null }
    };
    const state = reduce(ABSENT, {
      type: 'context',
      phase: 'idle',
      context: unknown,
      costs: null
    });

    expect(renderToStaticMarkup(<Breakdown state={state} takeFocus={false} />)).toContain(
      'No forecast yet'
    );
  });

  it('shows the reason of a refusal, and nothing else', () => {
    const state = reduce(ABSENT, { type: 'refused', reason: 'Why it is so.' });
    const drawn = renderToStaticMarkup(<Breakdown state={state} takeFocus={false} />);

    expect(drawn).toContain('<div>Why it is so.</div></div>');
  });

  it('escapes what the kernel sent', () => {
    const { context } = contextMessage('context_measured');
    const hostile = context && { ...context, model: '<img src=x onerror=alert(1)>' };
    const state = reduce(ABSENT, {
      type: 'context',
      phase: 'idle',
      context: hostile,
      costs: null
    });

    expect(renderToStaticMarkup(<Breakdown state={state} takeFocus={false} />)).not.toContain(
      '<img'
    );
  });
});
