/** The opened gauge: every part with its number, the forecast, the cost. */

import * as React from 'react';

import { PARTS } from '../events';
import type { IContext, ICosts, IUsage, WindowSource } from '../events';
import type { IPanelState } from '../state';
import { FullBar } from './bar';
import {
  compactsByAccount,
  compactsItself,
  findLargest,
  findRoom,
  formatCount,
  formatPercent,
  formatShare,
  formatSteps,
  formatUsd,
  isEstimate,
  isSized,
  PART_NAMES,
  percent,
  shareUsd,
  stepsLeft
} from './format';
import type { Sized } from './format';

const SOURCES: Readonly<Record<WindowSource, string>> = {
  api: 'as the provider says',
  server: 'as the server says',
  error: 'learnt from a refusal',
  table: 'by the bundled table',
  unknown: 'unknown'
};

interface IBreakdown {
  state: IPanelState;
  /** Whether the dialog takes the focus when it appears. */
  takeFocus: boolean;
  /** Compact the conversation; absent where that cannot be asked for, or not now. */
  compact?: (() => void) | undefined;
}

export function Breakdown({ state, takeFocus, compact }: IBreakdown): React.ReactElement {
  const node = React.useRef<HTMLDivElement>(null);
  React.useEffect(() => {
    if (takeFocus) {
      node.current?.focus();
    }
  }, [takeFocus]);
  return (
    <div className="jctx-pop" role="dialog" aria-label="Context" tabIndex={-1} ref={node}>
      <Body state={state} compact={compact} />
    </div>
  );
}

function Body({ state, compact }: Pick<IBreakdown, 'state' | 'compact'>): React.ReactElement {
  const { link, context, costs, refusal } = state;
  if (link === 'refused') {
    return <div>{refusal}</div>;
  }
  if (!context) {
    return (
      <>
        <div>No turn yet.</div>
        <div className="small quiet">
          Type <code>%agent</code> and a question in a cell. What fills the window then stands here.
        </div>
      </>
    );
  }
  return (
    <>
      <Total context={context} />
      {isSized(context) && <Mark context={context} />}
      {isSized(context) && <FullBar context={context} />}
      <Forecast state={state} context={context} compact={compact} />
      <Parts context={context} />
      <Cost context={context} costs={costs} />
    </>
  );
}

function Total({ context }: { context: IContext }): React.ReactElement {
  const used = `${isEstimate(context) ? '≈ ' : ''}${formatCount(context.used_tokens)}`;
  return (
    <div className="row">
      {isSized(context) && <span className="big">{formatPercent(context)}</span>}
      <span className="grow">
        <b>{used}</b>
        {isSized(context) && ` of ${formatCount(context.window_tokens)}`}
        <span className="more"> tokens</span>
        <br />
        <span className="small quiet">{origin(context)}</span>
      </span>
    </div>
  );
}

function origin(context: IContext): string {
  if (isEstimate(context)) {
    return 'estimated, nothing is measured yet';
  }
  const measured = `${formatCount(context.measured_tokens)} measured`;
  return context.estimated_tokens === 0
    ? measured
    : `${measured}, ${formatCount(context.estimated_tokens)} estimated since`;
}

/** Where the window compacts, above the bar; the line keeps its height when there is no mark. */
function Mark({ context }: { context: Sized }): React.ReactElement {
  const { reserve_tokens: reserve, window_tokens: window, compaction } = context;
  if (reserve === null || !compactsItself(compaction.mode)) {
    return <div className="jctx-mark" aria-hidden="true" />;
  }
  return (
    <div className="jctx-mark" aria-hidden="true">
      <span style={{ right: `${percent(reserve, window).toFixed(2)}%` }}>
        {compactsByAccount(context) ? 'at the latest at ' : 'compacts at '}
        {formatCount(window - reserve)}
      </span>
    </div>
  );
}

function Forecast({
  state,
  context,
  compact
}: Pick<IBreakdown, 'state' | 'compact'> & { context: IContext }): React.ReactElement {
  const { compactions } = context;
  const soFar = compactions === 1 ? '1 compaction so far' : `${compactions} compactions so far`;
  return (
    <div className="row jctx-forecast">
      <span className="grow">
        {forecast(state, context)}
        {compactions > 0 && <div className="small quiet">{soFar}</div>}
      </span>
      {compact && (
        <button type="button" className="plain" onClick={compact}>
          Compact now
        </button>
      )}
    </div>
  );
}

