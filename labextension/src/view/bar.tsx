/** The bar: four families when small, every part when opened, free and reserve after them. */

import * as React from 'react';

import { PARTS } from '../events';
import type { Part } from '../events';
import { findRoom, formatCount, PART_NAMES, percent } from './format';
import type { Sized } from './format';

/** The small gauge shows families: each in the colour of the part that names it. */
const FAMILIES = [
  { color: 'tools', parts: ['system', 'tools'] },
  { color: 'summary', parts: ['summary', 'reinjected'] },
  { color: 'conversation', parts: ['notebook', 'conversation'] },
  { color: 'results', parts: ['results'] }
] as const;

export function MiniBar({ context }: { context: Sized }): React.ReactElement {
  return (
    <span className="jctx-bar mini" aria-hidden="true">
      {FAMILIES.map(({ color, parts }) => (
        <Piece
          key={color}
          color={color}
          tokens={parts.reduce((sum, part) => sum + context.parts[part], 0)}
          window={context.window_tokens}
        />
      ))}
      <i className="free" />
      <Reserve context={context} />
    </span>
  );
}

export function FullBar({ context }: { context: Sized }): React.ReactElement {
  return (
    <span className="jctx-bar" role="img" aria-label={describe(context)}>
      {PARTS.map(part => (
        <Piece
          key={part}
          color={part}
          tokens={context.parts[part]}
          window={context.window_tokens}
        />
      ))}
      <i className="free" />
      <Reserve context={context} />
    </span>
  );
}

interface IPartBar {
  /** What is told of it: "Before". */
  name: string;
  /** Null where only the total is known. */
  parts: Readonly<Record<Part, number>> | null;
  tokens: number;
  window: number;
  reserve: number | null;
}

/** The window before or after a compaction; with its parts where they are known. */
export function PartBar({ name, parts, tokens, window, reserve }: IPartBar): React.ReactElement {
  const told = parts
    ? PARTS.map(part => `${PART_NAMES[part]} ${formatCount(parts[part])}`).join('; ')
    : `${formatCount(tokens)} tokens`;
  const kept = Math.min(reserve ?? 0, Math.max(0, window - tokens));
  return (
    <span className="jctx-bar" role="img" aria-label={`${name}: ${told}`} title={told}>
      {parts ? (
        PARTS.map(part => <Piece key={part} color={part} tokens={parts[part]} window={window} />)
      ) : (
        <Piece color="whole" tokens={tokens} window={window} />
      )}
      <i className="free" />
      {kept > 0 && (
        <i className="reserve" style={{ width: `${percent(kept, window).toFixed(2)}%` }} />
      )}
    </span>
  );
}

interface IPiece {
  color: string;
  tokens: number;
  window: number;
}

function Piece({ color, tokens, window }: IPiece): React.ReactElement | null {
  return tokens > 0 ? (
    <i className={`c-${color}`} style={{ width: `${percent(tokens, window).toFixed(2)}%` }} />
  ) : null;
}

/** The reserve, as far as nothing has grown into it. */
function Reserve({ context }: { context: Sized }): React.ReactElement {
  const width = percent(findRoom(context).reserve, context.window_tokens);
  return <i className="reserve" style={{ width: `${width.toFixed(2)}%` }} />;
}

function describe(context: Sized): string {
  const { free, reserve } = findRoom(context);
  return [
    ...PARTS.map(part => `${PART_NAMES[part]} ${formatCount(context.parts[part])}`),
    `free ${formatCount(free)}`,
    `reserve ${formatCount(reserve)}`
  ].join('; ');
}