function forecast({ phase }: IPanelState, context: IContext): React.ReactNode {
  if (phase === 'compacting') {
    return 'Compacting';
  }
  if (phase === 'paused') {
    const part = findLargest(context);
    return (
      <>
        Compaction is paused. Run <code>%agent /compact</code> to try again, or free the largest
        part: {PART_NAMES[part]}, {formatCount(context.parts[part])} tokens.
      </>
    );
  }
  switch (context.compaction.mode) {
    case 'off':
      return 'Compaction is off';
    case 'manual':
      return (
        <>
          Compacts only by <code>%agent /compact</code>
        </>
      );
    case 'crush':
    case 'claude-code':
    case 'economic':
      return stepsPhrase(stepsLeft(context));
  }
}

function stepsPhrase(steps: number | null): React.ReactNode {
  if (steps === null) {
    return 'No forecast yet';
  }
  return steps < 1 ? (
    'Compacts after this step'
  ) : (
    <>
      Compacts in <b>{`≈ ${formatSteps(steps)}`}</b>
    </>
  );
}

function Parts({ context }: { context: IContext }): React.ReactElement {
  const room = isSized(context) ? findRoom(context) : null;
  const itself = compactsItself(context.compaction.mode) && !compactsByAccount(context);
  return (
    <table className="parts">
      <thead>
        <tr>
          <th scope="col">
            Part<span className="more">, in request order</span>
          </th>
          <th scope="col" className="num">
            Tokens
          </th>
          <th scope="col" className="num">
            {isSized(context) && 'Window'}
          </th>
        </tr>
      </thead>
      <tbody>
        {PARTS.map(part => (
          <Row key={part} context={context} color={`c-${part}`} tokens={context.parts[part]}>
            {PART_NAMES[part]}
          </Row>
        ))}
        {room && (
          <>
            <Row context={context} color="box" tokens={room.free} rule>
              Free{itself && <span className="more"> until compaction</span>}
            </Row>
            <Row context={context} color="box reserve" tokens={room.reserve}>
              Reserve<span className="more"> for the answer</span>
            </Row>
          </>
        )}
      </tbody>
    </table>
  );
}

interface IRow {
  context: IContext;
  color: string;
  tokens: number;
  rule?: boolean;
  children: React.ReactNode;
}

function Row({ context, color, tokens, rule, children }: IRow): React.ReactElement {
  return (
    <tr className={rule ? 'rule' : ''}>
      <th scope="row">
        <span>
          <span className={`jctx-key ${color}`} />
          <span>{children}</span>
        </span>
      </th>
      <td className="num">{formatCount(tokens)}</td>
      <td className="num">{isSized(context) && formatShare(tokens, context.window_tokens)}</td>
    </tr>
  );
}

const KINDS: readonly (readonly [keyof IUsage, string])[] = [
  ['cache_read', 'Input read from cache'],
  ['cache_write', 'Input written to cache'],
  ['uncached', 'Input uncached'],
  ['output', 'Output']
];

interface ICost {
  context: IContext;
  costs: ICosts | null;
}

/** Tokens and money by what is charged for; where no price is known, tokens alone. */
function Cost({ context, costs }: ICost): React.ReactElement {
  const { usage, cost_usd: cost, cache_read_ratio: ratio } = context;
  const all = KINDS.reduce((sum, [kind]) => sum + (usage[kind] ?? 0), 0);
  const shares =
    cost !== null && costs
      ? shareUsd(
          KINDS.map(([kind]) => costs[kind]),
          cost
        )
      : null;
  return (
    <div className="jctx-sec">
      <table className="cost">
        <thead>
          <tr>
            <th scope="col">Cost</th>
            <th scope="col" className="num">
              Tokens
            </th>
            {cost !== null && (
              <th scope="col" className="num">
                USD
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {KINDS.map(([kind, name], at) => (
            <tr key={kind}>
              <th scope="row">{name}</th>
              <td className="num">{formatKnown(usage[kind])}</td>
              {cost !== null && <td className="num">{shares?.[at]}</td>}
            </tr>
          ))}
          <tr className="rule">
            <th scope="row">
              <b>Session</b>
            </th>
            <td className="num">{formatCount(all)}</td>
            {cost !== null && (
              <td className="num">
                <b>{formatUsd(cost)}</b>
              </td>
            )}
          </tr>
        </tbody>
      </table>
      <div className="small jctx-facts">
        {cost === null && <span>price unknown</span>}
        {ratio !== null && (
          <span>
            <b>{`${(100 * ratio).toFixed(1)} %`}</b> of input read from cache
          </span>
        )}
        <span className="quiet">
          {context.model}, window {SOURCES[context.window_source]}
        </span>
      </div>
    </div>
  );
}

function formatKnown(tokens: number | null): string {
  return tokens === null ? 'unknown' : formatCount(tokens);
}
